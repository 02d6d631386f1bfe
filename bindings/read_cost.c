/* The CPU time of a read over the C API: `read_cost DIR READS` reads random keys of a store, in one
 * thread. The first pass brings the values into memory. The second one is measured: user and system
 * time of the process. Examples of other languages measure the same reads in the same order.
 *
 *   cc -O2 -std=c99 bindings/read_cost.c -Iinclude -Llib -lengine_race -o read_cost
 */
#define _DEFAULT_SOURCE
#include <engine_race_c.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const uint64_t kSeed = 88172645463325252u;

static int64_t CpuNs(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

static int Fail(const char* call) {
  fprintf(stderr, "%s: %s\n", call, engine_race_error_message());
  return 2;
}

/* All keys of the store in ascending order, for free(); null after a failure. */
static uint64_t* KeysOf(engine_race_store* store, size_t* count) {
  enum { kBatchKeys = 4096 };
  engine_race_iterator* iterator;
  uint64_t* keys = NULL;
  size_t taken = 0;
  *count = 0;
  if (engine_race_iterator_create(store, NULL, &iterator) != ENGINE_RACE_OK) return NULL;
  engine_race_iterator_seek_to_first(iterator);
  do {
    uint64_t* const more = realloc(keys, (*count + kBatchKeys) * sizeof(*keys));
    if (more == NULL) break;
    keys = more;
    if (engine_race_iterator_take(iterator, kBatchKeys, keys + *count, NULL, &taken) !=
        ENGINE_RACE_OK) {
      break;
    }
    *count += taken;
  } while (taken == kBatchKeys);
  engine_race_iterator_destroy(iterator);
  return keys;
}

/* *sum is that of the values' last key bytes, so that no read can be left out. */
static int ReadAll(engine_race_store* store, const uint64_t* keys, size_t key_count,
                   uint64_t read_count, uint64_t* sum) {
  /* From malloc, as in other languages: the cost of a copy depends on where the memory lies. */
  unsigned char* const value = malloc(ENGINE_RACE_VALUE_BYTES);
  uint64_t state = kSeed;
  *sum = 0;
  if (value == NULL) return ENGINE_RACE_OUT_OF_MEMORY;
  for (uint64_t i = 0; i < read_count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const int code = engine_race_read(store, keys[state % key_count], value);
    if (code == ENGINE_RACE_OK) {
      *sum += value[7];
    } else if (code != ENGINE_RACE_NOT_FOUND) {
      free(value);
      return code;
    }
  }
  free(value);
  return ENGINE_RACE_OK;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: read_cost DIR READS\n");
    return 2;
  }
  const uint64_t read_count = strtoull(argv[2], NULL, 10);
  engine_race_options* const options = engine_race_options_create();
  engine_race_store* store;
  engine_race_options_set(options, "create_if_missing", "false");
  if (engine_race_open(argv[1], options, &store) != ENGINE_RACE_OK) return Fail("open");
  engine_race_options_destroy(options);
  size_t key_count;
  uint64_t* const keys = KeysOf(store, &key_count);
  if (keys == NULL || key_count == 0 || read_count == 0) return Fail("there is nothing to read");

  uint64_t warm, sum;
  if (ReadAll(store, keys, key_count, read_count, &warm) != ENGINE_RACE_OK) return Fail("read");
  const int64_t before = CpuNs();
  if (ReadAll(store, keys, key_count, read_count, &sum) != ENGINE_RACE_OK) return Fail("read");
  const int64_t spent = CpuNs() - before;
  if (warm != sum) return Fail("the passes differ");
  printf("{\"reads\": %" PRIu64 ", \"cpu_ns_per_read\": %.1f}\n", read_count,
         (double)spent / (double)read_count);
  free(keys);
  engine_race_close(store);
  return 0;
}
