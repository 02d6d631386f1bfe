/* Stores and snapshots: records, one and many. */
#include <stdlib.h>

#include "jni_support.h"

NATIVE(jlong, open)
(JNIEnv* env, jclass type, jbyteArray directory, jobjectArray pairs, jlong queue) {
  engine_race_options* options = make_options(env, pairs, queue);
  if (options == NULL) return 0;
  engine_race_store* store = NULL;
  char* path = copy_text(env, directory);
  if (path != NULL) throw_unless_ok(env, engine_race_open(path, options, &store));
  free(path);
  engine_race_options_destroy(options);
  return HANDLE(store);
}

NATIVE(jint, valueBytes)(JNIEnv* env, jclass type, jlong store) {
  return (jint)engine_race_value_bytes(STORE(store));
}

NATIVE(void, close)(JNIEnv* env, jclass type, jlong store) {
  throw_unless_ok(env, engine_race_close(STORE(store)));
}

NATIVE(void, write)(JNIEnv* env, jclass type, jlong store, jlong key, jobject value, jint offset) {
  throw_unless_ok(env,
                  engine_race_write(STORE(store), (uint64_t)key, memory_of(env, value, offset)));
}

NATIVE(void, writeArray)
(JNIEnv* env, jclass type, jlong store, jlong key, jbyteArray value, jint offset, jint size) {
  struct row row;
  if (copy_row(env, &row, value, offset, size) == NULL) return;
  throw_unless_ok(env, engine_race_write(STORE(store), (uint64_t)key, row.bytes));
  end_row(&row);
}

NATIVE(void, delete)(JNIEnv* env, jclass type, jlong store, jlong key) {
  throw_unless_ok(env, engine_race_delete(STORE(store), (uint64_t)key));
}

/* Whether a read found its key. Throws for every other failure than a missing key. */
static jboolean found(JNIEnv* env, int code) {
  if (code == ENGINE_RACE_OK) return JNI_TRUE;
  if (code != ENGINE_RACE_NOT_FOUND) throw_unless_ok(env, code);
  return JNI_FALSE;
}

/* Likewise, of a read into a row, whose bytes go into an array. It ends the row. */
static jboolean found_for_array(JNIEnv* env, int code, struct row* row, jbyteArray target,
                                jint offset, jint size) {
  const jboolean is_found = found(env, code);
  if (is_found) {
    (*env)->SetByteArrayRegion(env, target, offset, size, (const jbyte*)row->bytes);
  }
  end_row(row);
  return is_found;
}

NATIVE(jboolean, read)
(JNIEnv* env, jclass type, jlong store, jlong key, jobject target, jint offset) {
  return found(env, engine_race_read(STORE(store), (uint64_t)key, memory_of(env, target, offset)));
}

NATIVE(jboolean, readArray)
(JNIEnv* env, jclass type, jlong store, jlong key, jbyteArray target, jint offset, jint size) {
  struct row row;
  if (begin_row(env, &row, size) == NULL) return JNI_FALSE;
  const int code = engine_race_read(STORE(store), (uint64_t)key, row.bytes);
  return found_for_array(env, code, &row, target, offset, size);
}

NATIVE(jlong, snapshotTake)(JNIEnv* env, jclass type, jlong store) {
  engine_race_snapshot* snapshot = NULL;
  throw_unless_ok(env, engine_race_snapshot_take(STORE(store), &snapshot));
  return HANDLE(snapshot);
}

NATIVE(void, snapshotRelease)(JNIEnv* env, jclass type, jlong snapshot) {
  engine_race_snapshot_release(SNAPSHOT(snapshot));
}

NATIVE(jboolean, snapshotRead)
(JNIEnv* env, jclass type, jlong snapshot, jlong key, jobject target, jint offset) {
  return found(env, engine_race_snapshot_read(SNAPSHOT(snapshot), (uint64_t)key,
                                              memory_of(env, target, offset)));
}

