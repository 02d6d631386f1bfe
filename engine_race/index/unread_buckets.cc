#include "engine_race/index/unread_buckets.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/doubling_pause.h"

namespace engine_race {
namespace {

// Failures in a row that no pause follows.
constexpr uint32_t kFreeFailures = 2;

}  // namespace

std::chrono::milliseconds UnreadBuckets::PauseAfter(uint32_t failure_count) {
  return DoublingPause(std::chrono::milliseconds(1), failure_count, kFreeFailures);
}

void UnreadBuckets::Add(uint32_t bucket, uint64_t record_count, const Status& failure) {
  const std::lock_guard lock(entries_mutex_);
  Entry& entry = entries_[bucket];
  entry.record_count = record_count;
  entry.failure = failure;
}

void UnreadBuckets::AddWaiting(uint32_t bucket) {
  const std::lock_guard lock(entries_mutex_);
  Entry& entry = entries_[bucket];
  entry.record_count = kWaitingCount;
  entry.is_told = true;
}

void UnreadBuckets::AddLost(uint32_t bucket, const Status& failure, FunctionRef<void()> drop,
                            FunctionRef<bool()> is_lost) {
  Entry* const entry = FindOrMake(bucket);
  const std::lock_guard lock(entry->mutex);
  if (!is_lost()) return;
  entry->failure = failure;
  drop();
  entry->record_count = kUnknownCount;
  entry->is_told = true;
  entry->is_read = false;
  entry->next_attempt = {};
}

UnreadBuckets::Entry* UnreadBuckets::FindOrMake(uint32_t bucket) {
  Entry* const found = Find(bucket);
  if (found != nullptr) return found;
  const std::lock_guard lock(entries_mutex_);
  const auto [added, is_new] = entries_.try_emplace(bucket);
  if (is_new) added->second.is_read = true;
  return &added->second;
}

bool UnreadBuckets::WasRead(uint32_t bucket) const {
  const Entry* const found = Find(bucket);
  return found == nullptr || found->is_read;
}

UnreadBuckets::Entry* UnreadBuckets::Find(uint32_t bucket) const {
  const std::shared_lock lock(entries_mutex_);
  const auto found = entries_.find(bucket);
  return found == entries_.end() ? nullptr : &found->second;
}

Status UnreadBuckets::Load(uint32_t bucket, FunctionRef<Status(uint64_t* record_count)> read) {
  Entry* const found = Find(bucket);
  // The index has this bucket.
  if (found == nullptr) return Status::Ok();
  Entry& entry = *found;
  // Relaxed, everywhere: only a later attempt matters, and the mutex shows that.
  const uint32_t attempts_before = entry.attempt_count.load(std::memory_order_relaxed);
  const std::lock_guard lock(entry.mutex);
  if (entry.is_read) return Status::Ok();
  const uint32_t attempt_count = entry.attempt_count.load(std::memory_order_relaxed);
  if (!std::exchange(entry.is_told, true)) return entry.failure;
  if (attempt_count != attempts_before) return entry.failure;
  if (std::chrono::steady_clock::now() < entry.next_attempt) return entry.failure;
  Status status = read(&entry.record_count);
  entry.is_read = status.ok();
  if (!status.ok()) {
    entry.failure = status;
    entry.attempt_count.store(attempt_count + 1, std::memory_order_relaxed);
    entry.next_attempt = std::chrono::steady_clock::now() + PauseAfter(attempt_count + 1);
  }
  return status;
}

void UnreadBuckets::HideFromOlder(uint32_t bucket, uint64_t version) {
  FindOrMake(bucket)->first_version.store(version, std::memory_order_relaxed);
  has_hidden_.store(true, std::memory_order_relaxed);
}

bool UnreadBuckets::HidesAny(uint64_t version) const {
  const std::shared_lock lock(entries_mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [version](const auto& each) {
    return version < each.second.first_version.load(std::memory_order_relaxed);
  });
}

bool UnreadBuckets::IsAmongHidden(uint32_t bucket, uint64_t version) const {
  const Entry* const found = Find(bucket);
  return found != nullptr && version < found->first_version.load(std::memory_order_relaxed);
}

}  // namespace engine_race
