// Ranges, snapshots and iterators of the C API.

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/c_handles.h"
#include "engine_race/store.h"
#include "include/engine_race_c.h"

using engine_race::Code;
using engine_race::Guarded;
using engine_race::Iterator;
using engine_race::KeyBytes;
using engine_race::Status;
using engine_race::c_api::Answer;
using engine_race::c_api::Free;
using engine_race::c_api::IsStructSize;
using engine_race::c_api::NullArgument;
using engine_race::c_api::StoreCall;

namespace {

// Thrown to end a range when its visitor answers other than 0.
struct WalkEnded {};

std::string_view BoundOf(const uint64_t* key, std::optional<KeyBytes>* bytes) {
  if (key == nullptr) return {};
  return bytes->emplace(*key).view();
}

// Calls range(lower, upper, visit).
template <typename RangeFn>
int Walk(const uint64_t* lower, const uint64_t* upper, engine_race_visit_fn visit, void* argument,
         const RangeFn& range) {
  std::optional<KeyBytes> lower_bytes;
  std::optional<KeyBytes> upper_bytes;
  const std::string_view from = BoundOf(lower, &lower_bytes);
  const std::string_view to = BoundOf(upper, &upper_bytes);
  return Answer(Guarded([&] {
    try {
      return range(from, to, [&](std::string_view key, std::string_view value) {
        if (visit(argument, engine_race::DecodeKey(key.data()), value.data()) != 0) {
          throw WalkEnded();
        }
      });
    } catch (const WalkEnded&) {
      return Status::Ok();
    }
  }));
}

// As of version 0.9; no padding.
constexpr size_t kIteratorOptionsBytes = 6 * sizeof(uint64_t);
static_assert(sizeof(engine_race_iterator_options) == kIteratorOptionsBytes);

// kNotSupported for options that only a newer library knows.
Status CheckOptions(const engine_race_iterator_options& given) {
  if (!IsStructSize(given.struct_bytes, kIteratorOptionsBytes)) {
    return Status::InvalidArgument("struct_bytes of the iterator's options is not their size");
  }
  const char* const bytes = reinterpret_cast<const char*>(&given);
  const char* const unknown = bytes + sizeof(given);
  if (std::any_of(unknown, bytes + given.struct_bytes, [](char byte) { return byte != 0; })) {
    return Status::NotSupported("an iterator's option that this library does not know");
  }
  if (given.prefetch_records > std::numeric_limits<uint32_t>::max()) {
    return Status::InvalidArgument("prefetch_records is too large");
  }
  return Status::Ok();
}

}  // namespace

extern "C" {

int engine_race_range(engine_race_store* store, const uint64_t* lower, const uint64_t* upper,
                      engine_race_visit_fn visit, void* argument) {
  if (visit == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Walk(lower, upper, visit, argument,
              [&](auto from, auto to, const auto& each) { return call->Range(from, to, each); });
}

int engine_race_snapshot_take(engine_race_store* store, engine_race_snapshot** snapshot) {
  if (snapshot == nullptr) return NullArgument();
  *snapshot = nullptr;
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    auto made = std::make_unique<engine_race_snapshot>(store);
    ENGINE_RACE_RETURN_IF_ERROR(call->GetSnapshot(&made->snapshot));
    call.Add(made.get());
    *snapshot = made.release();
    return Status::Ok();
  }));
}

void engine_race_snapshot_release(engine_race_snapshot* snapshot) { Free(snapshot); }

int engine_race_snapshot_read(const engine_race_snapshot* snapshot, uint64_t key, void* value) {
  if (value == nullptr) return NullArgument();
  const StoreCall call(snapshot);
  if (!call.ok()) return call.Refused();
  return Answer(
      Guarded([&] { return call->ReadInto(snapshot->snapshot, key, static_cast<char*>(value)); }));
}

int engine_race_snapshot_read_many(const engine_race_snapshot* snapshot, size_t count,
                                   const uint64_t* keys, void* values, int* codes) {
  if (count > 0 && (keys == nullptr || values == nullptr || codes == nullptr)) {
    return NullArgument();
  }
  const StoreCall call(snapshot);
  if (!call.ok()) return call.Refused();
  static_assert(sizeof(Code) == sizeof(int));
  const std::span<Code> answers(reinterpret_cast<Code*>(codes), count);
  return Answer(Guarded([&] {
    return call->MultiReadInto(snapshot->snapshot, {keys, count}, static_cast<char*>(values),
                               answers, engine_race::c_api::CallersProgress());
  }));
}

