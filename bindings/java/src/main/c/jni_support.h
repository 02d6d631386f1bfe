/* Shared by the sources of the JNI library: failures as exceptions, texts, keys, progress.
 *
 * Each function of Native.java is one call of the C API, which include/engine_race_c.h describes.
 * Java checks buffers, lengths and handles before it calls, and gives the size of a store's values.
 * Handles are pointers in a jlong.
 *
 * Functions that return null or 0 where that is said have thrown: an exception is pending then, and
 * the caller frees its memory and returns. Nothing holds a critical region of the Java heap: bytes
 * of arrays are copied, because a call of the engine may wait for a device.
 */
#ifndef ENGINE_RACE_JNI_SUPPORT_H_
#define ENGINE_RACE_JNI_SUPPORT_H_

#include <jni.h>
#include <stdint.h>

#include "engine_race_c.h"
#include "race_engine_Native.h"

/* The function `name` of Native.java. */
#define NATIVE(result, name) JNIEXPORT result JNICALL Java_race_engine_Native_##name

#define STORE(handle) ((engine_race_store*)(intptr_t)(handle))
#define SNAPSHOT(handle) ((engine_race_snapshot*)(intptr_t)(handle))
#define ITERATOR(handle) ((engine_race_iterator*)(intptr_t)(handle))
#define BATCH(handle) ((engine_race_batch*)(intptr_t)(handle))
#define LOG_QUEUE(handle) ((engine_race_log_queue*)(intptr_t)(handle))
#define HANDLE(pointer) ((jlong)(intptr_t)(pointer))

/* Methods that the library calls; found when it is loaded. */
extern jmethodID progress_advance; /* boolean Progress.advance(long, long) */
extern jmethodID walk_visit_block; /* boolean Walk.visitBlock(int) */

/* The exception of the thread's last failure. Null: another exception is pending. */
jthrowable new_failure(JNIEnv* env, int code);
/* Throws that exception unless the code is OK. */
void throw_unless_ok(JNIEnv* env, int code);
void throw_out_of_memory(JNIEnv* env);

/* `size` bytes of malloc; at least one, so that null always means that it has thrown. */
void* allocate(JNIEnv* env, size_t size);
/* A text that ends with 0, for free(). Null for null, and when it has thrown. */
char* copy_text(JNIEnv* env, jbyteArray text);
/* The bytes of a text. Null: it has thrown. */
jbyteArray bytes_of(JNIEnv* env, const char* text);
/* An array of texts, up to the first null of `text_at`. Null: it has thrown. */
jobjectArray texts_of(JNIEnv* env, const char* (*text_at)(size_t));
/* Copies of keys, for free(). Null: it has thrown. */
uint64_t* copy_keys(JNIEnv* env, jlongArray keys, jint from, jint count);

/* Memory for the bytes of an array's value. No larger than usual, it lies on the stack. */
struct row {
  char* bytes;
  char own[ENGINE_RACE_VALUE_BYTES];
};
/* Its memory; null: it has thrown. */
char* begin_row(JNIEnv* env, struct row* row, jint size);
/* Likewise, filled from an array. */
char* copy_row(JNIEnv* env, struct row* row, jbyteArray value, jint offset, jint size);
void end_row(struct row* row);

/* The memory of a direct buffer, from `offset` on. */
char* memory_of(JNIEnv* env, jobject buffer, jint offset);

/* Options from pairs of a name and a value. Null: it has thrown. A queue of 0 is none. */
engine_race_options* make_options(JNIEnv* env, jobjectArray pairs, jlong queue);

/* A long call, with the progress that the caller of Java has given; null is fine. */
struct long_call {
  JNIEnv* env;
  jobject progress;
  jthrowable thrown; /* by the progress */
};
/* To be called right before the call of the engine. */
void begin_long_call(struct long_call* call, JNIEnv* env, jobject progress);
/* To be called right behind it: the thread has no progress from then on. */
void end_long_call(const struct long_call* call);
/* Throws what the progress has thrown, or the failure. To be called last. */
void throw_outcome(const struct long_call* call, int code);

#endif /* ENGINE_RACE_JNI_SUPPORT_H_ */
