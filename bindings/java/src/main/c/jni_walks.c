/* Ranges and iterators. */
#include <stdlib.h>
#include <string.h>

#include "jni_support.h"

/* A range. Records are copied into a block of Java, and Walk.visitBlock is called once for a full
 * block. Such a call costs more than the copy of a record. The first block has one record, and each
 * further one twice as many. So few records are read behind one that ends the walk early. */
struct walk {
  JNIEnv* env;
  jobject visited; /* a Walk */
  char* values;
  size_t value_bytes;
  jlong* keys;
  jint count;  /* of records in the block */
  jint target; /* as many make it full */
  jint room;
  int has_ended;     /* by the visitor */
  jthrowable thrown; /* only where Walk.visitBlock could not catch it */
};

static int hand_block_on(struct walk* walk) {
  JNIEnv* env = walk->env;
  const jint count = walk->count;
  walk->count = 0;
  if (walk->target <= walk->room / 2) walk->target *= 2;
  const jboolean goes_on = (*env)->CallBooleanMethod(env, walk->visited, walk_visit_block, count);
  if ((*env)->ExceptionCheck(env)) {
    walk->thrown = (*env)->ExceptionOccurred(env);
    (*env)->ExceptionClear(env);
    walk->has_ended = 1;
  } else if (!goes_on) {
    walk->has_ended = 1;
  }
  return walk->has_ended;
}

/* Of engine_race_visit_fn. */
static int visit(void* argument, uint64_t key, const void* value) {
  struct walk* walk = argument;
  memcpy(walk->values + (size_t)walk->count * walk->value_bytes, value, walk->value_bytes);
  walk->keys[walk->count] = (jlong)key;
  return ++walk->count < walk->target ? 0 : hand_block_on(walk);
}

/* Null where that side is open. */
static const uint64_t* bound(jboolean is_there, const jlong* key) {
  return is_there ? (const uint64_t*)key : NULL;
}

NATIVE(void, range)
(JNIEnv* env, jclass type, jlong store, jlong snapshot, jboolean has_lower, jlong lower,
 jboolean has_upper, jlong upper, jobject visited, jobject block, jint room, jint value_bytes,
 jint keys_offset) {
  struct walk walk = {.env = env, .visited = visited, .target = 1, .room = room};
  walk.values = memory_of(env, block, 0);
  walk.value_bytes = (size_t)value_bytes;
  walk.keys = (jlong*)memory_of(env, block, keys_offset);
  const uint64_t* from = bound(has_lower, &lower);
  const uint64_t* to = bound(has_upper, &upper);
  const int code = snapshot == 0
                       ? engine_race_range(STORE(store), from, to, visit, &walk)
                       : engine_race_snapshot_range(SNAPSHOT(snapshot), from, to, visit, &walk);
  /* The visitor may make further calls, whose failures would take the place of this one's. */
  jthrowable failure = NULL;
  if (code != ENGINE_RACE_OK && (failure = new_failure(env, code)) == NULL) return;
  if (walk.count > 0 && !walk.has_ended) {
    hand_block_on(&walk);
    /* These records lie before the failure: a visitor that ends here has not met it. */
    if (walk.has_ended) failure = NULL;
  }
  if (walk.thrown != NULL) failure = walk.thrown;
  if (failure != NULL) (*env)->Throw(env, failure);
}

NATIVE(jlong, iteratorCreate)
(JNIEnv* env, jclass type, jlong store, jlong snapshot, jboolean has_lower, jlong lower,
 jboolean has_upper, jlong upper, jint prefetch_records, jlong refresh_every_steps) {
  const engine_race_iterator_options options = {
      .struct_bytes = sizeof(options),
      .snapshot = SNAPSHOT(snapshot),
      .lower = bound(has_lower, &lower),
      .upper = bound(has_upper, &upper),
      .prefetch_records = (uint64_t)prefetch_records,
      .refresh_every_steps = (uint64_t)refresh_every_steps,
  };
  engine_race_iterator* iterator = NULL;
  throw_unless_ok(env, engine_race_iterator_create(STORE(store), &options, &iterator));
  return HANDLE(iterator);
}

