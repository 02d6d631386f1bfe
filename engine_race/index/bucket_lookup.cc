// The reading side of a bucket's index, under its lock.
#include <new>
#include <shared_mutex>

#include "engine_race/index/bucket_index.h"
#include "engine_race/index/part_cursor.h"

namespace engine_race {

Code BucketIndex::Find(uint64_t key, ValueRef* ref) const {
  const std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  const RefWord* const word = parts_.empty() ? nullptr : parts_[PartOf(key)]->Locate(key);
  if (word != nullptr) *ref = frames_.SlotOf(*word);
  return CodeOf(word != nullptr, *ref);
}

Code BucketIndex::FindHot(uint64_t key, ValueRef* ref) const {
  const std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  const RefWord* const word = parts_.empty() ? nullptr : parts_[PartOf(key)]->Locate(key);
  if (word != nullptr) *ref = word->Load();
  return CodeOf(word != nullptr, *ref);
}

Code BucketIndex::FindAt(uint64_t key, uint64_t epoch, ValueRef* ref) const {
  const auto read = [this](const RefWord& word) { return frames_.SlotOf(word); };
  const std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  const bool found = !parts_.empty() && parts_[PartOf(key)]->FindAt(key, epoch, read, ref);
  return CodeOf(found, *ref);
}

Code BucketIndex::FindHotAt(uint64_t key, uint64_t epoch, ValueRef* ref) const {
  const auto read = [](const RefWord& word) { return word.Load(); };
  const std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  const bool found = !parts_.empty() && parts_[PartOf(key)]->FindAt(key, epoch, read, ref);
  return CodeOf(found, *ref);
}

size_t BucketIndex::PartOf(uint64_t key) const {
  return UpperRank(bounds_.data() + 1, bounds_.size() - 1, key);
}

Code BucketIndex::Collect(uint64_t first_key, uint64_t last_key, size_t max_entries,
                          std::vector<IndexEntry>* entries, bool* complete, uint64_t epoch) const {
  *complete = true;
  std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  if (damaged_) return Code::kCorruption;
  if (parts_.empty() || first_key > last_key) return Code::kOk;
  try {
    const size_t end = PartOf(last_key);
    for (size_t i = PartOf(first_key); i <= end; ++i) {
      PartCursor cursor(*parts_[i], frames_, first_key, last_key, epoch);
      IndexEntry entry;
      while (cursor.Next(&entry)) {
        if (entries->size() >= max_entries) {
          *complete = false;
          return Code::kOk;
        }
        entries->push_back(entry);
      }
    }
  } catch (const std::bad_alloc&) {
    return Code::kOutOfMemory;
  }
  return Code::kOk;
}

Code BucketIndex::FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                            std::span<uint64_t> keys, size_t* count) const {
  *count = 0;
  std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  if (damaged_) return Code::kCorruption;
  if (parts_.empty() || first_key > last_key) return Code::kOk;
  const size_t end = PartOf(last_key);
  for (size_t i = PartOf(first_key); i <= end && *count < keys.size(); ++i) {
    PartCursor cursor(*parts_[i], frames_, first_key, last_key, epoch);
    IndexEntry entry;
    while (*count < keys.size() && cursor.Next(&entry)) keys[(*count)++] = entry.key;
  }
  return Code::kOk;
}

Code BucketIndex::LastKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch,
                           std::span<uint64_t> keys, size_t* count) const {
  *count = 0;
  std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  if (damaged_) return Code::kCorruption;
  if (parts_.empty() || first_key > last_key) return Code::kOk;
  size_t free = keys.size();
  const size_t begin = PartOf(first_key);
  for (size_t i = PartOf(last_key) + 1; i-- > begin && free > 0;) {
    PartCursor cursor(*parts_[i], frames_, first_key, last_key, epoch);
    IndexEntry entry;
    while (free > 0 && cursor.Previous(&entry)) keys[--free] = entry.key;
  }
  *count = keys.size() - free;
  return Code::kOk;
}

uint64_t BucketIndex::EstimateCount(uint64_t first_key, uint64_t last_key) const {
  std::shared_lock lock(lock_);
  if (parts_.empty() || first_key > last_key) return 0;
  uint64_t count = 0;
  const size_t end = PartOf(last_key);
  for (size_t i = PartOf(first_key); i <= end; ++i) {
    const Part& part = *parts_[i];
    count += UpperRank(part.run, last_key) - part.run.Rank(first_key);
    count +=
        UpperRank(part.delta.keys(), part.delta.count(), last_key) - part.delta.Rank(first_key);
  }
  return count;
}

uint64_t BucketIndex::memory_bytes() const {
  std::shared_lock lock(lock_);
  // Not spare_: it is the mutator's own, and small.
  uint64_t bytes =
      sizeof(*this) + noted_.capacity() * sizeof(IndexEntry) + RowBytes(parts_, bounds_);
  for (const auto& part : parts_) bytes += part->history_bytes();
  return bytes;
}

}  // namespace engine_race
