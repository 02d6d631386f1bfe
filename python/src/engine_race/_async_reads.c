/* Asynchronous reads for event loops of Python. The engine's threads end them, and run no code of
 * Python for that: such a thread would wait for the interpreter's lock.
 *
 * A group is the reads of one call. A lane starts the reads of all groups of a store, one of each
 * in turn, and keeps at most `limit` of them pending: the store makes no caller wait for a read. A
 * hub is of one event loop. It collects the groups that have ended, and an eventfd tells the loop.
 *
 * Lock order: none. No lock of this file is held while the engine is called, or with another one.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { OK = 0, INCOMPLETE = 6, BUSY = 10 };

typedef void (*done_fn)(void* argument, int code);
typedef int (*read_fn)(void* store, uint64_t key, void* value, done_fn done, void* argument);

typedef struct group group;

typedef struct hub {
  pthread_mutex_t mutex;
  group *ended, *taken; /* those that were taken are passed one by one */
  int event;
  int references; /* of its owner, and of each group that has not ended */
  pid_t pid;
} hub;

typedef struct lane {
  pthread_mutex_t mutex;
  read_fn read;
  void* store;
  size_t value_bytes;
  size_t limit, pending; /* reads */
  group *first, *last;   /* with reads that are not started */
  int is_released;
  pid_t pid;
} lane;

typedef struct read_slot {
  group* of;
} read_slot;

struct group {
  uint64_t number;
  hub* at;
  lane* on;
  size_t count, next, left; /* keys; the next one to start; those that have not ended */
  const uint64_t* keys;
  char* values;
  int* codes;
  group* following; /* in the lane's queue, and then in a list of the hub */
  int is_started;
  read_slot slots[];
};

/* 1 while this thread starts a read; 2 when that read has ended before its start returned. */
static __thread int starting;

hub* reads_new_hub(void) {
  hub* made = calloc(1, sizeof(hub));
  if (made == NULL) return NULL;
  made->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made->event < 0) {
    free(made);
    return NULL;
  }
  pthread_mutex_init(&made->mutex, NULL);
  made->references = 1;
  made->pid = getpid();
  return made;
}

int reads_event(const hub* at) { return at->event; }

