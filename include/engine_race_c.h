/* The C API: a store of 8-byte keys and values of one size, from C99 and from every language that
 * can call C. Start reading here.
 *
 * A key is given as the number that its 8 bytes are, read big-endian, so that numbers and bytes
 * have one order. engine_race_key and engine_race_key_bytes go from one to the other. A value is
 * memory of the caller at any address. Its size is that of the store: engine_race_value_bytes.
 *
 * Every call that can fail returns a code. engine_race_error_message describes the calling thread's
 * last failure, and engine_race_error_number and engine_race_error_path say what the system
 * refused. No call prints, exits or lets a C++ exception out. A null handle, or null where memory
 * is needed, is ENGINE_RACE_INVALID_ARGUMENT. So is a key outside the store's key_range. Besides
 * the codes that a call names, it may answer ENGINE_RACE_OUT_OF_MEMORY.
 *
 * Memory that is given to a call may not change while the call runs, except by the call.
 *
 * Threads: every call of a store from any number of threads, also beside engine_race_close. A
 * snapshot can be read from any number of threads, an iterator by one at a time. No call may free
 * what another call uses. A thread may not be cancelled inside a call.
 *
 * Closing: engine_race_close refuses the calls that begin from then on, waits for those under way,
 * and then closes the store. The handle of a closed store may still be used, and so may its
 * snapshots and iterators: their calls are ENGINE_RACE_INVALID_ARGUMENT. Calls without a code do
 * nothing then, or answer 0 or null. The library keeps a kilobyte for each store that was closed.
 *
 * Freeing: snapshots and iterators must be freed, before their store is closed, after that, or
 * meanwhile. As with free(), options, snapshots and iterators may not be used or freed after that.
 *
 * Forks: stores, snapshots and iterators belong to the process that made them. In a forked child
 * their calls, engine_race_close included, are ENGINE_RACE_INVALID_ARGUMENT and never wait. Those
 * that free do nothing. A child that was forked in a function of the caller may not return from it.
 *
 * Functions of the caller (log, done, visit, progress) must return: no longjmp, no C++ exception
 * and no end of the thread may leave them. None may close the store, which would wait for itself.
 *
 * Structures begin with their size, which the caller sets: {.struct_bytes = sizeof(...)}. So a
 * program works with a newer library whose structures are longer. They have no padding.
 */
#ifndef ENGINE_RACE_C_H_
#define ENGINE_RACE_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Programs that were built with a header of the same major number, and a lower or the same minor
 * number, run with this library. Versions 0.x hold to that, too. */
#define ENGINE_RACE_VERSION_MAJOR 0
#define ENGINE_RACE_VERSION_MINOR 9
#define ENGINE_RACE_VERSION_PATCH 0

#define ENGINE_RACE_KEY_BYTES 8
#define ENGINE_RACE_VALUE_BYTES 4096
#define ENGINE_RACE_MIN_VALUE_BYTES 8
#define ENGINE_RACE_MAX_VALUE_BYTES 1048576
#define ENGINE_RACE_LOG_TEXT_BYTES 1024

typedef enum engine_race_code {
  ENGINE_RACE_OK = 0,
  ENGINE_RACE_NOT_FOUND = 1,
  ENGINE_RACE_CORRUPTION = 2,
  ENGINE_RACE_NOT_SUPPORTED = 3,
  ENGINE_RACE_INVALID_ARGUMENT = 4,
  ENGINE_RACE_IO_ERROR = 5,
  ENGINE_RACE_INCOMPLETE = 6,
  ENGINE_RACE_TIMED_OUT = 7,
  ENGINE_RACE_FULL = 8,
  ENGINE_RACE_OUT_OF_MEMORY = 9,
  ENGINE_RACE_BUSY = 10
} engine_race_code;

typedef struct engine_race_store engine_race_store;
typedef struct engine_race_options engine_race_options;
typedef struct engine_race_log_queue engine_race_log_queue;
typedef struct engine_race_batch engine_race_batch;
typedef struct engine_race_snapshot engine_race_snapshot;
typedef struct engine_race_iterator engine_race_iterator;

/* "0.9.0": of the library, which may be newer than the header. */
const char* engine_race_version(void);
/* "kNotFound"; "unknown code" for a number that is no code. */
const char* engine_race_code_name(int code);
/* One line about the last call of this thread that failed; empty if there is no more to say than
 * the code. Good until the thread's next failure. Never null. */
