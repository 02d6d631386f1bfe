/* Names, options, the log, and counters of a store. */
#include <stdlib.h>
#include <string.h>

#include "jni_support.h"

NATIVE(jbyteArray, version)(JNIEnv* env, jclass type) {
  return bytes_of(env, engine_race_version());
}

NATIVE(jbyteArray, codeName)(JNIEnv* env, jclass type, jint code) {
  return bytes_of(env, engine_race_code_name(code));
}

NATIVE(jobjectArray, optionNames)(JNIEnv* env, jclass type) {
  return texts_of(env, engine_race_option_name);
}

NATIVE(jobjectArray, statNames)(JNIEnv* env, jclass type) {
  return texts_of(env, engine_race_stat_name);
}

/* The text that a call of the engine has given, which this frees. Null: it has thrown. */
static jbyteArray given_text(JNIEnv* env, int code, char* text) {
  throw_unless_ok(env, code);
  jbyteArray bytes = code == ENGINE_RACE_OK ? bytes_of(env, text) : NULL;
  engine_race_free(text);
  return bytes;
}

/* The value of an option behind those of the pairs, which must be valid. */
NATIVE(jbyteArray, optionGet)(JNIEnv* env, jclass type, jobjectArray pairs, jbyteArray name) {
  engine_race_options* options = make_options(env, pairs, 0);
  if (options == NULL) return NULL;
  jbyteArray value = NULL;
  char* name_text = copy_text(env, name);
  if (name_text != NULL) {
    char* text = NULL;
    const int code = engine_race_options_get(options, name_text, &text);
    value = given_text(env, code, text);
  }
  free(name_text);
  engine_race_options_destroy(options);
  return value;
}

NATIVE(jlong, logQueueCreate)(JNIEnv* env, jclass type, jint most_messages) {
  engine_race_log_queue* queue = NULL;
  throw_unless_ok(env, engine_race_log_queue_create((size_t)most_messages, &queue));
  return HANDLE(queue);
}

NATIVE(void, logQueueDestroy)(JNIEnv* env, jclass type, jlong queue) {
  engine_race_log_queue_destroy(LOG_QUEUE(queue));
}

/* The number of messages that wait, as a buffer of 4 bytes over the engine's memory. */
NATIVE(jobject, logQueueWaiting)(JNIEnv* env, jclass type, jlong queue) {
  const volatile uint32_t* waiting = engine_race_log_queue_waiting(LOG_QUEUE(queue));
  return (*env)->NewDirectByteBuffer(env, (void*)(uintptr_t)waiting, sizeof(*waiting));
}

/* Takes a message: its level and time go into `about`, its text is the answer. Null: none waits. */
NATIVE(jbyteArray, logQueueTake)(JNIEnv* env, jclass type, jlong queue, jlongArray about) {
  engine_race_log_message message;
  memset(&message, 0, sizeof(message));
  message.struct_bytes = sizeof(message);
  const int code = engine_race_log_queue_take(LOG_QUEUE(queue), &message);
  if (code == ENGINE_RACE_NOT_FOUND) return NULL;
  if (code != ENGINE_RACE_OK) {
    throw_unless_ok(env, code);
    return NULL;
  }
  const jlong numbers[] = {(jlong)message.level, (jlong)message.time_ns};
  (*env)->SetLongArrayRegion(env, about, 0, 2, numbers);
  return bytes_of(env, message.text);
}

NATIVE(jint, stats)(JNIEnv* env, jclass type, jlong store, jlongArray target) {
  const jsize count = (*env)->GetArrayLength(env, target);
  uint64_t* values = allocate(env, (size_t)count * sizeof(uint64_t));
  if (values == NULL) return 0;
  size_t given = 0;
  const int code = engine_race_stats(STORE(store), values, (size_t)count, &given);
  if (code == ENGINE_RACE_OK) {
    (*env)->SetLongArrayRegion(env, target, 0, (jsize)given, (const jlong*)values);
  }
  throw_unless_ok(env, code);
  free(values);
  return (jint)given;
}

/* Live and dead bytes of the first buckets, as many as the arrays hold. How many there were. */
NATIVE(jint, bucketSpace)(JNIEnv* env, jclass type, jlong store, jlongArray live, jlongArray dead) {
  const jsize count = (*env)->GetArrayLength(env, live);
  uint64_t* bytes = allocate(env, 2 * (size_t)count * sizeof(uint64_t));
  if (bytes == NULL) return 0;
  size_t given = 0;
  const int code =
      engine_race_bucket_space(STORE(store), bytes, bytes + count, (size_t)count, &given);
  if (code == ENGINE_RACE_OK) {
    (*env)->SetLongArrayRegion(env, live, 0, (jsize)given, (const jlong*)bytes);
    (*env)->SetLongArrayRegion(env, dead, 0, (jsize)given, (const jlong*)(bytes + count));
  }
  throw_unless_ok(env, code);
  free(bytes);
  return (jint)given;
}

/* `measured`, and then the numbers of each latency, in the order of the structures. */
NATIVE(void, latencies)(JNIEnv* env, jclass type, jlong store, jlongArray target) {
  engine_race_latencies latencies;
  memset(&latencies, 0, sizeof(latencies));
  latencies.struct_bytes = sizeof(latencies);
  const int code = engine_race_latency_stats(STORE(store), &latencies);
  if (code == ENGINE_RACE_OK) {
    const jsize count = (jsize)((sizeof(latencies) - sizeof(size_t)) / sizeof(uint64_t));
    (*env)->SetLongArrayRegion(env, target, 0, count, (const jlong*)&latencies.measured);
  }
  throw_unless_ok(env, code);
}

NATIVE(jbyteArray, property)(JNIEnv* env, jclass type, jlong store, jbyteArray name) {
  char* name_text = copy_text(env, name);
  if (name_text == NULL) return NULL;
  char* text = NULL;
  const int code = engine_race_property(STORE(store), name_text, &text);
  free(name_text);
  return given_text(env, code, text);
}
