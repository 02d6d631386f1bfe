#include "jni_support.h"

#include <stdlib.h>
#include <string.h>

jmethodID progress_advance;
jmethodID walk_visit_block;

static jclass failure_class;
static jmethodID failure_new; /* EngineRaceException(int, byte[], int, byte[]) */
static jclass bytes_class;
static jfieldID buffer_address; /* long Buffer.address; null where this JDK has none */

static jclass find_class(JNIEnv* env, const char* name) {
  jclass found = (*env)->FindClass(env, name);
  if (found == NULL) return NULL;
  jclass kept = (jclass)(*env)->NewGlobalRef(env, found);
  (*env)->DeleteLocalRef(env, found);
  return kept;
}

static jmethodID find_method(JNIEnv* env, const char* type, const char* name,
                             const char* signature) {
  jclass found = (*env)->FindClass(env, type);
  if (found == NULL) return NULL;
  jmethodID method = (*env)->GetMethodID(env, found, name, signature);
  (*env)->DeleteLocalRef(env, found);
  return method;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* machine, void* reserved) {
  JNIEnv* env = NULL;
  if ((*machine)->GetEnv(machine, (void**)&env, JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
  /* Where one of them fails, its exception comes out of System.load. */
  if ((failure_class = find_class(env, "race/engine/EngineRaceException")) == NULL ||
      (bytes_class = find_class(env, "[B")) == NULL ||
      (failure_new = (*env)->GetMethodID(env, failure_class, "<init>", "(I[BI[B)V")) == NULL ||
      (progress_advance = find_method(env, "race/engine/Progress", "advance", "(JJ)Z")) == NULL ||
      (walk_visit_block = find_method(env, "race/engine/Walk", "visitBlock", "(I)Z")) == NULL) {
    return JNI_ERR;
  }
  jclass buffer_class = (*env)->FindClass(env, "java/nio/Buffer");
  if (buffer_class == NULL) return JNI_ERR;
  buffer_address = (*env)->GetFieldID(env, buffer_class, "address", "J");
  (*env)->ExceptionClear(env);
  (*env)->DeleteLocalRef(env, buffer_class);
  return JNI_VERSION_1_8;
}

jthrowable new_failure(JNIEnv* env, int code) {
  jthrowable failure = NULL;
  jbyteArray message = bytes_of(env, engine_race_error_message());
  jbyteArray path = message == NULL ? NULL : bytes_of(env, engine_race_error_path());
  if (path != NULL) {
    failure = (jthrowable)(*env)->NewObject(env, failure_class, failure_new, (jint)code, message,
                                            (jint)engine_race_error_number(), path);
  }
  (*env)->DeleteLocalRef(env, path);
  (*env)->DeleteLocalRef(env, message);
  return failure;
}

void throw_unless_ok(JNIEnv* env, int code) {
  if (code == ENGINE_RACE_OK) return;
  jthrowable failure = new_failure(env, code);
  if (failure == NULL) return;
  (*env)->Throw(env, failure);
  (*env)->DeleteLocalRef(env, failure);
}

void throw_out_of_memory(JNIEnv* env) {
  jclass type = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
  if (type == NULL) return;
  (*env)->ThrowNew(env, type, "native memory was refused");
  (*env)->DeleteLocalRef(env, type);
}

void* allocate(JNIEnv* env, size_t size) {
  void* memory = malloc(size == 0 ? 1 : size);
  if (memory == NULL) throw_out_of_memory(env);
  return memory;
}

char* copy_text(JNIEnv* env, jbyteArray text) {
  if (text == NULL) return NULL;
  const jsize size = (*env)->GetArrayLength(env, text);
  char* copy = allocate(env, (size_t)size + 1);
  if (copy == NULL) return NULL;
  (*env)->GetByteArrayRegion(env, text, 0, size, (jbyte*)copy);
  copy[size] = '\0';
  return copy;
}

jbyteArray bytes_of(JNIEnv* env, const char* text) {
  const jsize size = (jsize)strlen(text);
  jbyteArray bytes = (*env)->NewByteArray(env, size);
  if (bytes != NULL) (*env)->SetByteArrayRegion(env, bytes, 0, size, (const jbyte*)text);
  return bytes;
}

jobjectArray texts_of(JNIEnv* env, const char* (*text_at)(size_t)) {
  jsize count = 0;
  while (text_at((size_t)count) != NULL) ++count;
  jobjectArray texts = (*env)->NewObjectArray(env, count, bytes_class, NULL);
  for (jsize i = 0; texts != NULL && i < count; ++i) {
    jbyteArray text = bytes_of(env, text_at((size_t)i));
    if (text == NULL) return NULL;
    (*env)->SetObjectArrayElement(env, texts, i, text);
    (*env)->DeleteLocalRef(env, text);
  }
  return texts;
}

uint64_t* copy_keys(JNIEnv* env, jlongArray keys, jint from, jint count) {
  uint64_t* copies = allocate(env, (size_t)count * sizeof(uint64_t));
  if (copies != NULL) (*env)->GetLongArrayRegion(env, keys, from, count, (jlong*)copies);
  return copies;
}

char* memory_of(JNIEnv* env, jobject buffer, jint offset) {
  /* GetDirectBufferAddress reads this field, too. Before that it asks for the buffer's class, which
   * changes the thread's state. */
  char* memory = buffer_address != NULL
                     ? (char*)(intptr_t)(*env)->GetLongField(env, buffer, buffer_address)
                     : (*env)->GetDirectBufferAddress(env, buffer);
  return memory + offset;
}

/* Sets the option of a pair. Whether it could. */
static int set_option(JNIEnv* env, engine_race_options* options, jobjectArray pairs, jsize at) {
  jbyteArray name_bytes = (jbyteArray)(*env)->GetObjectArrayElement(env, pairs, at);
  jbyteArray value_bytes = (jbyteArray)(*env)->GetObjectArrayElement(env, pairs, at + 1);
  char* name = copy_text(env, name_bytes);
  char* value = name == NULL ? NULL : copy_text(env, value_bytes);
  int is_set = 0;
  if (value != NULL) {
    const int code = engine_race_options_set(options, name, value);
    throw_unless_ok(env, code);
    is_set = code == ENGINE_RACE_OK;
  }
  free(value);
  free(name);
  (*env)->DeleteLocalRef(env, value_bytes);
  (*env)->DeleteLocalRef(env, name_bytes);
  return is_set;
}

char* begin_row(JNIEnv* env, struct row* row, jint size) {
  row->bytes = (size_t)size <= sizeof(row->own) ? row->own : allocate(env, (size_t)size);
  return row->bytes;
}

char* copy_row(JNIEnv* env, struct row* row, jbyteArray value, jint offset, jint size) {
  if (begin_row(env, row, size) != NULL) {
    (*env)->GetByteArrayRegion(env, value, offset, size, (jbyte*)row->bytes);
  }
  return row->bytes;
}

void end_row(struct row* row) {
  if (row->bytes != row->own) free(row->bytes);
}

engine_race_options* make_options(JNIEnv* env, jobjectArray pairs, jlong queue) {
  engine_race_options* options = engine_race_options_create();
  if (options == NULL) {
    throw_out_of_memory(env);
    return NULL;
  }
  const jsize count = (*env)->GetArrayLength(env, pairs);
  for (jsize i = 0; i + 1 < count; i += 2) {
    if (!set_option(env, options, pairs, i)) {
      engine_race_options_destroy(options);
      return NULL;
    }
  }
  const int code =
      queue == 0 ? ENGINE_RACE_OK : engine_race_options_set_log_queue(options, LOG_QUEUE(queue));
  if (code != ENGINE_RACE_OK) {
    throw_unless_ok(env, code);
    engine_race_options_destroy(options);
    return NULL;
  }
  return options;
}

/* Of engine_race_progress_fn. An exception of the program is kept until the call has ended. It may
 * not leave the engine, and JNI allows few calls while it is pending. */
static int tell_progress(void* argument, uint64_t done_count, uint64_t most_count) {
  struct long_call* call = argument;
  JNIEnv* env = call->env;
  const jboolean goes_on = (*env)->CallBooleanMethod(env, call->progress, progress_advance,
                                                     (jlong)done_count, (jlong)most_count);
  if ((*env)->ExceptionCheck(env)) {
    call->thrown = (*env)->ExceptionOccurred(env);
    (*env)->ExceptionClear(env);
    return 1;
  }
  return goes_on ? 0 : 1;
}

void begin_long_call(struct long_call* call, JNIEnv* env, jobject progress) {
  call->env = env;
  call->progress = progress;
  call->thrown = NULL;
  if (progress != NULL) engine_race_set_progress(tell_progress, call);
}

void end_long_call(const struct long_call* call) {
  if (call->progress != NULL) engine_race_set_progress(NULL, NULL);
}

void throw_outcome(const struct long_call* call, int code) {
  if (call->thrown == NULL) {
    throw_unless_ok(call->env, code);
    return;
  }
  (*call->env)->Throw(call->env, call->thrown);
  (*call->env)->DeleteLocalRef(call->env, call->thrown);
}