const char* engine_race_error_message(void);
/* The errno of the system call behind that failure, as ENOSPC; 0 where no such call has failed. */
int engine_race_error_number(void);
/* The file or directory that the failure is about; empty where it is about none. Absolute when an
 * open one failed, else as given. Good until the thread's next failure. Never null. */
const char* engine_race_error_path(void);
/* Frees a text that a call of this library gave. Null is fine. */
void engine_race_free(void* memory);

/* Long calls, which work in pieces: engine_race_compact, _checkpoint, _backup, _restore, _verify,
 * _verify_backup and _copy, and _write_many, _delete_many, _read_many and _snapshot_read_many.
 *
 * They call `progress` after each piece with how many records are done, and with a number that they
 * do not exceed. Another answer than 0 cancels the call, even if all is done by then. It begins no
 * further piece, cleans up as after a failure, and answers INCOMPLETE. A function that looks at a
 * flag lets a signal handler or another thread cancel.
 *
 * This sets the function for the calling thread's calls from now on; null, as at first: none. That
 * thread calls it, and no other thread does. Calls that the function itself makes have none, unless
 * it sets one for them, which ends with it. In engine_race_compact it may not write to the store or
 * compact it: that would wait for itself. */
typedef int (*engine_race_progress_fn)(void* argument, uint64_t done_count, uint64_t most_count);
void engine_race_set_progress(engine_race_progress_fn progress, void* argument);

/* From 8 bytes to the key and back. engine_race_key(NULL) is 0, and engine_race_key_bytes does
 * nothing with NULL. */
uint64_t engine_race_key(const void* key_bytes);
void engine_race_key_bytes(uint64_t key, void* key_bytes);

/* Options. Their names, values and defaults are those of Options in engine_race/base/options.h. */

/* Null when memory is refused. */
engine_race_options* engine_race_options_create(void);
void engine_race_options_destroy(engine_race_options* options);
/* The name of the option with that number; null behind the last one. */
const char* engine_race_option_name(size_t index);
/* Sets an option from a text: "2147483648", "2g", "true", "io_uring", "0700" for modes of files,
 * "/a:/b" for paths, in which \: is a colon and \\ a backslash. INVALID_ARGUMENT for an unknown
 * name and for a text that does not parse. engine_race_open checks the ranges of values. */
int engine_race_options_set(engine_race_options* options, const char* name, const char* value);
/* *value is a text for engine_race_free. */
int engine_race_options_get(const engine_race_options* options, const char* name, char** value);
/* `log` is called with 0, 1 or 2 for information, warnings and errors, and with a message. Any
 * thread may call it, also while the store holds locks: it must not call the store. Null: nothing
 * is logged, which is the default. */
typedef void (*engine_race_log_fn)(void* argument, int level, const char* message);
int engine_race_options_set_log(engine_race_options* options, engine_race_log_fn log,
                                void* argument);

/* A log that is read later, for programs whose functions may not run in the library's threads: an
 * interpreter with a lock of its own, for example. Its calls may come from any thread. */

typedef struct engine_race_log_message {
  size_t struct_bytes;                   /* sizeof(engine_race_log_message) */
  uint64_t level;                        /* as of engine_race_log_fn */
  uint64_t time_ns;                      /* since 1970, when it was logged */
  char text[ENGINE_RACE_LOG_TEXT_BYTES]; /* with a 0 at its end, cut off where it is longer */
} engine_race_log_message;

/* Keeps up to `max_count` messages, 1 to 65536. When it is full, it drops further ones. A warning
 * behind the last message says how many. */
int engine_race_log_queue_create(size_t max_count, engine_race_log_queue** queue);
/* While no other call of the queue runs. Stores that log into it may be open still: nobody gets
 * their messages then. Null is fine. */
void engine_race_log_queue_destroy(engine_race_log_queue* queue);
/* Takes the place of engine_race_options_set_log. Null: nothing is logged. */
int engine_race_options_set_log_queue(engine_race_options* options, engine_race_log_queue* queue);
/* The number of messages that wait, which changes at any time. Good until the queue is destroyed:
 * a program can look without a call. */
const volatile uint32_t* engine_race_log_queue_waiting(const engine_race_log_queue* queue);
/* Takes the oldest message. NOT_FOUND when none waits; engine_race_error_message is as before then.
 * In a forked child of the process that made the queue none waits: the number is 0 from then on. */
int engine_race_log_queue_take(engine_race_log_queue* queue, engine_race_log_message* message);

/* Stores. */

