/* Stores whose values have other sizes than ENGINE_RACE_VALUE_BYTES, from C99. Memory that a call
 * may touch ends exactly where the value does, so that AddressSanitizer sees what lies beyond. */
#include "c_judge.h"

static const uint32_t sizes[] = {8, 100, 512, 1536, 3072, 4096, 16384, 1048576};
enum { kSizes = sizeof(sizes) / sizeof(sizes[0]), kFew = 40 };

/* Of the case that runs. */
static uint32_t value_bytes;

static unsigned char* new_rows(size_t count) {
  unsigned char* rows = malloc(count * value_bytes);
  if (!CHECK(rows != NULL)) exit(1);
  return rows;
}

static void fill_row(unsigned char* row, uint64_t number, int version) {
  uint32_t i;
  for (i = 0; i < value_bytes; ++i) {
    row[i] = (unsigned char)(number * 31 + i * 7 + (uint64_t)version * 13 + (i >> 8));
  }
}

static int is_row(const unsigned char* row, uint64_t number, int version) {
  unsigned char* wanted = new_rows(1);
  int same;
  fill_row(wanted, number, version);
  same = memcmp(row, wanted, value_bytes) == 0;
  free(wanted);
  return same;
}

/* The option is left out for null. */
static int open_sized(const char* where, const char* option, engine_race_store** store) {
  engine_race_options* options = small_options();
  int code;
  if (option != NULL) {
    CHECK(engine_race_options_set(options, "value_bytes", option) == ENGINE_RACE_OK);
  }
  code = engine_race_open(where, options, store);
  engine_race_options_destroy(options);
  return code;
}

static engine_race_store* open_of_size(void) {
  engine_race_store* store = NULL;
  char text[16];
  snprintf(text, sizeof(text), "%u", (unsigned)value_bytes);
  CHECK(open_sized(directory, text, &store) == ENGINE_RACE_OK);
  CHECK(engine_race_value_bytes(store) == value_bytes);
  return store;
}

static void write_few(engine_race_store* store, int version) {
  unsigned char* rows = new_rows(kFew);
  uint64_t keys[kFew];
  size_t done = 0;
  uint64_t i;
  for (i = 0; i < kFew; ++i) {
    keys[i] = i;
    fill_row(rows + i * value_bytes, i, version);
  }
  CHECK(engine_race_write_many(store, kFew, keys, rows, &done) == ENGINE_RACE_OK && done == kFew);
  free(rows);
}

static void note_code(void* argument, int code) { *(volatile int*)argument = code; }

static void work_records(void) {
  engine_race_store* store = open_of_size();
  engine_race_snapshot* snapshot = NULL;
  unsigned char* row = new_rows(1);
  unsigned char* rows = new_rows(kFew + 1);
  uint64_t keys[kFew + 1];
  int codes[kFew + 1];
  volatile int found = -1;
  uint64_t i;
  write_few(store, 1);
  fill_row(row, 3, 2);
  CHECK(engine_race_write(store, 3, row) == ENGINE_RACE_OK);
  engine_race_close(store);
  CHECK(engine_race_value_bytes(store) == 0);
  store = open_of_size();
  for (i = 0; i <= kFew; ++i) {
    const int code = engine_race_read(store, i, row);
    keys[i] = i;
    CHECK(i == kFew ? code == ENGINE_RACE_NOT_FOUND
                    : code == ENGINE_RACE_OK && is_row(row, i, i == 3 ? 2 : 1));
  }
  memset(rows, 9, (kFew + (size_t)1) * value_bytes);
  CHECK(engine_race_read_many(store, kFew + 1, keys, rows, codes) == ENGINE_RACE_OK);
  for (i = 0; i < kFew; ++i) {
    CHECK(codes[i] == ENGINE_RACE_OK && is_row(rows + i * value_bytes, i, i == 3 ? 2 : 1));
  }
  CHECK(codes[kFew] == ENGINE_RACE_NOT_FOUND && rows[kFew * (size_t)value_bytes] == 9);
  CHECK(engine_race_snapshot_take(store, &snapshot) == ENGINE_RACE_OK);
  write_few(store, 5);
  CHECK(engine_race_snapshot_read(snapshot, 7, row) == ENGINE_RACE_OK && is_row(row, 7, 1));
  CHECK(engine_race_snapshot_read_many(snapshot, 2, keys + 8, rows, codes) == ENGINE_RACE_OK);
  CHECK(is_row(rows, 8, 1) && is_row(rows + value_bytes, 9, 1));
  engine_race_snapshot_release(snapshot);
  CHECK(engine_race_read_async(store, 6, row, note_code, (void*)&found) == ENGINE_RACE_OK);
  engine_race_close(store);
  CHECK(found == ENGINE_RACE_OK && is_row(row, 6, 5));
  free(rows);
  free(row);
}

