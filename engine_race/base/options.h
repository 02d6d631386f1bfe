// All geometry and tuning of a store, with defaults that serve. Start here to configure.
//
// Geometry is written into a new store's manifest. An existing store keeps its own and ignores
// these fields, but for paths and key_range. Everything else applies to this opening only.
#ifndef ENGINE_RACE_BASE_OPTIONS_H_
#define ENGINE_RACE_BASE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/key_range.h"
#include "engine_race/base/status.h"

namespace engine_race {

inline constexpr uint32_t kKeyBytes = 8;
// Of a value: of the contest's stores, and by default.
inline constexpr uint32_t kValueBytes = 4096;
inline constexpr uint32_t kMinValueBytes = 8;
inline constexpr uint32_t kMaxValueBytes = 1024 * 1024;
// The bytes that a store keeps of a record beside its value.
inline constexpr uint64_t kKeyEntryBytes = 32;

// Limits of the geometry.
inline constexpr uint32_t kMaxBucketCount = 65536;
inline constexpr uint32_t kMaxFileCount = 1024;
inline constexpr uint64_t kMaxBucketRecords = uint64_t{1} << 31;
inline constexpr uint32_t kMinGroupBytes = 4096;
inline constexpr uint32_t kMaxValueGroupBytes = 1024 * 1024;
inline constexpr uint32_t kMaxKeyGroupBytes = 8 * 1024;
// Of values, or of key entries.
inline constexpr uint32_t kMaxGroupRecords = 256;
inline constexpr uint64_t kMinMemoryBudgetBytes = uint64_t{16} << 20;
inline constexpr uint64_t kMaxMemoryBudgetBytes = uint64_t{1} << 62;
inline constexpr uint32_t kMaxBuildThreadCount = 1024;
inline constexpr uint32_t kMaxWorkerCount = 1024;
inline constexpr uint32_t kMaxTasksPerWorker = 4096;
inline constexpr uint32_t kMaxAsyncReadLimit = 1 << 20;
inline constexpr uint32_t kMaxPathCount = 64;
inline constexpr uint32_t kMinStatsIntervalMs = 10;
inline constexpr uint32_t kMaxStatsIntervalMs = 3600 * 1000;
inline constexpr uint64_t kJournalStepBytes = uint64_t{2} << 20;
inline constexpr uint64_t kMinJournalBytes = uint64_t{4} << 20;
inline constexpr uint64_t kMaxJournalBytes = uint64_t{4} << 30;

// Of memory_budget_bytes: a share of the memory that the process may use. Of hot_value_bytes: what
// the rest of the budget leaves. Of index_memory_bytes: as much as the budget allows.
inline constexpr uint64_t kAutoBytes = ~uint64_t{0};

enum class LogLevel { kInfo, kWarning, kError };

// Called by any thread, also while the engine holds locks: it must not call the engine.
using LogFn = std::function<void(LogLevel level, std::string_view message)>;

inline void Log(const LogFn& log, LogLevel level, std::string_view message) {
  if (log) log(level, message);
}

// The back end that keeps many reads in flight for MultiRead, ReadAsync, scans and index builds.
// With kPsync every write is a pwrite. With any other back end, values that fill separate gaps may
// be written with Linux native asynchronous I/O. A back end that does not work here is replaced by
// the best one that does, with a warning in the log.
enum class IoBackend {
  kAuto,     // io_uring where a read through it works, else libaio unless page_cache, else psync
  kPsync,    // blocking preads by a small pool of threads
  kLibaio,   // Linux native asynchronous I/O
  kIoUring,  // io_uring; containers often refuse it
};

// From when on an acknowledged write is durable. In every mode it outlives the process, however the
// process ends. Store::Sync makes all acknowledged writes durable at any time.
enum class SyncMode {
  kNone,        // power loss may take what was written since the last Sync
  kEveryWrite,  // each write is flushed to the device, by itself, before it returns
  kGroup,       // as kEveryWrite, but writers that wait at the same time share one flush
};

// How an acknowledged record reaches the kernel before its group goes to the log.
enum class StagingMode {
  // Through a shared mapping where a store into a reserved page cannot fail, which ext4, XFS and
  // tmpfs promise; kWritten elsewhere. Also kWritten where the mapping would usually take more than
  // half of the memory that the control group and the machine have.
  kAuto,
  // With pwrite. A full disk or a bad block is then an error code on every file system. A write
  // costs three system calls.
  kWritten,
};

// Where the store's memory lies, and where its own threads run, on machines with several NUMA
// nodes: see numa/store_placement.h.
enum class NumaMode {
  kNone,        // wherever the threads that use the memory first happen to run
  kInterleave,  // spread over the nodes
  kBind,        // on the nodes that are named
};

// Whether the store gives the space of overwritten and deleted records back.
enum class Reclaim {
  kOff,         // only Store::Compact does; a write to a full bucket answers kFull
  kBackground,  // a thread of the store does, beside all calls
};

struct NumaOptions {
  NumaMode mode = NumaMode::kNone;
  // By their numbers. For kBind at least one; none for kInterleave means all.
  std::vector<uint32_t> nodes;
};

struct Options {
  // Geometry of a new store.