/* Opens the store in `directory`, made when missing. Options may be null, and may be destroyed
 * afterwards. IO_ERROR when another opener holds the store. INCOMPLETE with the option read_only
 * when a recovery fails. INVALID_ARGUMENT also: the directory of a new store holds other files, and
 * create_among_files is false; or value_bytes is neither the store's nor 0. A new store takes 0 as
 * ENGINE_RACE_VALUE_BYTES, the default. *store is null after a failure. */
int engine_race_open(const char* directory, const engine_race_options* options,
                     engine_race_store** store);
/* The bytes of each value; 0 for null and for a closed store. */
uint32_t engine_race_value_bytes(const engine_race_store* store);
/* Waits for calls that are under way and for reads that were started, and closes the store. Null
 * is fine. INVALID_ARGUMENT when it is closed, and at once when another thread is closing it. */
int engine_race_close(engine_race_store* store);

/* Once OK, the record outlives the process, however it ends. FULL, IO_ERROR, CORRUPTION:
 * Store::Write in engine_race/store.h says when the record may be there after a failure. */
int engine_race_write(engine_race_store* store, uint64_t key, const void* value);
/* Deleting what is not there succeeds. */
int engine_race_delete(engine_race_store* store, uint64_t key);
/* On failure `value` is left as it was. NOT_FOUND, CORRUPTION, IO_ERROR. */
int engine_race_read(engine_race_store* store, uint64_t key, void* value);

/* Many records in one call: keys[i] goes with the value at values + i * value_bytes. */

/* Writes in order and stops at the first failure, which it returns, and where it is cancelled.
 * *written, if not null, is how many records were written before. A piece is 256 records. */
int engine_race_write_many(engine_race_store* store, size_t count, const uint64_t* keys,
                           const void* values, size_t* written);
int engine_race_delete_many(engine_race_store* store, size_t count, const uint64_t* keys,
                            size_t* deleted);
/* Keeps many reads in flight. codes[i] is what engine_race_read would answer for keys[i]. Values
 * that are not read are left as they were. Fails as a whole if nothing was read, and with
 * INCOMPLETE when it is cancelled: keys that were not read have that code. A piece is 4096 keys. */
int engine_race_read_many(engine_race_store* store, size_t count, const uint64_t* keys,
                          void* values, int* codes);

/* Starts a read and returns. `done` is called once with the code, by a thread of the store or
 * before this returns; it may not block. Of the store it may call engine_race_read_async and the
 * statistics: read_many might wait for this very thread. `value` must live until then. After
 * a failure of this call itself `done` is not called. The option async_read_limit bounds the reads
 * that are pending. At that limit this waits until a `done` has returned: hold no lock that `done`
 * takes. With async_read_waits off it answers BUSY instead. In `done` it never waits: one read may
 * be started in place of the one that has ended, and further ones may be BUSY. */
typedef void (*engine_race_done_fn)(void* argument, int code);
int engine_race_read_async(engine_race_store* store, uint64_t key, void* value,
                           engine_race_done_fn done, void* argument);

/* Batches: writes and deletions that a store takes as a whole. A batch copies its values. It
 * belongs to no store, may be written several times, and is used by one thread at a time. */

/* For values of this size. Null when memory is refused, and for a size that no store has. */
engine_race_batch* engine_race_batch_create(uint32_t value_bytes);
/* Null is fine. */
void engine_race_batch_destroy(engine_race_batch* batch);
/* Later entries of a key win. OUT_OF_MEMORY: the batch is as it was. */
int engine_race_batch_write(engine_race_batch* batch, uint64_t key, const void* value);
/* Many of them: keys[i] goes with the value at values + i * value_bytes. */
int engine_race_batch_write_many(engine_race_batch* batch, size_t count, const uint64_t* keys,
                                 const void* values);
int engine_race_batch_delete(engine_race_batch* batch, uint64_t key);
/* Makes room for these counts of entries in all. */
int engine_race_batch_reserve(engine_race_batch* batch, size_t write_count, size_t delete_count);
/* Drops all entries and keeps their memory for the next ones. Null is fine. */
void engine_race_batch_clear(engine_race_batch* batch);
/* Entries, earlier ones of a key included; 0 for null. */
size_t engine_race_batch_size(const engine_race_batch* batch);
/* Writes all entries or none; Store::Write in engine_race/store.h says when a kill or a power loss
 * takes all of them. The codes of engine_race_write. INVALID_ARGUMENT for another size, too. */
int engine_race_write_batch(engine_race_store* store, const engine_race_batch* batch);

/* Once OK, writes that were acknowledged before outlive a power loss. */
int engine_race_sync(engine_race_store* store);
/* With the option follow: once OK, reads see what the writer had acknowledged before. */
int engine_race_refresh(engine_race_store* store);