static int visit(void* argument, uint64_t key, const void* value) {
  uint64_t* next = argument;
  CHECK(key == *next && is_row(value, key, 1));
  ++*next;
  return 0;
}

static void work_walks(void) {
  engine_race_store* store = open_of_size();
  engine_race_iterator* iterator = NULL;
  unsigned char* rows = new_rows(5);
  uint64_t keys[5];
  uint64_t next = 0;
  size_t taken = 0;
  size_t i;
  write_few(store, 1);
  CHECK(engine_race_range(store, NULL, NULL, visit, &next) == ENGINE_RACE_OK && next == kFew);
  CHECK(engine_race_iterator_create(store, NULL, &iterator) == ENGINE_RACE_OK);
  engine_race_iterator_seek(iterator, 7);
  CHECK(is_row(engine_race_iterator_value(iterator), 7, 1));
  CHECK(engine_race_iterator_take(iterator, 5, keys, rows, &taken) == ENGINE_RACE_OK);
  CHECK(taken == 5);
  for (i = 0; i < taken; ++i) {
    CHECK(keys[i] == 7 + i && is_row(rows + i * value_bytes, 7 + i, 1));
  }
  engine_race_iterator_seek_to_last(iterator);
  CHECK(is_row(engine_race_iterator_value(iterator), kFew - 1, 1));
  engine_race_iterator_destroy(iterator);
  engine_race_close(store);
  free(rows);
}

static void work_batches(void) {
  engine_race_store* store = open_of_size();
  engine_race_batch* batch = engine_race_batch_create(value_bytes);
  engine_race_batch* other = engine_race_batch_create(value_bytes == 512 ? 513 : 512);
  unsigned char* rows = new_rows(3);
  const uint64_t keys[3] = {1, 2, 3};
  char number[16];
  uint64_t i;
  CHECK(batch != NULL && other != NULL);
  for (i = 0; i < 3; ++i) fill_row(rows + i * value_bytes, keys[i], 4);
  CHECK(engine_race_batch_write_many(batch, 3, keys, rows) == ENGINE_RACE_OK);
  fill_row(rows, 9, 4);
  CHECK(engine_race_batch_write(batch, 9, rows) == ENGINE_RACE_OK);
  CHECK(engine_race_write_batch(store, batch) == ENGINE_RACE_OK);
  for (i = 0; i < 3; ++i) {
    CHECK(engine_race_read(store, keys[i], rows) == ENGINE_RACE_OK && is_row(rows, keys[i], 4));
  }
  CHECK(engine_race_read(store, 9, rows) == ENGINE_RACE_OK && is_row(rows, 9, 4));
  CHECK(engine_race_batch_delete(other, 9) == ENGINE_RACE_OK);
  CHECK(engine_race_write_batch(store, other) == ENGINE_RACE_INVALID_ARGUMENT);
  snprintf(number, sizeof(number), "%u", (unsigned)value_bytes);
  CHECK(strstr(engine_race_error_message(), number) != NULL);
  snprintf(number, sizeof(number), "%u", value_bytes == 512 ? 513U : 512U);
  CHECK(strstr(engine_race_error_message(), number) != NULL);
  CHECK(engine_race_read(store, 9, rows) == ENGINE_RACE_OK);
  engine_race_batch_destroy(other);
  engine_race_batch_destroy(batch);
  engine_race_close(store);
  free(rows);
}

