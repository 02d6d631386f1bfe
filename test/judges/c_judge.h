/* Shared by the judging programs in C: cases that are counted, checks, keys, values, a store.
 *
 * Each program prints a line for each case, "ok" or "FAILED" and its name, which
 * scripts/test_judges.sh counts. Checks may be made by any thread. Helpers that one program does
 * not use are inline, so that the compiler does not mind. */
#ifndef TEST_JUDGES_C_JUDGE_H_
#define TEST_JUDGES_C_JUDGE_H_

#include <engine_race_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kRecords = 1000 };

static int failed_checks = 0;
static char directory[256];

/* Numbers that threads share. */
static inline int add_one(int* number) { return __atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST); }
static inline int value_of(const int* number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }

static inline int check(int holds, const char* what, int line) {
  /* The first few say enough. */
  if (!holds && add_one(&failed_checks) < 10) {
    printf("line %d: not so: %s; %s\n", line, what, engine_race_error_message());
    fflush(stdout);
  }
  return holds;
}
#define CHECK(expression) check((expression) != 0, #expression, __LINE__)

/* A bijection, so that keys fall into every bucket. */
static inline uint64_t key_of(uint64_t number) { return number * 0x9e3779b97f4a7c15ull; }
/* The multiplication is undone by the factor's inverse. */
static inline uint64_t number_of(uint64_t key) { return key * 0xf1de83e19937733dull; }

static inline void fill(unsigned char* value, uint64_t number, int version) {
  size_t i;
  for (i = 0; i < ENGINE_RACE_VALUE_BYTES; ++i) {
    value[i] = (unsigned char)(number * 31 + i * 7 + (uint64_t)version * 13 + (i >> 8));
  }
}

static inline int has(const unsigned char* value, uint64_t number, int version) {
  unsigned char wanted[ENGINE_RACE_VALUE_BYTES];
  fill(wanted, number, version);
  return memcmp(value, wanted, sizeof(wanted)) == 0;
}

static inline engine_race_options* small_options(void) {
  engine_race_options* options = engine_race_options_create();
  CHECK(options != NULL);
  CHECK(engine_race_options_set(options, "bucket_count", "16") == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "file_count", "4") == ENGINE_RACE_OK);
  CHECK(engine_race_options_set(options, "memory_budget_bytes", "64m") == ENGINE_RACE_OK);
  return options;
}

static inline engine_race_store* open_in(const char* where) {
  engine_race_store* store = NULL;
  engine_race_options* options = small_options();
  CHECK(engine_race_open(where, options, &store) == ENGINE_RACE_OK);
  CHECK(store != NULL);
  engine_race_options_destroy(options);
  return store;
}

static inline engine_race_store* open_store(void) { return open_in(directory); }

static inline void write_all(engine_race_store* store, int version) {
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  uint64_t i;
  for (i = 0; i < kRecords; ++i) {
    fill(value, i, version);
    CHECK(engine_race_write(store, key_of(i), value) == ENGINE_RACE_OK);
  }
}

/* Removes a store and all that is in its directory. */
static inline void remove_in(const char* where) {
  char command[320];
  snprintf(command, sizeof(command), "rm -rf '%s'", where);
  CHECK(system(command) == 0);
}

static inline void run(const char* name, void (*work)(void)) {
  const int before = failed_checks;
  work();
  remove_in(directory);
  printf("%s %s\n", failed_checks == before ? "ok" : "FAILED", name);
  fflush(stdout);
}

/* Makes `directory`; the base of it is to be removed at the end. */
static inline int make_base(char* base) {
  if (mkdtemp(base) == NULL) return 0;
  snprintf(directory, sizeof(directory), "%s/store", base);
  return 1;
}

#endif /* TEST_JUDGES_C_JUDGE_H_ */