/* Gives back the space of overwritten and deleted records that no snapshot or iterator can see,
 * while other calls go on, and syncs the store. FULL, IO_ERROR, CORRUPTION: no record is lost. */
int engine_race_compact(engine_race_store* store);

/* Visits the records from *lower on and below *upper in ascending order of key. A null bound is
 * open on its side. `value` is good during the call. A visitor that answers other than 0 ends the
 * walk, which is OK then. It may call the store. */
typedef int (*engine_race_visit_fn)(void* argument, uint64_t key, const void* value);
int engine_race_range(engine_race_store* store, const uint64_t* lower, const uint64_t* upper,
                      engine_race_visit_fn visit, void* argument);

/* Copies of an open store, made while other calls go on. Directories must be missing or empty. */

typedef struct engine_race_backup_report {
  size_t struct_bytes;   /* sizeof(engine_race_backup_report) */
  uint64_t record_count; /* live records at the moment of the backup */
  uint64_t value_count;  /* those whose values this backup holds itself */
  uint64_t chain_length; /* backups that a restore needs: 1 for a full one */
  uint64_t size_bytes;   /* of the files of this backup */
} engine_race_backup_report;

/* Makes a store of its own: what the latest state is at one moment of the call. It shares blocks
 * with this store where the file system can. INVALID_ARGUMENT, FULL, CORRUPTION. IO_ERROR also when
 * writing to this store has ended: no call copies it then. */
int engine_race_checkpoint(engine_race_store* store, const char* directory);
/* Writes a backup: of what changed since the backup in `since`, or, where that is null, of
 * everything. INVALID_ARGUMENT where the store cannot go on from `since`: it was put back to a
 * state before it, for example. The report may be null. */
int engine_race_backup(engine_race_store* store, const char* directory, const char* since,
                       engine_race_backup_report* report);

/* Snapshots: a state of the store that stays readable while writers go on. */

int engine_race_snapshot_take(engine_race_store* store, engine_race_snapshot** snapshot);
void engine_race_snapshot_release(engine_race_snapshot* snapshot);
int engine_race_snapshot_read(const engine_race_snapshot* snapshot, uint64_t key, void* value);
/* As engine_race_read_many, of what the snapshot shows. */
int engine_race_snapshot_read_many(const engine_race_snapshot* snapshot, size_t count,
                                   const uint64_t* keys, void* values, int* codes);
int engine_race_snapshot_range(const engine_race_snapshot* snapshot, const uint64_t* lower,
                               const uint64_t* upper, engine_race_visit_fn visit, void* argument);

/* Iterators: walks in order of key, both ways, at one state of the store. */

typedef struct engine_race_iterator_options {
  size_t struct_bytes;                  /* sizeof(engine_race_iterator_options) */
  const engine_race_snapshot* snapshot; /* null: the latest state */
  const uint64_t* lower;                /* null: open; the bound itself is included */
  const uint64_t* upper;                /* null: open; the bound itself is not included */
  uint64_t prefetch_records;            /* values read at once, 1 to 64; 0: as walks want them */
  uint64_t refresh_every_steps;         /* moves on to the latest state; 0: never */
} engine_race_iterator_options;

/* Options may be null. It stands at no record until the first seek. */
int engine_race_iterator_create(engine_race_store* store,
                                const engine_race_iterator_options* options,
                                engine_race_iterator** iterator);
void engine_race_iterator_destroy(engine_race_iterator* iterator);
/* 1 when it stands at a record. 0 behind the last one and after a failure. */
int engine_race_iterator_valid(const engine_race_iterator* iterator);
/* OK, or what ended the walk. The next seek clears it. */
int engine_race_iterator_status(const engine_race_iterator* iterator);
void engine_race_iterator_seek_to_first(engine_race_iterator* iterator);
void engine_race_iterator_seek_to_last(engine_race_iterator* iterator);
/* To the first record at or after `key`; to the last one at or before it. */
void engine_race_iterator_seek(engine_race_iterator* iterator, uint64_t key);
void engine_race_iterator_seek_for_prev(engine_race_iterator* iterator, uint64_t key);
/* They do nothing unless it stands at a record. */
void engine_race_iterator_next(engine_race_iterator* iterator);
void engine_race_iterator_prev(engine_race_iterator* iterator);
/* 0 where it stands at no record. */
uint64_t engine_race_iterator_key(const engine_race_iterator* iterator);
/* Good until the iterator is used again or its store is closed. Null where it stands at no record,
 * and when the value cannot be read: the iterator is not valid then. */