static void work_copies(void) {
  engine_race_store* store = open_of_size();
  engine_race_report report = {.struct_bytes = sizeof(report)};
  unsigned char* row = new_rows(1);
  char copy[300];
  write_few(store, 6);
  engine_race_close(store);
  /* Calls for closed stores take any size. */
  CHECK(engine_race_verify(directory, NULL, &report) == ENGINE_RACE_OK);
  CHECK(report.record_count == kFew && report.bad_count == 0);
  snprintf(copy, sizeof(copy), "%s_copy", directory);
  CHECK(engine_race_copy(directory, copy, NULL, &report) == ENGINE_RACE_OK);
  CHECK(open_sized(copy, "0", &store) == ENGINE_RACE_OK);
  CHECK(engine_race_value_bytes(store) == value_bytes);
  CHECK(engine_race_read(store, 8, row) == ENGINE_RACE_OK && is_row(row, 8, 6));
  engine_race_close(store);
  remove_in(copy);
  free(row);
}

static void for_each_size(void (*work)(void)) {
  size_t i;
  for (i = 0; i < kSizes; ++i) {
    const int before = failed_checks;
    value_bytes = sizes[i];
    work();
    remove_in(directory);
    if (failed_checks != before) printf("with values of %u bytes\n", (unsigned)value_bytes);
  }
}

static void case_records(void) { for_each_size(work_records); }
static void case_walks(void) { for_each_size(work_walks); }
static void case_batches(void) { for_each_size(work_batches); }
static void case_copies(void) { for_each_size(work_copies); }

static void case_sizes_of_stores(void) {
  engine_race_store* store = NULL;
  CHECK(engine_race_value_bytes(NULL) == 0);
  CHECK(open_sized(directory, "512", &store) == ENGINE_RACE_OK);
  engine_race_close(store);
  /* The default protects programs whose buffers have 4096 bytes. */
  CHECK(open_sized(directory, NULL, &store) == ENGINE_RACE_INVALID_ARGUMENT && store == NULL);
  CHECK(strstr(engine_race_error_message(), "4096") != NULL);
  CHECK(strstr(engine_race_error_message(), "512") != NULL);
  CHECK(open_sized(directory, "0", &store) == ENGINE_RACE_OK);
  CHECK(engine_race_value_bytes(store) == 512);
  engine_race_close(store);
  remove_in(directory);
  CHECK(open_sized(directory, "0", &store) == ENGINE_RACE_OK);
  CHECK(engine_race_value_bytes(store) == ENGINE_RACE_VALUE_BYTES);
  engine_race_close(store);
  remove_in(directory);
  CHECK(open_sized(directory, "7", &store) == ENGINE_RACE_INVALID_ARGUMENT);
  CHECK(open_sized(directory, "1048577", &store) == ENGINE_RACE_INVALID_ARGUMENT);
}

static void case_sizes_of_batches(void) {
  CHECK(engine_race_batch_create(0) == NULL);
  CHECK(strstr(engine_race_error_message(), "size") != NULL);
  CHECK(engine_race_batch_create(7) == NULL);
  CHECK(engine_race_batch_create(1048577) == NULL);
  CHECK(engine_race_batch_create(UINT32_MAX) == NULL);
}

int main(void) {
  char base[] = "/tmp/engine_race_c_sizes_XXXXXX";
  if (!make_base(base)) return 1;
  run("sizes of stores", case_sizes_of_stores);
  run("sizes of batches", case_sizes_of_batches);
  run("records of every size", case_records);
  run("walks of every size", case_walks);
  run("batches of every size", case_batches);
  run("copies of every size", case_copies);
  rmdir(base);
  return failed_checks != 0;
}
