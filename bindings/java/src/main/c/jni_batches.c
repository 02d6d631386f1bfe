/* Batches. */
#include <stdlib.h>

#include "jni_support.h"

NATIVE(jlong, batchCreate)(JNIEnv* env, jclass type, jint value_bytes) {
  engine_race_batch* batch = engine_race_batch_create((uint32_t)value_bytes);
  if (batch == NULL) throw_out_of_memory(env);
  return HANDLE(batch);
}

NATIVE(void, batchDestroy)(JNIEnv* env, jclass type, jlong batch) {
  engine_race_batch_destroy(BATCH(batch));
}

NATIVE(void, batchWrite)
(JNIEnv* env, jclass type, jlong batch, jlong key, jobject value, jint offset) {
  throw_unless_ok(
      env, engine_race_batch_write(BATCH(batch), (uint64_t)key, memory_of(env, value, offset)));
}

NATIVE(void, batchWriteArray)
(JNIEnv* env, jclass type, jlong batch, jlong key, jbyteArray value, jint offset, jint size) {
  struct row row;
  if (copy_row(env, &row, value, offset, size) == NULL) return;
  throw_unless_ok(env, engine_race_batch_write(BATCH(batch), (uint64_t)key, row.bytes));
  end_row(&row);
}

NATIVE(void, batchWriteMany)
(JNIEnv* env, jclass type, jlong batch, jlongArray keys, jint from, jint count, jobject values,
 jint offset) {
  uint64_t* ids = copy_keys(env, keys, from, count);
  if (ids == NULL) return;
  throw_unless_ok(env, engine_race_batch_write_many(BATCH(batch), (size_t)count, ids,
                                                    memory_of(env, values, offset)));
  free(ids);
}

NATIVE(void, batchDelete)(JNIEnv* env, jclass type, jlong batch, jlong key) {
  throw_unless_ok(env, engine_race_batch_delete(BATCH(batch), (uint64_t)key));
}

NATIVE(void, batchReserve)
(JNIEnv* env, jclass type, jlong batch, jlong write_count, jlong delete_count) {
  throw_unless_ok(
      env, engine_race_batch_reserve(BATCH(batch), (size_t)write_count, (size_t)delete_count));
}

NATIVE(void, batchClear)(JNIEnv* env, jclass type, jlong batch) {
  engine_race_batch_clear(BATCH(batch));
}

NATIVE(jlong, batchSize)(JNIEnv* env, jclass type, jlong batch) {
  return (jlong)engine_race_batch_size(BATCH(batch));
}

NATIVE(void, writeBatch)(JNIEnv* env, jclass type, jlong store, jlong batch) {
  throw_unless_ok(env, engine_race_write_batch(STORE(store), BATCH(batch)));
}