  // The size of every value: 8 to 1048576. An existing store opens only with its own size, else
  // kInvalidArgument. 0: the store's own; a new store gets the default.
  uint32_t value_bytes = kValueBytes;
  // Stretches of neighbouring keys: a power of two, 1 to 65536, at least file_count. With values
  // above 16 KiB a store has at most 16 MiB / value_bytes buckets, or 16 if that is more. The
  // quotient is rounded down to a power of two. It has no more files than buckets.
  uint32_t bucket_count = 1024;
  // Key files, and as many value files: a power of two, 1 to 1024.
  uint32_t file_count = 32;
  // Records that one bucket can hold at one time: a power of two, at most 2^31, at least one group
  // of values and of keys.
  uint64_t bucket_capacity_records = kMaxBucketRecords;
  // Values go to their log in groups of about this size: a power of two, 4 KiB to 1 MiB. A group
  // has a power of two of records, at most 256, which fill this size and whole blocks of 4 KiB.
  uint32_t value_group_bytes = 128 * 1024;
  // Key entries go to their log in groups of this size: 4 KiB or 8 KiB.
  uint32_t key_group_bytes = 4096;
  // Where the values lie: directories, made when missing, or raw block devices, at most 64. The
  // value logs are striped over them (RAID-0), and disks of different sizes are filled. Empty: in
  // the store's own directory.
  //
  // For an existing store: its own paths, in their order, wherever they have moved to. Empty: the
  // paths that its manifest names.
  std::vector<std::string> paths;

  // The keys that the store takes. Its buckets are divided over them. Other keys are
  // kInvalidArgument, and bounds are clipped. Without a value a new store takes all keys, and an
  // existing one keeps its own. Another range than an existing store's is kInvalidArgument.
  std::optional<KeyRange> key_range;

  // Permissions of directories and files that the store makes, less the umask: at least 0700 and
  // 0600, at most 0777. Directories that exist keep theirs.
  uint32_t directory_mode = 0700;
  uint32_t file_mode = 0600;

  // Tuning of this opening.

