/* Handles of the C API beside the closing of their store, after it, and in forked children, from
 * C99. Each call answers an error, none crashes, and nothing leaks. */
#include "c_judge.h"

#include <pthread.h>
#include <sys/wait.h>

enum { kThreads = 4 };

static int last_message_has(const char* text) {
  return strstr(engine_race_error_message(), text) != NULL;
}
#define REFUSED(call, text) \
  check((call) == ENGINE_RACE_INVALID_ARGUMENT && last_message_has(text), #call, __LINE__)

static int visit_nothing(void* argument, uint64_t key, const void* value) {
  (void)key;
  (void)value;
  ++*(int*)argument;
  return 0;
}

static void done_nothing(void* argument, int code) {
  (void)code;
  ++*(int*)argument;
}

/* All that a program may hold of one store. */
struct held {
  engine_race_store* store;
  engine_race_snapshot* snapshot;
  engine_race_iterator* iterator;
};

static struct held hold(const char* where) {
  struct held held = {NULL, NULL, NULL};
  held.store = open_in(where);
  write_all(held.store, 1);
  CHECK(engine_race_snapshot_take(held.store, &held.snapshot) == ENGINE_RACE_OK);
  CHECK(engine_race_iterator_create(held.store, NULL, &held.iterator) == ENGINE_RACE_OK);
  engine_race_iterator_seek_to_first(held.iterator);
  CHECK(engine_race_iterator_valid(held.iterator));
  return held;
}

static void free_parts(const struct held* held) {
  engine_race_snapshot_release(held->snapshot);
  engine_race_iterator_destroy(held->iterator);
}

static uint64_t stat_of(engine_race_store* store, const char* name) {
  uint64_t values[256];
  size_t given = 0;
  size_t i;
  CHECK(engine_race_stats(store, values, 256, &given) == ENGINE_RACE_OK);
  for (i = 0; i < given; ++i) {
    if (strcmp(engine_race_stat_name(i), name) == 0) return values[i];
  }
  CHECK(!"no such counter");
  return 0;
}

/* Every call of a store but its close. */
static void store_refuses(engine_race_store* store, const char* text) {
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  const uint64_t key = 1;
  int code = 99;
  int called = 0;
  size_t count = 99;
  uint64_t counter = 0;
  engine_race_latencies latencies;
  engine_race_snapshot* snapshot = (engine_race_snapshot*)&key;
  engine_race_iterator* iterator = (engine_race_iterator*)&key;
  char* property = (char*)value;
  memset(value, 7, sizeof(value));
  latencies.struct_bytes = sizeof(latencies);
  REFUSED(engine_race_write(store, key, value), text);
  REFUSED(engine_race_delete(store, key), text);
  REFUSED(engine_race_read(store, key, value), text);
  REFUSED(engine_race_write_many(store, 1, &key, value, &count), text);
  CHECK(count == 0);
  count = 99;
  REFUSED(engine_race_delete_many(store, 1, &key, &count), text);
  CHECK(count == 0);
  REFUSED(engine_race_read_many(store, 1, &key, value, &code), text);
  REFUSED(engine_race_read_async(store, key, value, done_nothing, &called), text);
  REFUSED(engine_race_sync(store), text);
  REFUSED(engine_race_refresh(store), text);
  REFUSED(engine_race_range(store, NULL, NULL, visit_nothing, &called), text);
  REFUSED(engine_race_snapshot_take(store, &snapshot), text);
  CHECK(snapshot == NULL);
  REFUSED(engine_race_iterator_create(store, NULL, &iterator), text);
  CHECK(iterator == NULL);
  count = 99;
  REFUSED(engine_race_stats(store, &counter, 1, &count), text);
  CHECK(count == 0);
  REFUSED(engine_race_latency_stats(store, &latencies), text);
  REFUSED(engine_race_property(store, "stats", &property), text);
  CHECK(property == NULL);
  CHECK(called == 0 && value[0] == 7 && code == 99);
}

/* Every call of a snapshot and an iterator but those that free them. */
static void parts_refuse(const struct held* held, const char* text) {
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  uint64_t key = 0;
  size_t taken = 99;
  int called = 0;
  REFUSED(engine_race_snapshot_read(held->snapshot, 1, value), text);
  REFUSED(engine_race_snapshot_range(held->snapshot, NULL, NULL, visit_nothing, &called), text);
  CHECK(called == 0);
  engine_race_iterator_seek_to_first(held->iterator);
  engine_race_iterator_seek_to_last(held->iterator);
  engine_race_iterator_seek(held->iterator, 1);
  engine_race_iterator_seek_for_prev(held->iterator, 1);
  engine_race_iterator_next(held->iterator);
  engine_race_iterator_prev(held->iterator);
  CHECK(!engine_race_iterator_valid(held->iterator));
  CHECK(engine_race_iterator_key(held->iterator) == 0);
  CHECK(engine_race_iterator_value(held->iterator) == NULL);
  REFUSED(engine_race_iterator_status(held->iterator), text);
  REFUSED(engine_race_iterator_take(held->iterator, 1, &key, NULL, &taken), text);
  CHECK(taken == 0);
  REFUSED(engine_race_iterator_refresh(held->iterator), text);
}

static void all_refuse(const struct held* held, const char* text) {
  store_refuses(held->store, text);
  parts_refuse(held, text);
  REFUSED(engine_race_close(held->store), text);
}

static void case_after_the_close(void) {
  struct held held = hold(directory);
  struct held next;
  CHECK(engine_race_close(held.store) == ENGINE_RACE_OK);
  all_refuse(&held, "closed");
  /* The same beside a later opening. */
  next = hold(directory);
  CHECK(next.store != held.store);
  all_refuse(&held, "closed");
  free_parts(&held);
  store_refuses(held.store, "closed");
  CHECK(engine_race_iterator_valid(next.iterator));
  CHECK(stat_of(next.store, "view_count") == 2);
  free_parts(&next);
  CHECK(stat_of(next.store, "view_count") == 0);
  CHECK(engine_race_close(next.store) == ENGINE_RACE_OK);
}

static void case_snapshots_of_other_stores(void) {
  struct held held = hold(directory);
  struct held other;
  char where[300];
  engine_race_iterator_options options = {sizeof(options), NULL, NULL, NULL, 0, 0};
  engine_race_iterator* iterator = NULL;
  snprintf(where, sizeof(where), "%s-other", directory);
  other = hold(where);
  options.snapshot = other.snapshot;
  REFUSED(engine_race_iterator_create(held.store, &options, &iterator), "another store's");
  CHECK(engine_race_close(other.store) == ENGINE_RACE_OK);
  REFUSED(engine_race_iterator_create(held.store, &options, &iterator), "another store's");
  REFUSED(engine_race_iterator_create(other.store, &options, &iterator), "closed");
  CHECK(iterator == NULL);
  free_parts(&other);
  free_parts(&held);
  CHECK(engine_race_close(held.store) == ENGINE_RACE_OK);
  remove_in(where);
}

/* Threads that use a store until it is closed, by two threads at once. */
struct user {
  engine_race_store* store;
  int number;
  int* begun;
  uint64_t written; /* records that are to be there afterwards */
  int started;      /* reads */
  int answered;
  unsigned char value[ENGINE_RACE_VALUE_BYTES]; /* for those reads */
};

static void count_answer(void* argument, int code) {
  struct user* user = argument;
  CHECK(code == ENGINE_RACE_NOT_FOUND);
  add_one(&user->answered);
}

static int walk_once(struct user* user) {
  engine_race_snapshot* snapshot = NULL;
  engine_race_iterator* iterator = NULL;
  uint64_t keys[8];
  size_t taken = 0;
  int visits = 0;
  int code = engine_race_snapshot_take(user->store, &snapshot);
  if (code != ENGINE_RACE_OK) return code;
  code = engine_race_iterator_create(user->store, NULL, &iterator);
  if (code == ENGINE_RACE_OK) {
    engine_race_iterator_seek_to_first(iterator);
    code = engine_race_iterator_take(iterator, 8, keys, NULL, &taken);
    if (code == ENGINE_RACE_OK) {
      CHECK(taken == 8);
      code = engine_race_snapshot_range(snapshot, &keys[0], &keys[7], visit_nothing, &visits);
      /* It is older than the iterator. */
      CHECK(visits <= 7);
    }
    engine_race_iterator_destroy(iterator);
  }
  engine_race_snapshot_release(snapshot);
  return code;
}

static int use_once(struct user* user, uint64_t round) {
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  int code;
  fill(value, (uint64_t)user->number, (int)round);
  code = engine_race_write(user->store, ((uint64_t)user->number << 32) + round, value);
  if (code != ENGINE_RACE_OK) return code;
  ++user->written;
  code = engine_race_read(user->store, key_of(round % kRecords), value);
  if (code != ENGINE_RACE_OK) return code;
  CHECK(has(value, round % kRecords, 1));
  /* It is not there, so that reads which overlap write to no memory. */
  code = engine_race_read_async(user->store, UINT64_MAX, user->value, count_answer, user);
  if (code != ENGINE_RACE_OK) return code;
  ++user->started;
  return walk_once(user);
}

static void* use_until_closed(void* argument) {
  struct user* user = argument;
  uint64_t round = 0;
  int code;
  do {
    code = use_once(user, round);
    if (++round == 20) add_one(user->begun);
  } while (code == ENGINE_RACE_OK);
  CHECK(code == ENGINE_RACE_INVALID_ARGUMENT && last_message_has("closed"));
  store_refuses(user->store, "closed");
  return NULL;
}

struct closer {
  engine_race_store* store;
  pthread_barrier_t* start;
  int* closed;
};

static void* close_at_once(void* argument) {
  struct closer* closer = argument;
  int code;
  pthread_barrier_wait(closer->start);
  code = engine_race_close(closer->store);
  if (code == ENGINE_RACE_OK) {
    add_one(closer->closed);
  } else {
    CHECK(code == ENGINE_RACE_INVALID_ARGUMENT && last_message_has("closing"));
  }
  return NULL;
}

static void case_two_close_beside_calls(void) {
  int round;
  for (round = 0; round < 10; ++round) {
    struct user users[kThreads];
    pthread_t threads[kThreads + 2];
    pthread_barrier_t start;
    int closed = 0;
    int begun = 0;
    struct closer closer = {NULL, &start, &closed};
    uint64_t written = kRecords;
    int i;
    closer.store = open_store();
    pthread_barrier_init(&start, NULL, 2);
    write_all(closer.store, 1);
    memset(users, 0, sizeof(users));
    for (i = 0; i < kThreads; ++i) {
      users[i].store = closer.store;
      users[i].number = i + 1;
      users[i].begun = &begun;
      CHECK(pthread_create(&threads[i], NULL, use_until_closed, &users[i]) == 0);
    }
    while (value_of(&begun) < kThreads) usleep(100);
    for (i = kThreads; i < kThreads + 2; ++i) {
      CHECK(pthread_create(&threads[i], NULL, close_at_once, &closer) == 0);
    }
    for (i = 0; i < kThreads + 2; ++i) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    CHECK(closed == 1);
    /* Nothing of it is open any more, and what was acknowledged is there. */
    closer.store = open_store();
    for (i = 0; i < kThreads; ++i) {
      CHECK(users[i].answered == users[i].started);
      written += users[i].written;
    }
    CHECK(stat_of(closer.store, "record_count") == written);
    CHECK(engine_race_close(closer.store) == ENGINE_RACE_OK);
    remove_in(directory);
  }
}

/* A visitor that stays until the store is being closed. */
struct stay {
  struct held held;
  int visits;
  int left;
};

static int stay_until_it_closes(void* argument, uint64_t key, const void* value) {
  struct stay* stay = argument;
  unsigned char other[ENGINE_RACE_VALUE_BYTES];
  (void)key;
  (void)value;
  add_one(&stay->visits);
  while (engine_race_read(stay->held.store, key_of(1), other) == ENGINE_RACE_OK) usleep(100);
  all_refuse(&stay->held, "clos");
  free_parts(&stay->held);
  /* A close that does not wait for this call ends meanwhile. */
  usleep(50000);
  add_one(&stay->left);
  return 1;
}

static void* range_and_stay(void* argument) {
  struct stay* stay = argument;
  CHECK(engine_race_range(stay->held.store, NULL, NULL, stay_until_it_closes, stay) ==
        ENGINE_RACE_OK);
  return NULL;
}

static void case_close_waits(void) {
  struct stay stay;
  pthread_t thread;
  memset(&stay, 0, sizeof(stay));
  stay.held = hold(directory);
  CHECK(pthread_create(&thread, NULL, range_and_stay, &stay) == 0);
  while (!value_of(&stay.visits)) usleep(100);
  CHECK(engine_race_close(stay.held.store) == ENGINE_RACE_OK);
  CHECK(value_of(&stay.left));
  pthread_join(thread, NULL);
}

/* Snapshots and iterators that are freed while their store is being closed: by a thread, and by the
 * ends of reads, for which the close waits. */
enum { kStarted = 100 };

struct started {
  struct held held[2 * kStarted];
  unsigned char* rows;
  int ended;
};

struct one_read {
  struct started* all;
  int number;
};

static void done_and_free(void* argument, int code) {
  struct one_read* one = argument;
  struct started* all = one->all;
  unsigned char* const row = all->rows + one->number * (size_t)ENGINE_RACE_VALUE_BYTES;
  CHECK(code == ENGINE_RACE_OK && has(row, (uint64_t)one->number, 1));
  free_parts(&all->held[one->number]);
  add_one(&all->ended);
}

static void* free_the_others(void* argument) {
  struct started* all = argument;
  int i;
  for (i = kStarted; i < 2 * kStarted; ++i) free_parts(&all->held[i]);
  return NULL;
}

static void case_frees_beside_a_close(void) {
  int round;
  for (round = 0; round < 5; ++round) {
    static struct started all;
    struct one_read reads[kStarted];
    engine_race_store* store = open_store();
    pthread_t thread;
    int i;
    memset(&all, 0, sizeof(all));
    all.rows = malloc(kStarted * (size_t)ENGINE_RACE_VALUE_BYTES);
    write_all(store, 1);
    for (i = 0; i < 2 * kStarted; ++i) {
      CHECK(engine_race_snapshot_take(store, &all.held[i].snapshot) == ENGINE_RACE_OK);
      CHECK(engine_race_iterator_create(store, NULL, &all.held[i].iterator) == ENGINE_RACE_OK);
    }
    CHECK(pthread_create(&thread, NULL, free_the_others, &all) == 0);
    for (i = 0; i < kStarted; ++i) {
      reads[i].all = &all;
      reads[i].number = i;
      CHECK(engine_race_read_async(store, key_of((uint64_t)i),
                                   all.rows + i * (size_t)ENGINE_RACE_VALUE_BYTES, done_and_free,
                                   &reads[i]) == ENGINE_RACE_OK);
    }
    CHECK(engine_race_close(store) == ENGINE_RACE_OK);
    CHECK(value_of(&all.ended) == kStarted);
    pthread_join(thread, NULL);
    free(all.rows);
    remove_in(directory);
  }
}

/* Threads that look at iterators of their own until the store is closed, and then free them while
 * it still closes. Such calls are short, so many of them begin at the very moment of the close. */
static void* look_until_closed(void* argument) {
  const struct held* held = argument;
  while (engine_race_iterator_valid(held->iterator)) {
  }
  free_parts(held);
  return NULL;
}

static void case_short_calls_beside_a_close(void) {
  int round;
  for (round = 0; round < 50; ++round) {
    engine_race_store* store = open_store();
    struct held held[kThreads];
    pthread_t threads[kThreads];
    unsigned char value[ENGINE_RACE_VALUE_BYTES];
    int i;
    fill(value, 0, 1);
    CHECK(engine_race_write(store, key_of(0), value) == ENGINE_RACE_OK);
    for (i = 0; i < kThreads; ++i) {
      CHECK(engine_race_snapshot_take(store, &held[i].snapshot) == ENGINE_RACE_OK);
      CHECK(engine_race_iterator_create(store, NULL, &held[i].iterator) == ENGINE_RACE_OK);
      engine_race_iterator_seek_to_first(held[i].iterator);
      CHECK(pthread_create(&threads[i], NULL, look_until_closed, &held[i]) == 0);
    }
    CHECK(engine_race_close(store) == ENGINE_RACE_OK);
    for (i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  }
}

/* A child of a sanitized process may find locks of the sanitizer taken, and can start no threads
 * under ThreadSanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { kSanitized = 1 };
#else
enum { kSanitized = 0 };
#endif

/* In a forked child, which may not take longer than a minute. */

static pid_t fork_child(void (*work)(const void*), const void* argument) {
  const pid_t child = fork();
  if (child == 0) {
    const int before = failed_checks;
    alarm(60);
    work(argument);
    fflush(stdout);
    _exit(failed_checks == before ? 0 : 1);
  }
  return child;
}

static void await_child(pid_t child) {
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void refuse_in_child(const void* argument) {
  const struct held* held = argument;
  all_refuse(held, "forked");
  free_parts(held);
  REFUSED(engine_race_close(held->store), "forked");
}

static void use_own_store(const void* argument) {
  const struct held* parents = argument;
  struct held own;
  char where[300];
  snprintf(where, sizeof(where), "%s-child", directory);
  all_refuse(parents, "forked");
  own = hold(where);
  all_refuse(parents, "forked");
  await_child(fork_child(refuse_in_child, &own));
  CHECK(engine_race_sync(own.store) == ENGINE_RACE_OK);
  CHECK(engine_race_close(own.store) == ENGINE_RACE_OK);
  all_refuse(&own, "closed");
  free_parts(&own);
  remove_in(where);
}

static void case_forked_children(void) {
  const struct held held = hold(directory);
  unsigned char value[ENGINE_RACE_VALUE_BYTES];
  await_child(fork_child(refuse_in_child, &held));
  if (!kSanitized) await_child(fork_child(use_own_store, &held));
  /* The parent has not noticed. */
  CHECK(engine_race_iterator_valid(held.iterator));
  CHECK(engine_race_snapshot_read(held.snapshot, key_of(3), value) == ENGINE_RACE_OK);
  CHECK(has(value, 3, 1));
  CHECK(stat_of(held.store, "view_count") == 2);
  CHECK(engine_race_write(held.store, 1, value) == ENGINE_RACE_OK);
  CHECK(engine_race_close(held.store) == ENGINE_RACE_OK);
  await_child(fork_child(refuse_in_child, &held));
  free_parts(&held);
}

/* Forks beside threads that may hold any lock of the library. */
struct busy {
  struct held held;
  int stop;
  int rounds;
};

static void* be_busy(void* argument) {
  struct busy* busy = argument;
  struct user user;
  memset(&user, 0, sizeof(user));
  user.store = busy->held.store;
  while (!value_of(&busy->stop)) {
    CHECK(walk_once(&user) == ENGINE_RACE_OK);
    stat_of(user.store, "view_count");
    add_one(&busy->rounds);
  }
  return NULL;
}

static void* close_others(void* argument) {
  struct busy* busy = argument;
  char where[300];
  snprintf(where, sizeof(where), "%s-other", directory);
  while (!value_of(&busy->stop)) CHECK(engine_race_close(open_in(where)) == ENGINE_RACE_OK);
  remove_in(where);
  return NULL;
}

static void case_forks_beside_threads(void) {
  static struct busy busy;
  pthread_t threads[kThreads];
  int i;
  busy.held = hold(directory);
  for (i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, i == 0 ? close_others : be_busy, &busy) == 0);
  }
  while (value_of(&busy.rounds) < 100) usleep(100);
  for (i = 0; i < 100; ++i) {
    await_child(fork_child(i % 10 == 0 ? use_own_store : refuse_in_child, &busy.held));
  }
  add_one(&busy.stop);
  for (i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  free_parts(&busy.held);
  CHECK(engine_race_close(busy.held.store) == ENGINE_RACE_OK);
}

int main(void) {
  char base[] = "/tmp/engine_race_c_XXXXXX";
  if (!make_base(base)) return 1;
  run("calls after the close", case_after_the_close);
  run("snapshots of other stores", case_snapshots_of_other_stores);
  run("two threads close beside calls", case_two_close_beside_calls);
  run("a close waits for a range", case_close_waits);
  run("frees beside a close", case_frees_beside_a_close);
  run("short calls beside a close", case_short_calls_beside_a_close);
  run("forked children", case_forked_children);
  if (!kSanitized) run("forks beside threads", case_forks_beside_threads);
  rmdir(base);
  return failed_checks != 0;
}