NATIVE(jboolean, snapshotReadArray)
(JNIEnv* env, jclass type, jlong snapshot, jlong key, jbyteArray target, jint offset, jint size) {
  struct row row;
  if (begin_row(env, &row, size) == NULL) return JNI_FALSE;
  const int code = engine_race_snapshot_read(SNAPSHOT(snapshot), (uint64_t)key, row.bytes);
  return found_for_array(env, code, &row, target, offset, size);
}

/* Reads keys of a store, or of a snapshot where `store` is null. */
static void read_many(JNIEnv* env, engine_race_store* store, const engine_race_snapshot* snapshot,
                      jlongArray keys, jint from, jint count, char* values, jintArray codes,
                      jobject progress) {
  uint64_t* ids = copy_keys(env, keys, from, count);
  int* answers = ids == NULL ? NULL : allocate(env, (size_t)count * sizeof(int));
  if (answers != NULL) {
    struct long_call call;
    /* A call that is refused as a whole sets none of them. */
    for (jint i = 0; i < count; ++i) answers[i] = ENGINE_RACE_INCOMPLETE;
    begin_long_call(&call, env, progress);
    const int code =
        store != NULL
            ? engine_race_read_many(store, (size_t)count, ids, values, answers)
            : engine_race_snapshot_read_many(snapshot, (size_t)count, ids, values, answers);
    end_long_call(&call);
    (*env)->SetIntArrayRegion(env, codes, from, count, (const jint*)answers);
    throw_outcome(&call, code);
  }
  free(answers);
  free(ids);
}

NATIVE(void, readMany)
(JNIEnv* env, jclass type, jlong store, jlongArray keys, jint from, jint count, jobject values,
 jint offset, jintArray codes, jobject progress) {
  read_many(env, STORE(store), NULL, keys, from, count, memory_of(env, values, offset), codes,
            progress);
}

NATIVE(void, snapshotReadMany)
(JNIEnv* env, jclass type, jlong snapshot, jlongArray keys, jint from, jint count, jobject values,
 jint offset, jintArray codes, jobject progress) {
  read_many(env, NULL, SNAPSHOT(snapshot), keys, from, count, memory_of(env, values, offset), codes,
            progress);
}

/* Writes keys[from] and so on, or deletes them where `values` is null. How many were done goes
 * into done[0]. */
static void change_many(JNIEnv* env, jlong store, jlongArray keys, jint from, jint count,
                        const char* values, jlongArray done, jobject progress) {
  uint64_t* ids = copy_keys(env, keys, from, count);
  if (ids == NULL) return;
  struct long_call call;
  size_t changed = 0;
  begin_long_call(&call, env, progress);
  const int code = values == NULL
                       ? engine_race_delete_many(STORE(store), (size_t)count, ids, &changed)
                       : engine_race_write_many(STORE(store), (size_t)count, ids, values, &changed);
  end_long_call(&call);
  const jlong changed_count = (jlong)changed;
  (*env)->SetLongArrayRegion(env, done, 0, 1, &changed_count);
  throw_outcome(&call, code);
  free(ids);
}

NATIVE(void, writeMany)
(JNIEnv* env, jclass type, jlong store, jlongArray keys, jint from, jint count, jobject values,
 jint offset, jlongArray done, jobject progress) {
  change_many(env, store, keys, from, count, memory_of(env, values, offset), done, progress);
}

NATIVE(void, deleteMany)
(JNIEnv* env, jclass type, jlong store, jlongArray keys, jlongArray done, jobject progress) {
  change_many(env, store, keys, 0, (*env)->GetArrayLength(env, keys), NULL, done, progress);
}

NATIVE(void, sync)(JNIEnv* env, jclass type, jlong store) {
  throw_unless_ok(env, engine_race_sync(STORE(store)));
}

NATIVE(void, refresh)(JNIEnv* env, jclass type, jlong store) {
  throw_unless_ok(env, engine_race_refresh(STORE(store)));
}

NATIVE(void, compact)(JNIEnv* env, jclass type, jlong store, jobject progress) {
  struct long_call call;
  begin_long_call(&call, env, progress);
  const int code = engine_race_compact(STORE(store));
  end_long_call(&call);
  throw_outcome(&call, code);
}