  // For everything: index, range buffers, staging, hot values. At least 16 MiB, and what 64 values
  // take. The index is paged where it does not fit. It takes more than its share only while it
  // cannot be written to disk; a warning goes to the log then.
  //
  // By default a quarter of the memory that the process may use. That is the machine's, or the
  // limit of its control group if that is lower, as of the opening. A sixteenth with read_only,
  // since other processes may read the same store. At least 16 MiB. A program with several stores
  // must divide the memory itself. The page cache, and what a cleaning takes (see reclaim), are not
  // part of it.
  uint64_t memory_budget_bytes = kAutoBytes;
  // Memory for values that are read again and again, as part of the budget; taken as it is used. At
  // most the budget; lowered to it if that is the default one. 0: every read of a value that is in
  // its log goes to the disk.
  //
  // Frames and ranges divide what index, staging and workers leave, first come first served. Frames
  // hold values and blocks of the index. An eighth is kept for each, and at least 8 MiB for ranges
  // and 64 frames of blocks. Both give memory back as the index grows, frames first. When one of
  // them wants an eighth more and the other's memory lay idle meanwhile, the idle memory moves.
  // Frames of blocks and those of values that do not have 4 KiB divide their memory likewise.
  uint64_t hot_value_bytes = kAutoBytes;
  // The index is kept flat, which means whole and in memory, while it takes at most this, as part
  // of the budget. Otherwise it is paged as a whole: its blocks are read from the index on disk
  // through frames. At most the budget, as above. 0: always paged.
  uint64_t index_memory_bytes = kAutoBytes;
  // The most bytes of the index that closing the store writes. The next opening builds the rest
  // from the key logs. 0: closing writes none of the index.
  uint64_t index_close_bytes = uint64_t{4} << 30;
  // Sync writes the index to disk if that takes at most this many bytes. The values that were
  // written since it last did must take 20 times as many bytes. 0: never.
  uint64_t index_sync_bytes = uint64_t{64} << 20;
  // The index is written to disk when the store has been idle for this many milliseconds. It is
  // idle while it stores nothing and ends fewer than 256 reads and ranges. 0: never.
  uint32_t index_idle_ms = 1000;
  // Threads that build the index for a call that waits for all of it. 0 means one per available
  // CPU, or two where the index does not fit its memory. Up to 16 more open it from disk first.
  // Behind a first Read 4 threads restore buckets. If some must be built, as many threads do as
  // build an index, at most 12.
  uint32_t build_thread_count = 0;
  IoBackend io_backend = IoBackend::kAuto;
  // Of io_uring, for devices and machines that gain by them. iopoll: the kernel polls for
  // completions instead of taking interrupts. sqpoll: a thread of the kernel takes the requests.
  // Each is tried with a real read and left out, with a warning in the log, where that fails.
  bool io_uring_iopoll = false;
  bool io_uring_sqpoll = false;
  // For read_only alone, else kInvalidArgument. Reads the files of keys and values through the
  // kernel's page cache, not around it (O_DIRECT). So processes that read one store share the
  // memory of what they read. Hot values are off then unless hot_value_bytes gives them memory, and
  // so is io_uring_iopoll. Raw devices are read around the page cache in any case.
  bool page_cache = false;
  // Workers of MultiRead and ReadAsync, each with its own ring: 0 means one per available CPU.
  uint32_t worker_count = 0;
  // Reads that one worker keeps in flight at most: 1 to 4096. Each takes 1 KiB of the budget, and a
  // buffer for the blocks around a value. Of large values a worker reads fewer at a time, but at
  // least four. All buffers of workers take no more than a sixteenth of the budget, and those of a
  // worker no more than 16 MiB. A worker may have 4 KiB for each task, if that is more. There are
  // fewer workers where four each would take more.
  uint32_t tasks_per_worker = 128;
  // Asynchronous reads that are pending at most, which means that they were started and their
  // functions have not returned: up to 2^20. 0: twice as many as all workers keep in flight, and at
  // least 1024. Each takes 128 bytes of the budget, and what its function holds beside it.
  uint32_t async_read_limit = 0;
  // At that limit ReadAsync waits until one has ended; else it answers kBusy at once. See
  // Store::ReadAsync for calls from the function of a read, which never wait.
  bool async_read_waits = true;
  // New stores take raw devices among their paths even when these hold something.
  bool overwrite_devices = false;
  StagingMode staging_mode = StagingMode::kAuto;
  SyncMode sync_mode = SyncMode::kNone;
  // Sync when the store is closed. Without it the first opening after a reboot reads and verifies
  // whatever was written since the last Sync.
  bool sync_on_close = false;
  // Released iterators leave their memory to the next ones.
  bool cache_iterators = true;
  // Disk space for the commit journal that the sync modes other than kNone keep: a multiple of
  // 2 MiB, 4 MiB to 4 GiB. Half of it is how much is written between two checkpoints.
  uint64_t journal_bytes = uint64_t{256} << 20;
  // docs/space.md describes reclaim. A cleaning takes memory beside the budget: 40 bytes for each
  // slot of its bucket, and up to 56 MiB.
  Reclaim reclaim = Reclaim::kBackground;
  // The share of a bucket's slots that background reclaim leaves without live records: 1 to 99.
  // Values take about 100 / (100 - percent) times the space of live records, in whole rows. A small
  // bucket may have two rows without live records instead, but a quarter of these at most. At times
  // a bucket takes a sixteenth more, or a row.
  uint32_t reclaim_dead_percent = 15;
  // The most bytes a second that background reclaim writes again, on average over each cleaning;
  // 0: no limit. Without a limit writers clean buckets themselves where the store's thread falls
  // behind. With one they do not, and an idle store is not compacted. In any case a write cleans
  // its bucket if that has no slots left, or as many rows as it may have.
  uint64_t reclaim_bytes_per_second = 0;
  // Compare every value read or visited with its checksum.
  bool verify_checksums = true;
  // Measure how long calls take: see Store::Latencies. Off, because reading the clock twice a call
  // took 45 ns where it was measured. That is more than a tenth of the time of reading a hot value,
  // and less than a hundredth of reading one from a device. Takes 75 KiB of memory for each CPU, up
  // to eight.
  bool latency_stats = false;
  // After each such interval the store writes its stats to the file `manifest_stats` in its
  // directory, which `bin/store top` reads. 10 to an hour; 0: never. Where that fails, the store
  // does without, with a warning in the log.
  uint32_t stats_interval_ms = 0;
  // Opens an existing store for reading only, beside any number of such openings and no writer. A
  // directory without a store is kNotFound, and calls that would write are kInvalidArgument. The
  // store may lie on a read-only mount, in files that the opener may only read. Nothing is written
  // to it, unless it needs a recovery: then Open opens it for writing first, see Store::Open. No
  // effect have create_if_missing, index_close_bytes, index_sync_bytes, index_idle_ms, reclaim,
  // stats_interval_ms, sync_mode and sync_on_close.
  bool read_only = false;
  // Follows a store that a process of this machine may be writing: read_only beside a writer. The
  // store shows of each bucket the records below some count. Store::Refresh moves on to what the
  // writer has by then; see there, and docs/using.md. Takes no lock, so no writer is held up.
  // kInvalidArgument with page_cache or without verify_checksums. kNotSupported for a store with
  // values on a raw device.
  bool follow = false;
  // False: opening a directory without a store is kNotFound.
  bool create_if_missing = true;
  // True: a new store may be made in a directory that holds other files, and leaves them alone.
  // False: that is kInvalidArgument, for the directory of the store and for those of its paths. The
  // lost+found of a file system does not count, nor do the remains of an interrupted creation.
  bool create_among_files = false;
  // A node that the machine does not have is kInvalidArgument. The store does without
  // whatever the kernel or a container refuses, with a warning in the log. Threads are
  // bound to CPUs that the thread which opens the store may use.
  NumaOptions numa;
  // Null: nothing is logged. The library never prints. With `numa` the library may call it under
  // the store's memory policy while the store opens. A thread that the function starts then
  // inherits the policy.
  LogFn log;
};

// kInvalidArgument, naming the field, when one is out of its range.
Status ValidateOptions(const Options& options);

// The options in effect. A default memory_budget_bytes becomes a number, from the memory that the
// process may use now. All that read_only and page_cache turn off is off.
Options EffectiveOptions(Options options);

// The least memory_budget_bytes of a store with such values.
uint64_t LeastMemoryBudgetBytes(uint32_t value_bytes);

// The default of memory_budget_bytes in a process that may use `usable_bytes`.
uint64_t DefaultMemoryBudgetBytes(uint64_t usable_bytes, bool read_only);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_OPTIONS_H_
