/* Asynchronous reads. The engine's threads run no code of Java. They put each read that has ended
 * into a queue, and a thread of Java takes it from there. Threads of the engine may outlive the
 * virtual machine, so they use nothing of it. No program's code can block them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jni_support.h"

struct async_read {
  struct async_read* next;
  struct ended_reads* ended;
  jlong number;     /* by which Java knows it */
  int code;         /* from its end on */
  size_t row_bytes; /* 0: the value is in a direct buffer of Java */
  char own_row[];
};

/* FIFO. One for all stores, never freed. */
struct ended_reads {
  pthread_mutex_t mutex;
  pthread_cond_t is_filled;
  struct async_read* first;
  struct async_read** last;
};

NATIVE(jlong, endedReadsCreate)(JNIEnv* env, jclass type) {
  struct ended_reads* ended = allocate(env, sizeof(*ended));
  if (ended == NULL) return 0;
  if (pthread_mutex_init(&ended->mutex, NULL) != 0 ||
      pthread_cond_init(&ended->is_filled, NULL) != 0) {
    throw_out_of_memory(env);
    free(ended);
    return 0;
  }
  ended->first = NULL;
  ended->last = &ended->first;
  return HANDLE(ended);
}

/* Of engine_race_done_fn. */
static void read_is_done(void* argument, int code) {
  struct async_read* read = argument;
  struct ended_reads* ended = read->ended;
  read->code = code;
  pthread_mutex_lock(&ended->mutex);
  *ended->last = read;
  ended->last = &read->next;
  pthread_cond_signal(&ended->is_filled);
  pthread_mutex_unlock(&ended->mutex);
}

/* Starts a read into a direct buffer, which Java keeps until the read has ended, or into memory of
 * its own where `target` is null. That is for values of ENGINE_RACE_VALUE_BYTES at most. */
NATIVE(void, readAsync)
(JNIEnv* env, jclass type, jlong ended, jlong store, jlong key, jlong number, jobject target,
 jint offset, jint value_bytes) {
  const size_t row_bytes = target == NULL ? (size_t)value_bytes : 0;
  struct async_read* read = allocate(env, sizeof(*read) + row_bytes);
  if (read == NULL) return;
  read->next = NULL;
  read->ended = (struct ended_reads*)(intptr_t)ended;
  read->number = number;
  read->row_bytes = row_bytes;
  char* row = target == NULL ? read->own_row : memory_of(env, target, offset);
  const int code = engine_race_read_async(STORE(store), (uint64_t)key, row, read_is_done, read);
  if (code == ENGINE_RACE_OK) return;
  throw_unless_ok(env, code);
  free(read);
}

/* Waits until reads have ended, and takes as many as the arrays hold: numbers and codes, and values
 * of reads with memory of their own, ENGINE_RACE_VALUE_BYTES apart. The answer is how many. */
NATIVE(jint, endedReadsTake)
(JNIEnv* env, jclass type, jlong handle, jlongArray numbers, jintArray codes, jobject values) {
  struct ended_reads* ended = (struct ended_reads*)(intptr_t)handle;
  const jint room = (*env)->GetArrayLength(env, numbers);
  char* row = memory_of(env, values, 0);
  struct async_read* taken;
  jint count = 0;

  pthread_mutex_lock(&ended->mutex);
  while (ended->first == NULL) pthread_cond_wait(&ended->is_filled, &ended->mutex);
  taken = ended->first;
  struct async_read** end = &taken;
  for (; count < room && *end != NULL; ++count) end = &(*end)->next;
  ended->first = *end;
  if (ended->first == NULL) ended->last = &ended->first;
  *end = NULL;
  pthread_mutex_unlock(&ended->mutex);

  for (jint i = 0; i < count; ++i, row += ENGINE_RACE_VALUE_BYTES) {
    struct async_read* read = taken;
    const jint code = read->code;
    taken = read->next;
    if (code == ENGINE_RACE_OK) memcpy(row, read->own_row, read->row_bytes);
    (*env)->SetLongArrayRegion(env, numbers, i, 1, &read->number);
    (*env)->SetIntArrayRegion(env, codes, i, 1, &code);
    free(read);
  }
  return count;
}