NATIVE(void, iteratorDestroy)(JNIEnv* env, jclass type, jlong iterator) {
  engine_race_iterator_destroy(ITERATOR(iterator));
}

/* Moves the iterator. Whether it stands at a record then; throws what ended the walk. */
NATIVE(jboolean, iteratorMove)(JNIEnv* env, jclass type, jlong handle, jint move, jlong key) {
  engine_race_iterator* iterator = ITERATOR(handle);
  switch (move) {
    case race_engine_Native_TO_FIRST:
      engine_race_iterator_seek_to_first(iterator);
      break;
    case race_engine_Native_TO_LAST:
      engine_race_iterator_seek_to_last(iterator);
      break;
    case race_engine_Native_TO_KEY:
      engine_race_iterator_seek(iterator, (uint64_t)key);
      break;
    case race_engine_Native_BACK_TO_KEY:
      engine_race_iterator_seek_for_prev(iterator, (uint64_t)key);
      break;
    case race_engine_Native_TO_NEXT:
      engine_race_iterator_next(iterator);
      break;
    default:
      engine_race_iterator_prev(iterator);
      break;
  }
  if (engine_race_iterator_valid(iterator)) return JNI_TRUE;
  throw_unless_ok(env, engine_race_iterator_status(iterator));
  return JNI_FALSE;
}

NATIVE(jboolean, iteratorValid)(JNIEnv* env, jclass type, jlong iterator) {
  return engine_race_iterator_valid(ITERATOR(iterator)) ? JNI_TRUE : JNI_FALSE;
}

NATIVE(jlong, iteratorKey)(JNIEnv* env, jclass type, jlong iterator) {
  return (jlong)engine_race_iterator_key(ITERATOR(iterator));
}

/* The value where the iterator stands. Null where it stands at no record, and when it has thrown.
 * The memory is good while the store is open: Java holds it open until the value is copied. */
static const void* value_at(JNIEnv* env, engine_race_iterator* iterator) {
  const void* value = engine_race_iterator_value(iterator);
  if (value == NULL) throw_unless_ok(env, engine_race_iterator_status(iterator));
  return value;
}

NATIVE(jboolean, iteratorValue)
(JNIEnv* env, jclass type, jlong iterator, jobject target, jint offset, jint size) {
  const void* value = value_at(env, ITERATOR(iterator));
  if (value == NULL) return JNI_FALSE;
  memcpy(memory_of(env, target, offset), value, (size_t)size);
  return JNI_TRUE;
}

NATIVE(jboolean, iteratorValueArray)
(JNIEnv* env, jclass type, jlong iterator, jbyteArray target, jint offset, jint size) {
  const void* value = value_at(env, ITERATOR(iterator));
  if (value == NULL) return JNI_FALSE;
  (*env)->SetByteArrayRegion(env, target, offset, size, value);
  return JNI_TRUE;
}

/* Takes up to `count` records; `values` may be null. The answer is how many there were. A failure
 * behind the first records is thrown by the next call, so that these are not lost. */
NATIVE(jint, iteratorTake)
(JNIEnv* env, jclass type, jlong iterator, jint count, jlongArray keys, jint from, jobject values,
 jint offset) {
  uint64_t* ids = allocate(env, (size_t)count * sizeof(uint64_t));
  if (ids == NULL) return 0;
  char* rows = values == NULL ? NULL : memory_of(env, values, offset);
  size_t taken = 0;
  const int code = engine_race_iterator_take(ITERATOR(iterator), (size_t)count, ids, rows, &taken);
  if (taken == 0) {
    throw_unless_ok(env, code);
  } else {
    (*env)->SetLongArrayRegion(env, keys, from, (jsize)taken, (const jlong*)ids);
  }
  free(ids);
  return (jint)taken;
}

NATIVE(void, iteratorRefresh)(JNIEnv* env, jclass type, jlong iterator) {
  throw_unless_ok(env, engine_race_iterator_refresh(ITERATOR(iterator)));
}