/* In the child of a fork it does nothing: a thread that is not there may hold the lock. */
void reads_release_hub(hub* at) {
  if (at->pid != getpid()) return;
  /* ACQ_REL: the last one sees all that the others did with the hub before. */
  if (__atomic_sub_fetch(&at->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  close(at->event);
  pthread_mutex_destroy(&at->mutex);
  free(at);
}

/* A group that has ended and was not passed; null where there is none. Until then the event tells
 * of it: a signal handler of Python may raise before a group is passed. */
group* reads_next_ended(hub* at) {
  pthread_mutex_lock(&at->mutex);
  if (at->taken == NULL) {
    at->taken = at->ended;
    at->ended = NULL;
  }
  group* next = at->taken;
  if (next == NULL) {
    uint64_t told;
    /* It fails where nothing was told. Who ends a group tells of it later than it is in the list.
     */
    const ssize_t told_bytes = read(at->event, &told, sizeof(told));
    (void)told_bytes;
  }
  pthread_mutex_unlock(&at->mutex);
  return next;
}

/* Of the group that reads_next_ended gave. */
void reads_pass_ended(hub* at) {
  pthread_mutex_lock(&at->mutex);
  at->taken = at->taken->following;
  pthread_mutex_unlock(&at->mutex);
}

lane* reads_new_lane(void* store, void* read_function, size_t value_bytes, size_t limit) {
  lane* made = calloc(1, sizeof(lane));
  if (made == NULL) return NULL;
  pthread_mutex_init(&made->mutex, NULL);
  made->read = (read_fn)(uintptr_t)read_function;
  made->store = store;
  made->value_bytes = value_bytes;
  made->limit = limit;
  made->pid = getpid();
  return made;
}

static void free_lane(lane* on) {
  pthread_mutex_destroy(&on->mutex);
  free(on);
}

/* It goes when its last read has ended. Groups must have no reads left to start. */
void reads_release_lane(lane* on) {
  if (on->pid != getpid()) return;
  pthread_mutex_lock(&on->mutex);
  on->is_released = 1;
  const int is_unused = on->pending == 0;
  pthread_mutex_unlock(&on->mutex);
  if (is_unused) free_lane(on);
}

/* Keys, values and codes must live until the group has ended. */
group* reads_new_group(lane* on, hub* at, uint64_t number, size_t count, const uint64_t* keys,
                       char* values, int* codes) {
  if (count > (SIZE_MAX - sizeof(group)) / sizeof(read_slot)) return NULL;
  group* made = malloc(sizeof(group) + count * sizeof(read_slot));
  if (made == NULL) return NULL;
  *made = (group){number, at, on, count, 0, count, keys, values, codes, NULL, 0};
  for (size_t i = 0; i < count; i++) made->slots[i].of = made;
  return made;
}

/* Of one that has ended, or was never started. */
void reads_free_group(group* of) { free(of); }

/* `count` reads of the group have ended. It may be gone when this returns. */
static void end_reads(group* of, size_t count) {
  hub* at = of->at;
  /* ACQ_REL: whoever takes the group sees the codes and values of all its reads. */
  if (__atomic_sub_fetch(&of->left, count, __ATOMIC_ACQ_REL) > 0) return;
  pthread_mutex_lock(&at->mutex);
  of->following = at->ended;
  at->ended = of;
  pthread_mutex_unlock(&at->mutex);
  const uint64_t one = 1;
  /* It fails only when the loop has been told 2^64 times and took nothing. */
  const ssize_t written = write(at->event, &one, sizeof(one));
  (void)written;
  reads_release_hub(at);
}

static void end_read(read_slot* slot, int code) {
  group* of = slot->of;
  of->codes[slot - of->slots] = code;
  end_reads(of, 1);
}

/* The next read in turn; null where none is left. With the lane's lock. */
static read_slot* take_next(lane* on) {
  group* of = on->first;
  if (of == NULL) return NULL;
  read_slot* slot = &of->slots[of->next++];
  if (of->next < of->count && of == on->last) return slot;
  on->first = of->following;
  of->following = NULL;
  if (on->first == NULL) on->last = NULL;
  if (of->next < of->count) {
    on->last->following = of;
    on->last = of;
  }
  return slot;
}

static void on_done(void* argument, int code);

/* Starts reads. `has_place`: in place of one that has ended, and no further ones. */
static void start_reads(lane* on, int has_place) {
  const int is_one = has_place;
  for (;;) {
    pthread_mutex_lock(&on->mutex);
    if (!has_place && (on->first == NULL || on->pending == on->limit)) {
      pthread_mutex_unlock(&on->mutex);
      return;
    }
    if (!has_place) on->pending++;
    read_slot* slot = take_next(on);
    if (slot == NULL) {
      on->pending--;
      const int is_last = on->is_released && on->pending == 0;
      pthread_mutex_unlock(&on->mutex);
      if (is_last) free_lane(on);
      return;
    }
    pthread_mutex_unlock(&on->mutex);
    const group* of = slot->of;
    const size_t i = (size_t)(slot - of->slots);
    starting = 1;
    int code;
    /* BUSY: an on_done that found no further read has given the lane's place back and has not
     * returned. Until then the store counts that read. An on_done is never told so: it has a place.
     */
    char* const value = of->values + i * on->value_bytes;
    while ((code = on->read(on->store, of->keys[i], value, on_done, slot)) == BUSY) {
      sched_yield();
    }
    const int has_ended = starting == 2;
    starting = 0;
    if (code == OK && !has_ended && is_one) return;
    if (code != OK) end_read(slot, code);
    has_place = code != OK || has_ended;
  }
}

static void on_done(void* argument, int code) {
  read_slot* slot = argument;
  lane* on = slot->of->on;
  end_read(slot, code);
  if (starting != 0) {
    /* The loop around this goes on with the place. */
    starting = 2;
    return;
  }
  start_reads(on, 1);
}

void reads_start(group* of) {
  lane* on = of->on;
  of->is_started = 1;
  __atomic_add_fetch(&of->at->references, 1, __ATOMIC_RELAXED); /* its owner has one, too */
  pthread_mutex_lock(&on->mutex);
  if (on->last != NULL) on->last->following = of;
  if (on->first == NULL) on->first = of;
  on->last = of;
  pthread_mutex_unlock(&on->mutex);
  start_reads(on, 0);
}

/* Starts no further reads of a group that has not been taken: their codes are INCOMPLETE. */
void reads_stop(group* of) {
  lane* on = of->on;
  pthread_mutex_lock(&on->mutex);
  const size_t first = of->next, count = of->count - first;
  if (count > 0) {
    group* before = NULL;
    for (group* each = on->first; each != of; each = each->following) before = each;
    if (before == NULL) {
      on->first = of->following;
    } else {
      before->following = of->following;
    }
    if (on->last == of) on->last = before;
    of->following = NULL;
    of->next = of->count;
  }
  pthread_mutex_unlock(&on->mutex);
  for (size_t i = 0; i < count; i++) of->codes[first + i] = INCOMPLETE;
  if (count > 0) end_reads(of, count);
}
