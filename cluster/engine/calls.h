/* Calls of the C API that copy the error message together with the code. The engine keeps messages
 * by thread, and a goroutine may move to another thread between two calls. */
#ifndef CLUSTER_ENGINE_CALLS_H_
#define CLUSTER_ENGINE_CALLS_H_

#include <stdint.h>
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
/* The kinds of encoded operations: see Batch.Append. */
enum { er_op_delete = 0, er_op_put = 1, er_op_read = 2 };
/* Adds encoded operations to a batch, and gives their count without the reads. */
static inline int er_batch_append(engine_race_batch* b, const uint8_t* ops, size_t bytes,
                                  size_t value_bytes, size_t* added) {
  const size_t head_bytes = 1 + ENGINE_RACE_KEY_BYTES;
  *added = 0;
  while (bytes > 0) {
    const int kind = ops[0];
    const size_t op_bytes = head_bytes + (kind == er_op_put ? value_bytes : 0);
    if (kind > er_op_read || bytes < op_bytes) return ENGINE_RACE_INVALID_ARGUMENT;
    if (kind != er_op_read) {
      const uint64_t key = engine_race_key(ops + 1);
      const int code = kind == er_op_put ? engine_race_batch_write(b, key, ops + head_bytes)
                                         : engine_race_batch_delete(b, key);
      if (code != ENGINE_RACE_OK) return code;
      ++*added;
    }
    ops += op_bytes;
    bytes -= op_bytes;
  }
  return ENGINE_RACE_OK;
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
