#include "engine_race/scan/iterator_pool.h"

#include <algorithm>
#include <memory>
#include <new>

#include "engine_race/scan/chunk_reader.h"
#include "engine_race/scan/iterator_impl.h"

namespace engine_race {

namespace {

// Its address tells threads apart; its value means nothing.
constinit thread_local char thread_mark = 0;

Status NoMemory() noexcept { return Status::OutOfMemory("an iterator"); }

}  // namespace

IteratorPool::IteratorPool(RangeReader* ranges)
    : context_(*ranges->context()),
      window_pool_(*ranges->window_pool()),
      points_(context_.log, context_.index, context_.frames, context_.options.verify_checksums) {}

IteratorPool::~IteratorPool() {
  for (Shard& shard : shards_) {
    // Acquire: pairs with the release in Give.
    for (Slot& slot : shard.slots) delete slot.impl.load(std::memory_order_acquire);
  }
}

Status IteratorPool::CheckSnapshot(const Snapshot& snapshot) const {
  if (snapshot.view().registry == &context_.index.views()) [[likely]] {
    return Status::Ok();
  }
  return Status::InvalidArgument(snapshot.is_taken() ? "the snapshot is another store's"
                                                     : "the snapshot is not taken");
}

Status IteratorPool::New(const IteratorOptions& options, Iterator* iterator) {
  KeyRange range;
  ENGINE_RACE_RETURN_IF_ERROR(ParseBounds(options.lower_bound, options.upper_bound,
                                          context_.log.geometry().keys(), &range));
  ViewRegistry::View view;
  ViewRegistry& views = context_.index.views();
  if (options.snapshot == nullptr) {
    ENGINE_RACE_RETURN_IF_ERROR(views.Take(&view));
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(CheckSnapshot(*options.snapshot));
    ENGINE_RACE_RETURN_IF_ERROR(views.TakeAt(options.snapshot->view().version, &view));
  }
  Iterator::Impl* impl = context_.options.cache_iterators ? Take() : nullptr;
  if (impl == nullptr) impl = new (std::nothrow) Iterator::Impl(this);
  if (impl == nullptr) {
    ViewRegistry::Release(&view);
    return NoMemory();
  }
  impl->Begin(view, range, options);
  *iterator = Iterator(&views.open_flag(), impl);
  return Status::Ok();
}

Status IteratorPool::Scan(const Snapshot& snapshot, const KeyRange& range, const RecordFn& visit) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckSnapshot(snapshot));
  if (range.empty()) return Status::Ok();
  // A view of its own: the visitor may release the caller's.
  ViewRegistry::View view;
  ENGINE_RACE_RETURN_IF_ERROR(context_.index.views().TakeAt(snapshot.view().version, &view));
  const Snapshot held(view);
  ChunkReader reader(&context_, &window_pool_);
  VisitCounter visited(&context_);
  const BufferLayout& layout = context_.layout;
  uint32_t record_count = layout.window_records();
  for (uint64_t first = range.first;; first = reader.next_key()) {
    ENGINE_RACE_RETURN_IF_ERROR(reader.Read(first, range.last, view.version, record_count));
    record_count = std::min(2 * record_count, layout.walk_records());
    reader.ReadAhead(record_count);
    ENGINE_RACE_RETURN_IF_ERROR(reader.VisitAll([&](uint64_t key, const char* value) {
      visited.CountOne();
      VisitRecord(key, value, layout.value_bytes(), visit);
    }));
    if (reader.complete()) return Status::Ok();
  }
}

IteratorPool::Shard& IteratorPool::OwnShard() {
  // Thread stacks and their thread-local variables are some power of two apart: multiply, then take
  // the high bits.
  const auto mark = reinterpret_cast<uintptr_t>(&thread_mark);
  return shards_[(mark * 0x9e3779b97f4a7c15) >> 58];
}

Iterator::Impl* IteratorPool::Take() {
  static_assert(kShardCount == size_t{1} << (64 - 58));
  for (Slot& slot : OwnShard().slots) {
    // Relaxed: only whether to try.
    if (slot.impl.load(std::memory_order_relaxed) == nullptr) continue;
    // Acquire: pairs with the release in Give, of a thread that used the iterator.
    Iterator::Impl* impl = slot.impl.exchange(nullptr, std::memory_order_acquire);
    if (impl != nullptr) return impl;
  }
  return nullptr;
}

void IteratorPool::Give(Iterator::Impl* impl) noexcept {
  if (context_.options.cache_iterators) {
    const uint64_t bytes = impl->memory_bytes();
    for (Slot& slot : OwnShard().slots) {
      Iterator::Impl* none = nullptr;
      // Relaxed: only whether to try. Release: pairs with the acquire in Take.
      if (slot.impl.load(std::memory_order_relaxed) == nullptr &&
          slot.impl.compare_exchange_strong(none, impl, std::memory_order_release,
                                            std::memory_order_relaxed)) {
        slot.memory_bytes.store(bytes, std::memory_order_relaxed);  // a statistic
        return;
      }
    }
  }
  delete impl;
}

uint64_t IteratorPool::memory_bytes() const {
  uint64_t bytes = 0;
  for (const Shard& shard : shards_) {
    for (const Slot& slot : shard.slots) {
      // Relaxed: a statistic.
      if (slot.impl.load(std::memory_order_relaxed) == nullptr) continue;
      bytes += slot.memory_bytes.load(std::memory_order_relaxed);
    }
  }
  return bytes;
}

}  // namespace engine_race
