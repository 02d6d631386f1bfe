/* Every call of the C API, from C99, linked with the archive as a stranger would. */
#include "c_judge.h"

#include <errno.h>

static void case_codes_and_keys(void) {
  const unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  unsigned char back[8];
  CHECK(strcmp(engine_race_code_name(ENGINE_RACE_OK), "kSucc") == 0);
  CHECK(strcmp(engine_race_code_name(ENGINE_RACE_OUT_OF_MEMORY), "kOutOfMemory") == 0);
  CHECK(strcmp(engine_race_code_name(ENGINE_RACE_BUSY), "kBusy") == 0);
  CHECK(strncmp(engine_race_version(), "0.9.", 4) == 0);
  CHECK(strcmp(engine_race_code_name(11), "unknown code") == 0);
  CHECK(strcmp(engine_race_code_name(-1), "unknown code") == 0);
  CHECK(engine_race_key(bytes) == 0x0102030405060708ull);
  engine_race_key_bytes(0x0102030405060708ull, back);
  CHECK(memcmp(bytes, back, sizeof(bytes)) == 0);
  CHECK(engine_race_key(NULL) == 0);
  engine_race_key_bytes(1, NULL);
  engine_race_free(NULL);
}

static void case_options(void) {
  engine_race_options* options = engine_race_options_create();
  char* value = NULL;
  size_t count = 0;
  CHECK(options != NULL);
  while (engine_race_option_name(count) != NULL) {
    CHECK(engine_race_options_get(options, engine_race_option_name(count), &value) ==
          ENGINE_RACE_OK);
    CHECK(engine_race_options_set(options, engine_race_option_name(count), value) ==
          ENGINE_RACE_OK);
    engine_race_free(value);
    ++count;
  }
  CHECK(count > 20);
  CHECK(engine_race_options_set(options, "memory_budget_bytes", "3g") == ENGINE_RACE_OK);
  CHECK(engine_race_options_get(options, "memory_budget_bytes", &value) == ENGINE_RACE_OK);
  CHECK(strcmp(value, "3221225472") == 0);
  engine_race_free(value);
  CHECK(engine_race_options_set(options, "no_such_option", "1") == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(strstr(engine_race_error_message(), "no_such_option") != NULL);
  CHECK(engine_race_options_set(options, "bucket_count", "many") == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_options_set(NULL, "bucket_count", "1") == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_options_set(options, NULL, "1") == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_options_get(options, "bucket_count", NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_options_destroy(options);
  engine_race_options_destroy(NULL);
}

struct logged {
  int count;
  int worst;
  char last[256];
};

static void note_log(void* argument, int level, const char* message) {
  struct logged* logged = argument;
  ++logged->count;
  if (level > logged->worst) logged->worst = level;
  snprintf(logged->last, sizeof(logged->last), "%s", message);
}

static void case_failures_are_told(void) {
  engine_race_options* options = engine_race_options_create();
  engine_race_store* store = NULL;
  struct logged logged = {0, 0, ""};
  CHECK(engine_race_options_set_log(options, note_log, &logged) == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "create_if_missing", "false") == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_NOT_FOUND);
  CHECK(store == NULL);
  CHECK(engine_race_error_number() == ENOENT);
  CHECK(strcmp(engine_race_error_path(), directory) == 0);
  CHECK(engine_race_options_set(options, "bucket_count", "3") == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(strstr(engine_race_error_message(), "bucket_count") != NULL);
  CHECK(engine_race_error_number() == 0);
  CHECK(strcmp(engine_race_error_path(), directory) == 0);
  CHECK(logged.count > 0 && logged.worst == 2);
  CHECK(strstr(logged.last, "bucket_count") != NULL);
  CHECK(engine_race_options_set_log(options, NULL, NULL) == ENGINE_RACE_OK);
  CHECK(engine_race_options_set_log(NULL, note_log, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_open(NULL, NULL, &store) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_error_path()[0] == '\0');
  CHECK(engine_race_open(directory, NULL, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_options_destroy(options);
  store = open_store();
  {
    engine_race_store* second = store;
    CHECK(engine_race_open(directory, NULL, &second) == ENGINE_RACE_IO_ERROR);
    CHECK(second == NULL);
    CHECK(engine_race_error_number() == EAGAIN);
    CHECK(strstr(engine_race_error_path(), "/manifest_lock") != NULL);
  }
  engine_race_close(store);
  CHECK(engine_race_close(NULL) == ENGINE_RACE_OK);
}

static void case_log_queue(void) {
  engine_race_options* options = engine_race_options_create();
  engine_race_store* store = NULL;
  engine_race_log_queue* queue = NULL;
  engine_race_log_message message;
  /* As of a newer header, which has one more member. */
  struct {
    engine_race_log_message known;
    uint64_t later;
  } newer;
  const volatile uint32_t* waiting;
  uint32_t i;
  CHECK(engine_race_log_queue_create(0, &queue) == ENGINE_RACE_INVALID_ARGUMENT && queue == NULL);
  CHECK(engine_race_log_queue_create(65537, &queue) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_log_queue_create(3, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_log_queue_create(3, &queue) == ENGINE_RACE_OK && queue != NULL);
  waiting = engine_race_log_queue_waiting(queue);
  CHECK(waiting != NULL && *waiting == 0);
  CHECK(engine_race_log_queue_waiting(NULL) == NULL);
  CHECK(engine_race_options_set_log_queue(NULL, queue) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_options_set_log_queue(options, queue) == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "bucket_count", "3") == ENGINE_RACE_OK);
  for (i = 1; i <= 3; ++i) {
    CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_INVALID_ARGUMENT);
    CHECK(*waiting == i);
  }
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_INVALID_ARGUMENT);
  memset(&message, 255, sizeof(message));
  CHECK(engine_race_log_queue_take(queue, &message) == ENGINE_RACE_INVALID_ARGUMENT);
  message.struct_bytes = sizeof(message);
  CHECK(engine_race_log_queue_take(NULL, &message) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_log_queue_take(queue, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_log_queue_take(queue, &message) == ENGINE_RACE_OK);
  CHECK(message.level == 2 && strstr(message.text, "bucket_count") != NULL);
  CHECK(message.struct_bytes == sizeof(message) && message.time_ns > 0);
  memset(&newer, 255, sizeof(newer));
  newer.known.struct_bytes = sizeof(newer);
  CHECK(engine_race_log_queue_take(queue, &newer.known) == ENGINE_RACE_OK);
  CHECK(strstr(newer.known.text, "bucket_count") != NULL && newer.later == 0);
  CHECK(engine_race_log_queue_take(queue, &message) == ENGINE_RACE_OK);
  CHECK(engine_race_log_queue_take(queue, &message) == ENGINE_RACE_OK);
  CHECK(message.level == 1 && strstr(message.text, "dropped from the log: 1") != NULL);
  CHECK(engine_race_options_set(options, "bucket_count", "none") == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_log_queue_take(queue, &message) == ENGINE_RACE_NOT_FOUND && *waiting == 0);
  CHECK(strstr(engine_race_error_message(), "none") != NULL);
  /* A store logs into it even when its handle is gone. */
  CHECK(engine_race_options_set(options, "bucket_count", "16") == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "file_count", "4") == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "memory_budget_bytes", "64m") == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "key_range", "0-1000") == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_OK);
  CHECK(engine_race_options_set_log_queue(options, NULL) == ENGINE_RACE_OK);
  CHECK(engine_race_delete(store, 1001) == ENGINE_RACE_INVALID_ARGUMENT && *waiting == 1);
  engine_race_log_queue_destroy(queue);
  CHECK(engine_race_delete(store, 1001) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_close(store);
  engine_race_options_destroy(options);
  engine_race_log_queue_destroy(NULL);
}

static void case_records(void) {
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  uint64_t i;
  engine_race_store* store = open_store();
  write_all(store, 1);
  for (i = 0; i < kRecords; ++i) {
    CHECK(engine_race_read(store, key_of(i), value) == ENGINE_RACE_OK && has(value, i, 1));
  }
  memset(value, 7, sizeof(value));
  CHECK(engine_race_read(store, key_of(kRecords), value) == ENGINE_RACE_NOT_FOUND);
  CHECK(value[0] == 7 && value[ENGINE_RACE_VALUE_BYTES - 1] == 7);
  CHECK(engine_race_delete(store, key_of(5)) == ENGINE_RACE_OK);
  CHECK(engine_race_delete(store, key_of(kRecords)) == ENGINE_RACE_OK);
  CHECK(engine_race_read(store, key_of(5), value) == ENGINE_RACE_NOT_FOUND);
  CHECK(engine_race_sync(store) == ENGINE_RACE_OK);
  CHECK(engine_race_refresh(store) == ENGINE_RACE_NOT_SUPPORTED);
  engine_race_close(store);
  /* It is all there after reopening, with the keys at both ends. */
  store = open_store();
  CHECK(engine_race_read(store, key_of(6), value) == ENGINE_RACE_OK && has(value, 6, 1));
  CHECK(engine_race_read(store, key_of(5), value) == ENGINE_RACE_NOT_FOUND);
  fill(value, 77, 3);
  CHECK(engine_race_write(store, 0, value) == ENGINE_RACE_OK);
  CHECK(engine_race_write(store, UINT64_MAX, value) == ENGINE_RACE_OK);
  memset(value, 0, sizeof(value));
  CHECK(engine_race_read(store, UINT64_MAX, value) == ENGINE_RACE_OK && has(value, 77, 3));
  engine_race_close(store);
  CHECK(engine_race_write(NULL, 0, value) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_read(NULL, 0, value) == ENGINE_RACE_INVALID_ARGUMENT);
}

static void case_many(void) {
  engine_race_store* store = open_store();
  uint64_t keys[kRecords + 1];
  int codes[kRecords + 1];
  unsigned char* rows = malloc((kRecords + 1) * (size_t)ENGINE_RACE_VALUE_BYTES);
  size_t done = 99;
  uint64_t i;
  CHECK(rows != NULL);
  for (i = 0; i <= kRecords; ++i) {
    keys[i] = key_of(i);
    fill(rows + i * ENGINE_RACE_VALUE_BYTES, i, 4);
  }
  CHECK(engine_race_write_many(store, kRecords, keys, rows, &done) == ENGINE_RACE_OK);
  CHECK(done == kRecords);
  memset(rows, 9, (kRecords + 1) * (size_t)ENGINE_RACE_VALUE_BYTES);
  CHECK(engine_race_read_many(store, kRecords + 1, keys, rows, codes) == ENGINE_RACE_OK);
  for (i = 0; i < kRecords; ++i) {
    CHECK(codes[i] == ENGINE_RACE_OK && has(rows + i * ENGINE_RACE_VALUE_BYTES, i, 4));
  }
  CHECK(codes[kRecords] == ENGINE_RACE_NOT_FOUND);
  CHECK(rows[kRecords * (size_t)ENGINE_RACE_VALUE_BYTES] == 9);
  CHECK(engine_race_read_many(store, 0, NULL, NULL, NULL) == ENGINE_RACE_OK);
  CHECK(engine_race_read_many(store, 1, keys, rows, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_read_many(store, 1, NULL, rows, codes) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_write_many(store, 1, keys, NULL, &done) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(done == 0);
  CHECK(engine_race_delete_many(store, 10, keys, &done) == ENGINE_RACE_OK && done == 10);
  CHECK(engine_race_read_many(store, 11, keys, rows, codes) == ENGINE_RACE_OK);
  CHECK(codes[9] == ENGINE_RACE_NOT_FOUND && codes[10] == ENGINE_RACE_OK);
  free(rows);
  engine_race_close(store);
}

static void case_batches(void) {
  engine_race_store* store = NULL;
  engine_race_batch* batch = engine_race_batch_create(ENGINE_RACE_VALUE_BYTES);
  engine_race_options* options = small_options();
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  unsigned char rows[3 * ENGINE_RACE_VALUE_BYTES];
  const uint64_t keys[3] = {key_of(0), key_of(7), key_of(200)};
  uint64_t i;
  CHECK(batch != NULL);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_OK);
  engine_race_options_destroy(options);
  CHECK(engine_race_batch_reserve(batch, 100, 1) == ENGINE_RACE_OK);
  for (i = 0; i < 100; ++i) {
    fill(value, i, 50);
    CHECK(engine_race_batch_write(batch, key_of(i), value) == ENGINE_RACE_OK);
  }
  CHECK(engine_race_batch_delete(batch, key_of(7)) == ENGINE_RACE_OK);
  CHECK(engine_race_batch_size(batch) == 101);
  CHECK(engine_race_write_batch(store, batch) == ENGINE_RACE_OK);
  for (i = 0; i < 100; ++i) {
    const int code = engine_race_read(store, key_of(i), value);
    CHECK(i == 7 ? code == ENGINE_RACE_NOT_FOUND : code == ENGINE_RACE_OK && has(value, i, 50));
  }
  engine_race_batch_clear(batch);
  CHECK(engine_race_batch_size(batch) == 0);
  CHECK(engine_race_write_batch(store, batch) == ENGINE_RACE_OK);
  for (i = 0; i < 3; ++i) fill(rows + i * ENGINE_RACE_VALUE_BYTES, i, 51);
  CHECK(engine_race_batch_write_many(batch, 3, keys, rows) == ENGINE_RACE_OK);
  CHECK(engine_race_batch_write_many(batch, 0, NULL, NULL) == ENGINE_RACE_OK);
  CHECK(engine_race_batch_write_many(batch, 1, NULL, rows) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_batch_write_many(batch, 1, keys, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_batch_write_many(NULL, 1, keys, rows) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_batch_size(batch) == 3);
  CHECK(engine_race_write_batch(store, batch) == ENGINE_RACE_OK);
  for (i = 0; i < 3; ++i) {
    CHECK(engine_race_read(store, keys[i], value) == ENGINE_RACE_OK && has(value, i, 51));
  }
  engine_race_batch_clear(batch);
  CHECK(engine_race_batch_write(batch, 1, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_batch_write(NULL, 1, value) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_batch_delete(NULL, 1) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_batch_reserve(NULL, 1, 1) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_write_batch(store, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_write_batch(NULL, batch) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_batch_size(NULL) == 0);
  engine_race_batch_clear(NULL);
  engine_race_batch_destroy(NULL);
  CHECK(engine_race_close(store) == ENGINE_RACE_OK);
  CHECK(engine_race_write_batch(store, batch) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_batch_destroy(batch);
}

struct told {
  int count;
  int cancelled_at; /* 0: never */
  uint64_t done_count;
  uint64_t most_count;
};

static int note_progress(void* argument, uint64_t done_count, uint64_t most_count) {
  struct told* told = argument;
  told->done_count = done_count;
  told->most_count = most_count;
  return ++told->count == told->cancelled_at;
}

/* Of the calls within a function that is told of progress. */
struct within {
  engine_race_store* store;
  struct told* inner; /* null: they tell nobody */
  int count;
};

static int read_within(void* argument, uint64_t done_count, uint64_t most_count) {
  struct within* within = argument;
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  const uint64_t key = key_of(0);
  int code = -1;
  CHECK(done_count <= most_count);
  if (++within->count > 4) return 1;
  if (within->inner != NULL) engine_race_set_progress(note_progress, within->inner);
  CHECK(engine_race_read_many(within->store, 1, &key, value, &code) == ENGINE_RACE_OK);
  return 0;
}

/* Writes and reads of many records, in pieces that can be counted. */
static void case_progress(void) {
  enum { kMany = 1000 };
  engine_race_store* store = open_store();
  uint64_t keys[kMany];
  int codes[kMany];
  unsigned char* rows = malloc((size_t)kMany * ENGINE_RACE_VALUE_BYTES);
  size_t done = 0;
  uint64_t i;
  struct told told = {0, 2, 0, 0};
  struct within within;
  CHECK(rows != NULL);
  for (i = 0; i < kMany; ++i) {
    keys[i] = key_of(i);
    fill(rows + i * ENGINE_RACE_VALUE_BYTES, i, 60);
  }
  engine_race_set_progress(note_progress, &told);
  CHECK(engine_race_write_many(store, kMany, keys, rows, &done) == ENGINE_RACE_INCOMPLETE);
  CHECK(strstr(engine_race_error_message(), "cancelled") != NULL);
  CHECK(told.count == 2 && told.done_count == 512 && told.most_count == kMany && done == 512);
  told = (struct told){0, 1, 0, 0};
  CHECK(engine_race_delete_many(store, kMany, keys, &done) == ENGINE_RACE_INCOMPLETE);
  CHECK(told.count == 1 && done == 256);
  told = (struct told){0, 0, 0, 0};
  CHECK(engine_race_write_many(store, kMany, keys, rows, &done) == ENGINE_RACE_OK);
  CHECK(told.count == 4 && told.done_count == kMany && done == kMany);
  CHECK(engine_race_read_many(store, kMany, keys, rows, codes) == ENGINE_RACE_OK);
  CHECK(told.count == 5 && told.done_count == kMany);
  CHECK(engine_race_compact(store) == ENGINE_RACE_OK);
  CHECK(told.count > 5);
  within = (struct within){store, NULL, 0};
  engine_race_set_progress(read_within, &within);
  CHECK(engine_race_write_many(store, kMany, keys, rows, NULL) == ENGINE_RACE_OK);
  CHECK(within.count == 4);
  told = (struct told){0, 0, 0, 0};
  within = (struct within){store, &told, 0};
  CHECK(engine_race_write_many(store, kMany, keys, rows, NULL) == ENGINE_RACE_OK);
  CHECK(within.count == 4 && told.count == 4 && told.most_count == 1);
  engine_race_set_progress(NULL, NULL);
  told.count = 0;
  CHECK(engine_race_read_many(store, kMany, keys, rows, codes) == ENGINE_RACE_OK);
  CHECK(told.count == 0);
  free(rows);
  engine_race_close(store);
}

static void note_code(void* argument, int code) { *(volatile int*)argument = code; }

static void case_async(void) {
  engine_race_store* store = open_store();
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  unsigned char other[ENGINE_RACE_VALUE_BYTES];
  volatile int found = -1;
  volatile int missing = -1;
  write_all(store, 2);
  CHECK(engine_race_read_async(store, key_of(3), value, note_code, (void*)&found) ==
        ENGINE_RACE_OK);
  CHECK(engine_race_read_async(store, key_of(kRecords), other, note_code, (void*)&missing) ==
        ENGINE_RACE_OK);
  CHECK(engine_race_read_async(store, 0, value, NULL, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  /* Waits for both. */
  engine_race_close(store);
  CHECK(found == ENGINE_RACE_OK && has(value, 3, 2));
  CHECK(missing == ENGINE_RACE_NOT_FOUND);
}

struct walk {
  uint64_t count;
  uint64_t last;
  uint64_t stop_after;
  int in_order;
};

static int visit(void* argument, uint64_t key, const void* value) {
  struct walk* walk = argument;
  if (walk->count > 0 && key <= walk->last) walk->in_order = 0;
  walk->last = key;
  ++walk->count;
  (void)value;
  return walk->count == walk->stop_after;
}

static uint64_t count_of(engine_race_store* store, const engine_race_snapshot* snapshot,
                         const uint64_t* lower, const uint64_t* upper, uint64_t stop_after) {
  struct walk walk = {0, 0, 0, 1};
  walk.stop_after = stop_after;
  CHECK((snapshot == NULL
             ? engine_race_range(store, lower, upper, visit, &walk)
             : engine_race_snapshot_range(snapshot, lower, upper, visit, &walk)) == ENGINE_RACE_OK);
  CHECK(walk.in_order);
  return walk.count;
}

static void case_ranges_and_snapshots(void) {
  engine_race_store* store = open_store();
  engine_race_snapshot* snapshot = NULL;
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  unsigned char rows[3 * ENGINE_RACE_VALUE_BYTES];
  const uint64_t keys[3] = {key_of(2), key_of(kRecords), key_of(1)};
  int codes[3] = {99, 99, 99};
  const uint64_t middle = (uint64_t)1 << 63;
  struct walk unused = {0, 0, 0, 1};
  uint64_t below;
  memset(rows, 9, sizeof(rows));
  write_all(store, 1);
  CHECK(engine_race_snapshot_take(store, &snapshot) == ENGINE_RACE_OK);
  write_all(store, 2);
  CHECK(engine_race_delete(store, key_of(1)) == ENGINE_RACE_OK);
  CHECK(count_of(store, NULL, NULL, NULL, 0) == kRecords - 1);
  CHECK(count_of(store, snapshot, NULL, NULL, 0) == kRecords);
  below = count_of(store, snapshot, NULL, &middle, 0);
  CHECK(below > 0 && below < kRecords);
  CHECK(below + count_of(store, snapshot, &middle, NULL, 0) == kRecords);
  CHECK(count_of(store, NULL, NULL, NULL, 7) == 7);
  CHECK(count_of(store, snapshot, NULL, NULL, 7) == 7);
  CHECK(engine_race_snapshot_read(snapshot, key_of(1), value) == ENGINE_RACE_OK);
  CHECK(has(value, 1, 1));
  CHECK(engine_race_read(store, key_of(2), value) == ENGINE_RACE_OK && has(value, 2, 2));
  CHECK(engine_race_range(store, NULL, NULL, NULL, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_snapshot_read_many(snapshot, 3, keys, rows, codes) == ENGINE_RACE_OK);
  CHECK(codes[0] == ENGINE_RACE_OK && has(rows, 2, 1));
  CHECK(codes[1] == ENGINE_RACE_NOT_FOUND && rows[ENGINE_RACE_VALUE_BYTES] == 9);
  CHECK(codes[2] == ENGINE_RACE_OK && has(rows + 2 * ENGINE_RACE_VALUE_BYTES, 1, 1));
  CHECK(engine_race_snapshot_read_many(snapshot, 0, NULL, NULL, NULL) == ENGINE_RACE_OK);
  CHECK(engine_race_snapshot_read_many(snapshot, 3, keys, rows, NULL) ==
        ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_snapshot_read_many(NULL, 3, keys, rows, codes) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_snapshot_read(NULL, 0, value) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_snapshot_release(snapshot);
  CHECK(engine_race_snapshot_take(NULL, &snapshot) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(snapshot == NULL);
  CHECK(engine_race_snapshot_take(store, &snapshot) == ENGINE_RACE_OK);
  engine_race_close(store);
  /* It may outlive its store. */
  CHECK(engine_race_snapshot_read(snapshot, key_of(2), value) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_snapshot_read_many(snapshot, 3, keys, rows, codes) ==
        ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_snapshot_range(snapshot, NULL, NULL, visit, &unused) ==
        ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(unused.count == 0);
  engine_race_snapshot_release(snapshot);
  engine_race_snapshot_release(NULL);
}

static void case_iterators(void) {
  engine_race_store* store = open_store();
  engine_race_iterator* iterator = NULL;
  /* As of a newer library: one more option behind those that this one knows. */
  struct {
    engine_race_iterator_options known;
    uint64_t later;
  } newer = {{sizeof(newer), NULL, NULL, NULL, 0, 0}, 1};
  const uint64_t upper = (uint64_t)3 << 62;
  engine_race_snapshot* snapshot = NULL;
  engine_race_iterator_options options = {0, NULL, NULL, NULL, 0, 0};
  const uint64_t lower = (uint64_t)1 << 62;
  uint64_t keys[64];
  unsigned char* rows = malloc(64 * (size_t)ENGINE_RACE_VALUE_BYTES);
  size_t taken = 0;
  uint64_t count = 0;
  uint64_t last = 0;
  int forwards = 1;
  write_all(store, 1);
  CHECK(engine_race_iterator_create(store, NULL, &iterator) == ENGINE_RACE_OK);
  CHECK(!engine_race_iterator_valid(iterator));
  CHECK(engine_race_iterator_value(iterator) == NULL);
  for (engine_race_iterator_seek_to_first(iterator); engine_race_iterator_valid(iterator);
       engine_race_iterator_next(iterator)) {
    const uint64_t key = engine_race_iterator_key(iterator);
    if (count > 0 && key <= last) forwards = 0;
    last = key;
    ++count;
  }
  CHECK(forwards && count == kRecords);
  CHECK(engine_race_iterator_status(iterator) == ENGINE_RACE_OK);
  engine_race_iterator_seek_to_last(iterator);
  CHECK(engine_race_iterator_key(iterator) == last);
  engine_race_iterator_prev(iterator);
  CHECK(engine_race_iterator_key(iterator) < last);
  engine_race_iterator_seek(iterator, key_of(3));
  CHECK(engine_race_iterator_key(iterator) == key_of(3));
  CHECK(has(engine_race_iterator_value(iterator), 3, 1));
  engine_race_iterator_seek_for_prev(iterator, key_of(3) - 1);
  CHECK(engine_race_iterator_key(iterator) < key_of(3));
  CHECK(engine_race_iterator_refresh(iterator) == ENGINE_RACE_OK);
  CHECK(!engine_race_iterator_valid(iterator));
  engine_race_iterator_destroy(iterator);

  CHECK(engine_race_iterator_create(store, &options, &iterator) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(iterator == NULL);
  CHECK(engine_race_iterator_create(store, &newer.known, &iterator) == ENGINE_RACE_NOT_SUPPORTED);
  newer.later = 0;
  CHECK(engine_race_iterator_create(store, &newer.known, &iterator) == ENGINE_RACE_OK);
  engine_race_iterator_destroy(iterator);
  options.struct_bytes = sizeof(options) - 1;
  CHECK(engine_race_iterator_create(store, &options, &iterator) == ENGINE_RACE_INVALID_ARGUMENT);
  options.struct_bytes = SIZE_MAX;
  CHECK(engine_race_iterator_create(store, &options, &iterator) == ENGINE_RACE_INVALID_ARGUMENT);
  options.struct_bytes = sizeof(options);
  /* A snapshot, both bounds, and an iterator that moves on. */
  CHECK(engine_race_snapshot_take(store, &snapshot) == ENGINE_RACE_OK);
  CHECK(engine_race_delete(store, key_of(3)) == ENGINE_RACE_OK);
  options.snapshot = snapshot;
  CHECK(engine_race_iterator_create(store, &options, &iterator) == ENGINE_RACE_OK);
  engine_race_iterator_seek(iterator, key_of(3));
  CHECK(engine_race_iterator_key(iterator) == key_of(3));
  engine_race_iterator_destroy(iterator);
  engine_race_snapshot_release(snapshot);
  fill(rows, 3, 1);
  CHECK(engine_race_write(store, key_of(3), rows) == ENGINE_RACE_OK);
  options.snapshot = NULL;
  options.upper = &upper;
  CHECK(engine_race_iterator_create(store, &options, &iterator) == ENGINE_RACE_OK);
  engine_race_iterator_seek_to_last(iterator);
  CHECK(engine_race_iterator_valid(iterator) && engine_race_iterator_key(iterator) < upper);
  engine_race_iterator_destroy(iterator);
  options.upper = NULL;
  options.refresh_every_steps = 1;
  CHECK(engine_race_iterator_create(store, &options, &iterator) == ENGINE_RACE_OK);
  engine_race_iterator_seek_to_first(iterator);
  CHECK(engine_race_write(store, UINT64_MAX, rows) == ENGINE_RACE_OK);
  for (last = 0; engine_race_iterator_valid(iterator); engine_race_iterator_next(iterator)) {
    last = engine_race_iterator_key(iterator);
  }
  CHECK(last == UINT64_MAX);
  CHECK(engine_race_delete(store, UINT64_MAX) == ENGINE_RACE_OK);
  engine_race_iterator_destroy(iterator);
  options.refresh_every_steps = 0;
  options.lower = &lower;
  options.prefetch_records = 16;
  CHECK(engine_race_iterator_create(store, &options, &iterator) == ENGINE_RACE_OK);
  engine_race_iterator_seek_to_first(iterator);
  CHECK(engine_race_iterator_key(iterator) >= lower);
  count = 0;
  do {
    size_t i;
    CHECK(engine_race_iterator_take(iterator, 64, keys, rows, &taken) == ENGINE_RACE_OK);
    for (i = 0; i < taken; ++i) {
      const uint64_t number = number_of(keys[i]);
      CHECK(number < kRecords && has(rows + i * ENGINE_RACE_VALUE_BYTES, number, 1));
    }
    count += taken;
  } while (taken == 64);
  CHECK(count == count_of(store, NULL, &lower, NULL, 0));
  engine_race_iterator_seek_to_first(iterator);
  CHECK(engine_race_iterator_take(iterator, 3, keys, NULL, &taken) == ENGINE_RACE_OK && taken == 3);
  CHECK(engine_race_iterator_take(NULL, 3, keys, NULL, &taken) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(taken == 0);
  /* It may outlive its store. */
  engine_race_close(store);
  engine_race_iterator_seek_to_first(iterator);
  CHECK(!engine_race_iterator_valid(iterator));
  CHECK(engine_race_iterator_status(iterator) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_iterator_destroy(iterator);
  engine_race_iterator_destroy(NULL);
  CHECK(!engine_race_iterator_valid(NULL));
  free(rows);
}

/* The counters of version 0.9 that every later one has. */
static const char* const counters[] = {
    "record_count",
    "synced_record_count",
    "flush_count",
    "durable_write_count",
    "log_memory_bytes",
    "index_memory_bytes",
    "index_written_bytes",
    "index_disk_bytes",
    "range_memory_bytes",
    "task_memory_bytes",
    "iterator_memory_bytes",
    "frame_memory_bytes",
    "frame_limit_bytes",
    "frame_value_bytes",
    "frame_block_bytes",
    "frame_hit_count",
    "frame_miss_count",
    "frame_admission_count",
    "frame_eviction_count",
    "block_hit_count",
    "block_miss_count",
    "memory_budget_bytes",
    "view_count",
    "view_pinned_bytes",
    "oldest_view_age_ms",
    "bucket_count",
    "bucket_capacity_records",
    "staging_mapped",
    "path_count",
    "log_written_bytes",
    "live_bytes",
    "dead_bytes",
    "write_amplification_percent",
    "reclaim_share_percent",
    "reclaim_read_bytes",
    "reclaim_moved_bytes",
    "reclaim_freed_bytes",
};

static void case_stats(void) {
  engine_race_store* store = open_store();
  uint64_t values[256];
  size_t given = 0;
  size_t i;
  char* text = NULL;
  int found = 0;
  write_all(store, 1);
  CHECK(engine_race_stats(store, values, 256, &given) == ENGINE_RACE_OK);
  CHECK(given > sizeof(counters) / sizeof(counters[0]) && engine_race_stat_name(given) == NULL);
  for (i = 0; i < sizeof(counters) / sizeof(counters[0]); ++i) {
    size_t at = 0;
    while (at < given && strcmp(engine_race_stat_name(at), counters[i]) != 0) ++at;
    CHECK(at < given);
  }
  for (i = 0; i < given; ++i) {
    if (strcmp(engine_race_stat_name(i), "record_count") == 0) found = values[i] == kRecords;
  }
  CHECK(found);
  CHECK(engine_race_stats(store, values, 3, &given) == ENGINE_RACE_OK && given == 3);
  CHECK(engine_race_stats(NULL, values, 3, &given) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_property(store, "key_range", &text) == ENGINE_RACE_OK);
  CHECK(strcmp(text, "0-18446744073709551615") == 0);
  engine_race_free(text);
  CHECK(engine_race_property(store, "write_backend", &text) == ENGINE_RACE_OK && text[0] != 0);
  engine_race_free(text);
  CHECK(engine_race_property(store, "io_backend", &text) == ENGINE_RACE_OK && text[0] != 0);
  engine_race_free(text);
  CHECK(engine_race_property(store, "stats", &text) == ENGINE_RACE_OK);
  CHECK(strstr(text, "record_count") != NULL);
  engine_race_free(text);
  CHECK(engine_race_property(store, "prometheus", &text) == ENGINE_RACE_OK);
  CHECK(strncmp(text, "# HELP engine_race_", 19) == 0);
  engine_race_free(text);
  CHECK(engine_race_property(store, "colour", &text) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(text == NULL && strstr(engine_race_error_message(), "colour") != NULL);
  CHECK(engine_race_property(store, NULL, &text) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_property(store, "io_backend", NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_close(store);
}

static void check_order(const engine_race_latency* latency) {
  CHECK(latency->p50_ns > 0 && latency->p50_ns <= latency->p95_ns);
  CHECK(latency->p95_ns <= latency->p99_ns && latency->p99_ns <= latency->p999_ns);
  CHECK(latency->p999_ns <= latency->max_ns);
  CHECK(latency->mean_ns > 0 && latency->mean_ns <= latency->max_ns);
}

static void case_latencies(void) {
  engine_race_store* store = open_store();
  engine_race_options* options = small_options();
  engine_race_latencies found;
  const engine_race_latency none = {0, 0, 0, 0, 0, 0, 0};
  /* As of a newer header, which has one more kind. */
  struct {
    engine_race_latencies known;
    engine_race_latency later;
  } newer;
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  uint64_t i;
  memset(&found, 255, sizeof(found));
  CHECK(engine_race_latency_stats(store, &found) == ENGINE_RACE_INVALID_ARGUMENT);
  found.struct_bytes = sizeof(found) - 8;
  CHECK(engine_race_latency_stats(store, &found) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(strstr(engine_race_error_message(), "struct_bytes") != NULL);
  CHECK(engine_race_latency_stats(store, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  found.struct_bytes = sizeof(found);
  CHECK(engine_race_latency_stats(NULL, &found) == ENGINE_RACE_INVALID_ARGUMENT);
  /* The option is off. */
  write_all(store, 1);
  CHECK(engine_race_latency_stats(store, &found) == ENGINE_RACE_OK);
  CHECK(found.struct_bytes == sizeof(found) && found.measured == 0);
  CHECK(memcmp(&found.write, &none, sizeof(none)) == 0);
  CHECK(memcmp(&found.flush, &none, sizeof(none)) == 0);
  CHECK(engine_race_close(store) == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "latency_stats", "true") == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_OK);
  for (i = 0; i < 20; ++i) {
    CHECK(engine_race_read(store, key_of(i), value) == ENGINE_RACE_OK);
  }
  for (i = 0; i < 30; ++i) {
    CHECK(engine_race_write(store, key_of(i), value) == ENGINE_RACE_OK);
  }
  CHECK(engine_race_sync(store) == ENGINE_RACE_OK);
  memset(&newer, 255, sizeof(newer));
  newer.known.struct_bytes = sizeof(newer);
  CHECK(engine_race_latency_stats(store, &newer.known) == ENGINE_RACE_OK);
  CHECK(newer.known.struct_bytes == sizeof(newer) && newer.known.measured == 1);
  CHECK(newer.known.read.count == 20 && newer.known.write.count == 30);
  CHECK(newer.known.sync.count == 1 && newer.known.flush.count > 0);
  CHECK(newer.known.multi_read.count == 0 && newer.known.async_read.count == 0);
  CHECK(newer.known.range.count == 0);
  CHECK(memcmp(&newer.later, &none, sizeof(none)) == 0);
  check_order(&newer.known.read);
  check_order(&newer.known.write);
  check_order(&newer.known.sync);
  CHECK(engine_race_close(store) == ENGINE_RACE_OK);
  engine_race_options_destroy(options);
}

static void case_closed_stores(void) {
  engine_race_store* store = open_store();
  engine_race_report report;
  struct {
    engine_race_report known;
    uint64_t later;
  } newer;
  char copy[300];
  char kept[256];
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  write_all(store, 1);
  engine_race_close(store);
  memset(&report, 0, sizeof(report));
  CHECK(engine_race_verify(directory, NULL, &report) == ENGINE_RACE_INVALID_ARGUMENT);
  report.struct_bytes = sizeof(report) - 8;
  CHECK(engine_race_verify(directory, NULL, &report) == ENGINE_RACE_INVALID_ARGUMENT);
  /* As of a newer header, which has one more count. */
  memset(&newer, 255, sizeof(newer));
  newer.known.struct_bytes = sizeof(newer);
  CHECK(engine_race_verify(directory, NULL, &newer.known) == ENGINE_RACE_OK);
  CHECK(newer.known.record_count == kRecords && newer.later == 0);
  report.struct_bytes = sizeof(report);
  CHECK(engine_race_verify(directory, NULL, &report) == ENGINE_RACE_OK);
  CHECK(report.record_count == kRecords && report.bad_count == 0);
  CHECK(report.struct_bytes == sizeof(report));
  snprintf(copy, sizeof(copy), "%s-copy", directory);
  CHECK(engine_race_copy(directory, copy, NULL, NULL) == ENGINE_RACE_OK);
  CHECK(engine_race_verify("/nowhere/at/all", NULL, NULL) != ENGINE_RACE_OK);
  CHECK(engine_race_copy(NULL, copy, NULL, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  strcpy(kept, directory);
  snprintf(directory, sizeof(directory), "%.240s-copy", kept);
  store = open_store();
  CHECK(engine_race_read(store, key_of(9), value) == ENGINE_RACE_OK && has(value, 9, 1));
  engine_race_close(store);
  remove_in(directory);
  strcpy(directory, kept);
}

/* The directory `directory` with a name behind it. */
static void beside(char* path, size_t bytes, const char* name) {
  snprintf(path, bytes, "%.200s-%s", directory, name);
}

/* Expects the store in `path` to have key 9 of this version, and removes it. */
static void expect_and_remove(const char* path, int version) {
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  engine_race_store* store = open_in(path);
  CHECK(engine_race_read(store, key_of(9), value) == ENGINE_RACE_OK && has(value, 9, version));
  engine_race_close(store);
  remove_in(path);
}

static void case_checkpoints_and_backups(void) {
  engine_race_store* store = open_store();
  engine_race_backup_report report;
  char checkpoint[256], full[256], later[256], restored[256];
  beside(checkpoint, sizeof(checkpoint), "checkpoint");
  beside(full, sizeof(full), "full");
  beside(later, sizeof(later), "later");
  beside(restored, sizeof(restored), "restored");
  write_all(store, 1);
  CHECK(engine_race_checkpoint(store, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_checkpoint(store, checkpoint) == ENGINE_RACE_OK);
  CHECK(engine_race_checkpoint(store, checkpoint) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_backup(store, full, NULL, NULL) == ENGINE_RACE_OK);
  write_all(store, 2);
  memset(&report, 0, sizeof(report));
  CHECK(engine_race_backup(store, later, full, &report) == ENGINE_RACE_INVALID_ARGUMENT);
  report.struct_bytes = sizeof(report);
  CHECK(engine_race_backup(store, later, full, &report) == ENGINE_RACE_OK);
  CHECK(report.record_count == kRecords && report.value_count == kRecords);
  CHECK(report.chain_length == 2 && report.size_bytes > 0);
  engine_race_close(store);
  CHECK(engine_race_backup(store, restored, NULL, NULL) != ENGINE_RACE_OK);
  CHECK(engine_race_verify_backup(later, NULL, &report) == ENGINE_RACE_OK);
  CHECK(engine_race_restore(later, NULL, NULL, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_restore(checkpoint, restored, NULL, NULL) == ENGINE_RACE_NOT_FOUND);
  CHECK(engine_race_restore(later, restored, NULL, &report) == ENGINE_RACE_OK);
  expect_and_remove(checkpoint, 1);
  expect_and_remove(restored, 2);
  remove_in(full);
  remove_in(later);
}

static uint64_t stat_of(engine_race_store* store, const char* name) {
  uint64_t values[256];
  size_t given = 0;
  size_t i;
  CHECK(engine_race_stats(store, values, 256, &given) == ENGINE_RACE_OK);
  for (i = 0; i < given; ++i) {
    if (strcmp(engine_race_stat_name(i), name) == 0) return values[i];
  }
  CHECK(!"there is such a counter");
  return 0;
}

static void case_space(void) {
  engine_race_options* options = small_options();
  engine_race_store* store = NULL;
  uint64_t live[65536];
  uint64_t dead[65536];
  uint64_t live_sum = 0;
  uint64_t dead_sum = 0;
  size_t given = 1;
  size_t i;
  int version;
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  CHECK(engine_race_options_set(options, "reclaim", "off") == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "reclaim", "sometimes") == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_options_set(options, "reclaim_dead_percent", "100") == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(strstr(engine_race_error_message(), "reclaim_dead_percent") != NULL);
  CHECK(engine_race_options_set(options, "reclaim_dead_percent", "20") == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "reclaim_bytes_per_second", "50m") == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_OK);
  for (version = 1; version <= 20; ++version) write_all(store, version);
  CHECK(stat_of(store, "reclaim_freed_bytes") == 0);
  CHECK(engine_race_compact(NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_compact(store) == ENGINE_RACE_OK);
  CHECK(stat_of(store, "reclaim_freed_bytes") > 0);
  CHECK(engine_race_read(store, key_of(9), value) == ENGINE_RACE_OK && has(value, 9, 20));
  CHECK(engine_race_bucket_space(store, live, dead, 65536, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_bucket_space(NULL, live, dead, 65536, &given) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(given == 0);
  CHECK(engine_race_bucket_space(store, live, dead, 65536, &given) == ENGINE_RACE_OK);
  CHECK(given == stat_of(store, "bucket_count"));
  for (i = 0; i < given; ++i) {
    live_sum += live[i];
    dead_sum += dead[i];
  }
  CHECK(live_sum == (uint64_t)kRecords * ENGINE_RACE_VALUE_BYTES);
  CHECK(live_sum == stat_of(store, "live_bytes") && dead_sum == stat_of(store, "dead_bytes"));
  CHECK(engine_race_bucket_space(store, NULL, NULL, 1, &given) == ENGINE_RACE_OK && given == 1);
  CHECK(engine_race_close(store) == ENGINE_RACE_OK);
  CHECK(engine_race_compact(store) == ENGINE_RACE_INVALID_ARGUMENT);
  engine_race_options_destroy(options);
}

static void case_reading_only(void) {
  engine_race_options* options = small_options();
  engine_race_store* store = NULL;
  engine_race_store* other = NULL;
  const uint64_t keys[2] = {key_of(1), key_of(2)};
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  unsigned char values[2 * ENGINE_RACE_VALUE_BYTES] = {0};
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_OK);
  write_all(store, 1);
  CHECK(engine_race_options_set(options, "read_only", "true") == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &other) == ENGINE_RACE_IO_ERROR);
  CHECK(engine_race_close(store) == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &store) == ENGINE_RACE_OK);
  CHECK(engine_race_open(directory, options, &other) == ENGINE_RACE_OK);
  CHECK(engine_race_read(store, key_of(3), value) == ENGINE_RACE_OK && has(value, 3, 1));
  CHECK(engine_race_read(other, key_of(3), value) == ENGINE_RACE_OK && has(value, 3, 1));
  CHECK(engine_race_write(store, key_of(3), value) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(strstr(engine_race_error_message(), "read_only") != NULL);
  CHECK(engine_race_delete(store, key_of(3)) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_write_many(store, 2, keys, values, NULL) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_sync(store) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_compact(store) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(engine_race_close(store) == ENGINE_RACE_OK);
  CHECK(engine_race_close(other) == ENGINE_RACE_OK);
  engine_race_options_destroy(options);
}

int main(void) {
  char base[] = "/tmp/engine_race_c_XXXXXX";
  if (!make_base(base)) return 1;
  run("codes and keys", case_codes_and_keys);
  run("options", case_options);
  run("failures are told", case_failures_are_told);
  run("a log that is read later", case_log_queue);
  run("records", case_records);
  run("many records in one call", case_many);
  run("batches", case_batches);
  run("progress", case_progress);
  run("reads that are started", case_async);
  run("ranges and snapshots", case_ranges_and_snapshots);
  run("iterators", case_iterators);
  run("stats", case_stats);
  run("latencies", case_latencies);
  run("closed stores", case_closed_stores);
  run("checkpoints and backups", case_checkpoints_and_backups);
  run("space that is given back", case_space);
  run("reading only", case_reading_only);
  rmdir(base);
  return failed_checks != 0;
}
