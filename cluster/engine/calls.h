/* Calls of the C API that copy the error message together with the code. The engine keeps messages
 * by thread, and a goroutine may move to another thread between two calls. */
#ifndef CLUSTER_ENGINE_CALLS_H_
#define CLUSTER_ENGINE_CALLS_H_

#include <stdlib.h>

#include "engine_race_c.h"

typedef struct { int code; char message[512]; } outcome;

static inline void note(outcome* out, int code) {
  out->code = code;
  out->message[0] = 0;
  if (code == ENGINE_RACE_OK || code == ENGINE_RACE_NOT_FOUND) return;
  const char* message = engine_race_error_message();
  size_t i = 0;
  for (; i + 1 < sizeof(out->message) && message[i] != 0; ++i) out->message[i] = message[i];
  out->message[i] = 0;
}
static inline void er_set(engine_race_options* o, const char* name, const char* value,
                          outcome* out) {
  note(out, engine_race_options_set(o, name, value));
}
static inline void er_open(const char* dir, engine_race_options* o, engine_race_store** s,
                           outcome* out) {
  note(out, engine_race_open(dir, o, s));
}
static inline void er_close(engine_race_store* s, outcome* out) { note(out, engine_race_close(s)); }
static inline void er_read_many(engine_race_store* s, size_t n, const uint64_t* keys, void* values,
                                int* codes, outcome* out) {
  note(out, engine_race_read_many(s, n, keys, values, codes));
}
static inline void er_write_batch(engine_race_store* s, engine_race_batch* b, outcome* out) {
  note(out, engine_race_write_batch(s, b));
}
static inline void er_sync(engine_race_store* s, outcome* out) { note(out, engine_race_sync(s)); }
static inline void er_backup(engine_race_store* s, const char* dir, const char* since,
                             engine_race_backup_report* r, outcome* out) {
  r->struct_bytes = sizeof(*r);
  note(out, engine_race_backup(s, dir, since, r));
}
static inline void er_restore(const char* backup, const char* to, engine_race_options* o,
                              outcome* out) {
  note(out, engine_race_restore(backup, to, o, 0));
}
static inline void er_snapshot(engine_race_store* s, engine_race_snapshot** snap, outcome* out) {
  note(out, engine_race_snapshot_take(s, snap));
}
static inline void er_snapshot_read_many(engine_race_snapshot* s, size_t n, const uint64_t* keys,
                                         void* values, int* codes, outcome* out) {
  note(out, engine_race_snapshot_read_many(s, n, keys, values, codes));
}
static inline void er_iterator(engine_race_store* s, engine_race_snapshot* snap, int has_upper,
                               uint64_t upper, uint64_t prefetch, engine_race_iterator** it,
                               outcome* out) {
  engine_race_iterator_options o = {sizeof(o), snap, 0, has_upper ? &upper : 0, prefetch, 0};
  note(out, engine_race_iterator_create(s, &o, it));
}
static inline void er_take(engine_race_iterator* it, size_t n, uint64_t* keys, void* values,
                           size_t* taken, outcome* out) {
  note(out, engine_race_iterator_take(it, n, keys, values, taken));
}
static inline void er_seek(engine_race_iterator* it, uint64_t key, outcome* out) {
  engine_race_iterator_seek(it, key);
  note(out, engine_race_iterator_status(it));
}
static inline void er_property(engine_race_store* s, const char* name, char** text, outcome* out) {
  note(out, engine_race_property(s, name, text));
}

#endif  /* CLUSTER_ENGINE_CALLS_H_ */
