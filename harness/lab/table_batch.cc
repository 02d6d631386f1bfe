// Many lookups at once. A single lookup waits for memory four times, each time for an address that
// the step before has found. In a batch all lookups make one step, and each prefetches for its next
// step, so that the waits overlap.

#include <algorithm>
#include <array>
#include <cstring>

#include "harness/lab/frame_readers.h"
#include "harness/lab/table.h"

namespace lab {

struct Table::Pending {
  const char* key;
  const char* block;             // the block to search; null when the key has its answer
  std::atomic<uint64_t>* child;  // to the block of records
  uint32_t frame;
  uint32_t node;  // of the block: the leaf, then the run
};

void Table::MultiGet(const char* keys, char* payloads, std::span<Status> statuses) const {
  const bool side_by_side =
      options_.records == Reach::kPointer && options_.protection == Protection::kEpoch;
  for (size_t begin = 0; begin < statuses.size(); begin += kBatch) {
    const std::span<Status> batch =
        statuses.subspan(begin, std::min<size_t>(kBatch, statuses.size() - begin));
    const char* const batch_keys = keys + begin * key_bytes_;
    char* const batch_payloads = payloads + begin * payload_bytes_;
    if (side_by_side) GetBatch(batch_keys, batch_payloads, batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      if (side_by_side && batch[i].code() != Code::kIncomplete) continue;
      batch[i] = Get(batch_keys + i * key_bytes_, batch_payloads + i * payload_bytes_);
    }
  }
}

void Table::GetBatch(const char* keys, char* payloads, std::span<Status> statuses) const {
  std::array<Pending, kBatch> pending;
  const size_t count = statuses.size();
  const EpochReader readers(frames_, epochs_);
  for (size_t i = 0; i < count; ++i) {
    Pending& one = pending[i];
    one.key = keys + i * key_bytes_;
    one.block = nullptr;
    const uint32_t extent = file_->root().Find(one.key);
    if (extent == file_->extent_count()) {
      statuses[i] = Status::NotFound();
    } else if (readers.Follow(&roots_[extent], &one.frame)) {
      one.block = pool_->data(one.frame);
      __builtin_prefetch(&pool_->info(one.frame));
      TreeBlock(one.block).FetchRoot();
    } else {
      statuses[i] = Status(Code::kIncomplete, {});
    }
  }
  for (size_t i = 0; i < count; ++i) {
    Pending& one = pending[i];
    if (one.block == nullptr) continue;
    one.child = &pool_->info(one.frame).children[RankIn(one.block, one.key)];
    __builtin_prefetch(one.child);
  }
  for (size_t i = 0; i < count; ++i) {
    Pending& one = pending[i];
    if (one.block == nullptr) continue;
    if (readers.Follow(one.child, &one.frame)) {
      one.block = pool_->data(one.frame);
      TreeBlock(one.block).FetchRoot();
    } else {
      one.block = nullptr;
      statuses[i] = Status(Code::kIncomplete, {});
    }
  }
  if (encoding_ == Encoding::kTree) {
    for (size_t i = 0; i < count; ++i) {
      Pending& one = pending[i];
      if (one.block != nullptr) one.node = TreeBlock(one.block).FetchLeaf(one.key);
    }
    for (size_t i = 0; i < count; ++i) {
      Pending& one = pending[i];
      if (one.block != nullptr) one.node = TreeBlock(one.block).FetchSection(one.key, one.node);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const Pending& one = pending[i];
    if (one.block == nullptr) continue;
    const char* found;
    if (encoding_ == Encoding::kTree) {
      found = TreeBlock(one.block).Find(
          one.key, [&](const NodeWords&, uint32_t, uint64_t) { return one.node; });
    } else {
      found = FindInBlock(encoding_, one.block, one.key, options_.search);
    }
    if (found == nullptr) {
      statuses[i] = Status::NotFound();
    } else {
      std::memcpy(payloads + i * payload_bytes_, found, payload_bytes_);
      statuses[i] = Status::Ok();
    }
  }
}

}  // namespace lab