const void* engine_race_iterator_value(engine_race_iterator* iterator);
/* Takes up to `count` records from where it stands, in ascending order, and moves behind them.
 * `values` may be null. *taken is how many there were; fewer than `count` only at the end of the
 * walk and after a failure. */
int engine_race_iterator_take(engine_race_iterator* iterator, size_t count, uint64_t* keys,
                              void* values, size_t* taken);
/* Moves on to the latest state. It stands at no record then. */
int engine_race_iterator_refresh(engine_race_iterator* iterator);

/* Counters of a store, each a number with a name. Their meanings are in engine_race/store_stats.h.
 * A program looks for the names that it wants: their numbers differ between versions. */

/* The name of the counter with that number; null behind the last one. */
const char* engine_race_stat_name(size_t index);
/* Copies the first `count` of them into `values`, in the order of their numbers. *given is how many
 * were copied, less than `count` where there are no more. */
int engine_race_stats(engine_race_store* store, uint64_t* values, size_t count, size_t* given);

/* Space on disk that values of the first `count` buckets take, in order of key: of live records,
 * and of overwritten and deleted ones, as far as known. Either array may be null. *given is how
 * many buckets were given, less than `count` where there are no more. BucketSpace in
 * engine_race/store_stats.h says how they are counted. */
int engine_race_bucket_space(engine_race_store* store, uint64_t* live_bytes, uint64_t* dead_bytes,
                             size_t count, size_t* given);

/* How long the calls and steps of one kind took, since the store was opened. Calls of snapshots
 * are included. Percentiles are right to within 1/32. */
typedef struct engine_race_latency {
  uint64_t count;
  uint64_t mean_ns;
  uint64_t p50_ns;
  uint64_t p95_ns;
  uint64_t p99_ns;
  uint64_t p999_ns; /* of 99.9 % */
  uint64_t max_ns;
} engine_race_latency;

typedef struct engine_race_latencies {
  size_t struct_bytes;             /* sizeof(engine_race_latencies) */
  uint64_t measured;               /* 1 with the option latency_stats; else all that follows is 0 */
  engine_race_latency read;        /* of one key */
  engine_race_latency multi_read;  /* whole calls that read many */
  engine_race_latency async_read;  /* until `done` is called */
  engine_race_latency write;       /* and delete; of many in one call, each record */
  engine_race_latency range;       /* whole calls, with their visits */
  engine_race_latency sync;        /* calls */
  engine_race_latency group_write; /* the write of a full group from staging to its log */
  engine_race_latency flush;       /* of a log file or of the journal to the device */
} engine_race_latencies;

int engine_race_latency_stats(engine_race_store* store, engine_race_latencies* latencies);

/* A text about a store; *text is for engine_race_free. Names: "io_backend" and "write_backend";
 * "key_range", the keys that it takes, as the option is written; "stats", a line for each counter
 * and latency; "prometheus", the same in Prometheus' text format. Others: INVALID_ARGUMENT. */
int engine_race_property(engine_race_store* store, const char* name, char** text);

/* Closed stores. Options may be null. */

typedef struct engine_race_report {
  size_t struct_bytes;   /* sizeof(engine_race_report) */
  uint64_t record_count; /* read, overwritten records and deletions included */
  uint64_t bad_count;
  uint64_t lost_tail_count; /* that the next opening cuts off: a power loss has taken them */
  /* Of the index on disk: records that were compared, and buckets that must be built anew. */
  uint64_t index_record_count;
  uint64_t index_unusable_bucket_count;
} engine_race_report;

/* Reads every record and compares it with its checksums. CORRUPTION when something is bad. The
 * report may be null. */
int engine_race_verify(const char* directory, const engine_race_options* options,
                       engine_race_report* report);
/* Copies a store into a directory that is missing or empty, and verifies it on the way. */
int engine_race_copy(const char* from, const char* to, const engine_race_options* options,
                     engine_race_report* report);
/* Makes a store of a backup and its parents, in a directory that is missing or empty. Compares all
 * that it reads with its checksums. CORRUPTION for a damaged or unfinished backup, INVALID_ARGUMENT
 * for a missing or wrong parent, NOT_FOUND. The report may be null. */
int engine_race_restore(const char* backup, const char* to, const engine_race_options* options,
                        engine_race_backup_report* report);
/* Reads all that a restore would read. Answers as it. */
int engine_race_verify_backup(const char* backup, const engine_race_options* options,
                              engine_race_backup_report* report);

#ifdef __cplusplus
}
#endif

#endif /* ENGINE_RACE_C_H_ */