int engine_race_snapshot_range(const engine_race_snapshot* snapshot, const uint64_t* lower,
                               const uint64_t* upper, engine_race_visit_fn visit, void* argument) {
  if (visit == nullptr) return NullArgument();
  const StoreCall call(snapshot);
  if (!call.ok()) return call.Refused();
  return Walk(lower, upper, visit, argument, [&](auto from, auto to, const auto& each) {
    return call->Range(snapshot->snapshot, from, to, each);
  });
}

int engine_race_iterator_create(engine_race_store* store,
                                const engine_race_iterator_options* options,
                                engine_race_iterator** iterator) {
  if (iterator == nullptr) return NullArgument();
  *iterator = nullptr;
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    std::optional<KeyBytes> lower;
    std::optional<KeyBytes> upper;
    engine_race::IteratorOptions wanted;
    if (options != nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(CheckOptions(*options));
      if (options->snapshot != nullptr) {
        // Another thread may be closing the other store, and releasing the snapshot with it.
        if (options->snapshot->store != store) {
          return Status::InvalidArgument("the snapshot is another store's");
        }
        wanted.snapshot = &options->snapshot->snapshot;
      }
      wanted.lower_bound = BoundOf(options->lower, &lower);
      wanted.upper_bound = BoundOf(options->upper, &upper);
      wanted.prefetch_records = static_cast<uint32_t>(options->prefetch_records);
      wanted.refresh_every_steps = options->refresh_every_steps;
    }
    auto made = std::make_unique<engine_race_iterator>(store);
    ENGINE_RACE_RETURN_IF_ERROR(call->NewIterator(wanted, &made->iterator));
    call.Add(made.get());
    *iterator = made.release();
    return Status::Ok();
  }));
}

void engine_race_iterator_destroy(engine_race_iterator* iterator) { Free(iterator); }

int engine_race_iterator_valid(const engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  return call.ok() && iterator->iterator.Valid() ? 1 : 0;
}

int engine_race_iterator_status(const engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  return call.ok() ? Answer(iterator->iterator.status()) : call.Refused();
}

void engine_race_iterator_seek_to_first(engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  if (call.ok()) iterator->iterator.SeekToFirst();
}

void engine_race_iterator_seek_to_last(engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  if (call.ok()) iterator->iterator.SeekToLast();
}

void engine_race_iterator_seek(engine_race_iterator* iterator, uint64_t key) {
  const StoreCall call(iterator);
  if (call.ok()) iterator->iterator.Seek(KeyBytes(key).view());
}

void engine_race_iterator_seek_for_prev(engine_race_iterator* iterator, uint64_t key) {
  const StoreCall call(iterator);
  if (call.ok()) iterator->iterator.SeekForPrev(KeyBytes(key).view());
}

void engine_race_iterator_next(engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  if (call.ok() && iterator->iterator.Valid()) iterator->iterator.Next();
}

void engine_race_iterator_prev(engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  if (call.ok() && iterator->iterator.Valid()) iterator->iterator.Prev();
}

uint64_t engine_race_iterator_key(const engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  if (!call.ok() || !iterator->iterator.Valid()) return 0;
  return engine_race::DecodeKey(iterator->iterator.key().data());
}

const void* engine_race_iterator_value(engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  if (!call.ok()) return nullptr;
  const std::string_view value = iterator->iterator.value();
  return value.empty() ? nullptr : value.data();
}

int engine_race_iterator_take(engine_race_iterator* iterator, size_t count, uint64_t* keys,
                              void* values, size_t* taken) {
  if (taken == nullptr) return NullArgument();
  *taken = 0;
  if (count > 0 && keys == nullptr) return NullArgument();
  const StoreCall call(iterator);
  if (!call.ok()) return call.Refused();
  Iterator& at = iterator->iterator;
  char* const rows = static_cast<char*>(values);
  for (; *taken < count && at.Valid(); ++*taken) {
    if (rows != nullptr) {
      const std::string_view value = at.value();
      if (value.empty()) break;
      std::memcpy(rows + *taken * value.size(), value.data(), value.size());
    }
    keys[*taken] = engine_race::DecodeKey(at.key().data());
    at.Next();
  }
  return Answer(at.status());
}

int engine_race_iterator_refresh(engine_race_iterator* iterator) {
  const StoreCall call(iterator);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] { return iterator->iterator.Refresh(); }));
}

}  // extern "C"
