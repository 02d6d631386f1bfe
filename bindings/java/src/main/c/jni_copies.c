/* Checkpoints, backups and closed stores. Paths are texts that end with 0. */
#include <stdlib.h>

#include "jni_support.h"

/* The members of a report, in their order, as far as the array has room. */
static void give_numbers(JNIEnv* env, jlongArray target, const uint64_t* numbers, jsize count) {
  (*env)->SetLongArrayRegion(env, target, 0, count, (const jlong*)numbers);
}

static void give_backup_report(JNIEnv* env, jlongArray target,
                               const engine_race_backup_report* report) {
  const uint64_t numbers[] = {report->record_count, report->value_count, report->chain_length,
                              report->size_bytes};
  give_numbers(env, target, numbers, 4);
}

static void give_report(JNIEnv* env, jlongArray target, const engine_race_report* report) {
  const uint64_t numbers[] = {report->record_count, report->bad_count, report->lost_tail_count,
                              report->index_record_count, report->index_unusable_bucket_count};
  give_numbers(env, target, numbers, 5);
}

NATIVE(void, checkpoint)
(JNIEnv* env, jclass type, jlong store, jbyteArray directory, jobject progress) {
  char* path = copy_text(env, directory);
  if (path == NULL) return;
  struct long_call call;
  begin_long_call(&call, env, progress);
  const int code = engine_race_checkpoint(STORE(store), path);
  end_long_call(&call);
  throw_outcome(&call, code);
  free(path);
}

NATIVE(void, backup)
(JNIEnv* env, jclass type, jlong store, jbyteArray directory, jbyteArray since, jlongArray numbers,
 jobject progress) {
  char* path = copy_text(env, directory);
  char* earlier = path == NULL ? NULL : copy_text(env, since);
  if (path != NULL && (earlier != NULL || since == NULL)) {
    engine_race_backup_report report = {.struct_bytes = sizeof(report)};
    struct long_call call;
    begin_long_call(&call, env, progress);
    const int code = engine_race_backup(STORE(store), path, earlier, &report);
    end_long_call(&call);
    give_backup_report(env, numbers, &report);
    throw_outcome(&call, code);
  }
  free(earlier);
  free(path);
}

/* Verifies the store in `from`, or copies it where `to` is given. */
static void read_store(JNIEnv* env, jbyteArray from, jbyteArray to, jobjectArray pairs, jlong queue,
                       jlongArray numbers, jobject progress) {
  engine_race_options* options = make_options(env, pairs, queue);
  if (options == NULL) return;
  char* source = copy_text(env, from);
  char* target = source == NULL ? NULL : copy_text(env, to);
  if (source != NULL && (target != NULL || to == NULL)) {
    engine_race_report report = {.struct_bytes = sizeof(report)};
    struct long_call call;
    begin_long_call(&call, env, progress);
    const int code = target == NULL ? engine_race_verify(source, options, &report)
                                    : engine_race_copy(source, target, options, &report);
    end_long_call(&call);
    give_report(env, numbers, &report);
    throw_outcome(&call, code);
  }
  free(target);
  free(source);
  engine_race_options_destroy(options);
}

NATIVE(void, verify)
(JNIEnv* env, jclass type, jbyteArray directory, jobjectArray pairs, jlong queue,
 jlongArray numbers, jobject progress) {
  read_store(env, directory, NULL, pairs, queue, numbers, progress);
}

NATIVE(void, copy)
(JNIEnv* env, jclass type, jbyteArray from, jbyteArray to, jobjectArray pairs, jlong queue,
 jlongArray numbers, jobject progress) {
  read_store(env, from, to, pairs, queue, numbers, progress);
}

/* Verifies a backup, or restores it where `to` is given. */
static void read_backup(JNIEnv* env, jbyteArray from, jbyteArray to, jobjectArray pairs,
                        jlong queue, jlongArray numbers, jobject progress) {
  engine_race_options* options = make_options(env, pairs, queue);
  if (options == NULL) return;
  char* backup = copy_text(env, from);
  char* target = backup == NULL ? NULL : copy_text(env, to);
  if (backup != NULL && (target != NULL || to == NULL)) {
    engine_race_backup_report report = {.struct_bytes = sizeof(report)};
    struct long_call call;
    begin_long_call(&call, env, progress);
    const int code = target == NULL ? engine_race_verify_backup(backup, options, &report)
                                    : engine_race_restore(backup, target, options, &report);
    end_long_call(&call);
    give_backup_report(env, numbers, &report);
    throw_outcome(&call, code);
  }
  free(target);
  free(backup);
  engine_race_options_destroy(options);
}

NATIVE(void, verifyBackup)
(JNIEnv* env, jclass type, jbyteArray backup, jobjectArray pairs, jlong queue, jlongArray numbers,
 jobject progress) {
  read_backup(env, backup, NULL, pairs, queue, numbers, progress);
}

NATIVE(void, restore)
(JNIEnv* env, jclass type, jbyteArray backup, jbyteArray to, jobjectArray pairs, jlong queue,
 jlongArray numbers, jobject progress) {
  read_backup(env, backup, to, pairs, queue, numbers, progress);
}
