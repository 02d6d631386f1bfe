// Batches of the C API.

#include <new>
#include <string_view>

#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/c_handles.h"
#include "engine_race/store.h"
#include "include/engine_race_c.h"

struct engine_race_batch {
  explicit engine_race_batch(uint32_t value_bytes) : batch(value_bytes) {}

  engine_race::WriteBatch batch;
};

using engine_race::Guarded;
using engine_race::KeyBytes;
using engine_race::c_api::Answer;
using engine_race::c_api::BadArgument;
using engine_race::c_api::NullArgument;
using engine_race::c_api::StoreCall;

extern "C" {

engine_race_batch* engine_race_batch_create(uint32_t value_bytes) {
  if (value_bytes < engine_race::kMinValueBytes || value_bytes > engine_race::kMaxValueBytes) {
    static_cast<void>(BadArgument("a batch for values of a size that no store has"));
    return nullptr;
  }
  return new (std::nothrow) engine_race_batch(value_bytes);
}

void engine_race_batch_destroy(engine_race_batch* batch) { delete batch; }

int engine_race_batch_write(engine_race_batch* batch, uint64_t key, const void* value) {
  if (batch == nullptr || value == nullptr) return NullArgument();
  const std::string_view bytes(static_cast<const char*>(value), batch->batch.value_bytes());
  return Answer(Guarded([&] { return batch->batch.Put(KeyBytes(key).view(), bytes); }));
}

int engine_race_batch_write_many(engine_race_batch* batch, size_t count, const uint64_t* keys,
                                 const void* values) {
  if (batch == nullptr) return NullArgument();
  if (count > 0 && (keys == nullptr || values == nullptr)) return NullArgument();
  return Answer(Guarded([&] {
    return batch->batch.PutMany({keys, count}, static_cast<const char*>(values));
  }));
}

int engine_race_batch_delete(engine_race_batch* batch, uint64_t key) {
  if (batch == nullptr) return NullArgument();
  return Answer(Guarded([&] { return batch->batch.Delete(KeyBytes(key).view()); }));
}

int engine_race_batch_reserve(engine_race_batch* batch, size_t write_count, size_t delete_count) {
  if (batch == nullptr) return NullArgument();
  return Answer(Guarded([&] { return batch->batch.Reserve(write_count, delete_count); }));
}

void engine_race_batch_clear(engine_race_batch* batch) {
  if (batch != nullptr) batch->batch.Clear();
}

size_t engine_race_batch_size(const engine_race_batch* batch) {
  return batch == nullptr ? 0 : batch->batch.size();
}

int engine_race_write_batch(engine_race_store* store, const engine_race_batch* batch) {
  if (batch == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] { return call->Write(batch->batch); }));
}

}  // extern "C"
