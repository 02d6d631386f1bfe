#include "engine_race/scan/window_reader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/io/lasting_queue.h"

namespace engine_race {

namespace {

// Without a window from the pool.
constexpr uint32_t kSmallWindowRecords = 4;

// Records that a reading may bring into so many positions. More than one window serves a long walk,
// which leaves a half for gaps.
uint32_t RecordsFor(uint32_t position_count) {
  return position_count > WindowPool::kWindowRecords ? position_count / 2 : position_count;
}

uint32_t PositionsFor(uint32_t record_count) {
  return record_count > WindowPool::kWindowRecords ? 2 * record_count : record_count;
}

// Fewer reads than this are not worth a queue.
constexpr size_t kMinOverlapped = 4;

// How many scans have a queue of their own at once. Overlapping reads help a few scans; more scans
// overlap each other anyway. Each psync queue has threads, and each libaio queue takes tens of
// milliseconds to destroy.
constexpr uint32_t kMaxQueues = 4;

}  // namespace

WindowPool::WindowPool(const ScanContext& context, uint32_t window_count) : context_(context) {
  const Status status = pool_.Allocate(kWindowBytes, window_count, /*huge_pages=*/true,
                                       context_.log.placement().memory());
  if (!status.ok() && context_.options.log) {
    context_.options.log(LogLevel::kWarning,
                         "short scans have little memory: " + status.ToString());
  }
}

Status WindowPool::TakeWindows(uint32_t record_count, bool may_allocate, Windows* windows) {
  const size_t wanted_count = (record_count + kWindowRecords - 1) / kWindowRecords;
  if (windows->buffers.size() == wanted_count) return Status::Ok();
  // Perhaps one of the pool is free by now.
  if (windows->buffers.empty()) GiveWindows(windows);
  // First, so that nothing is thrown while a buffer has no owner.
  windows->buffers.reserve(wanted_count);
  windows->data.reserve(wanted_count);
  {
    std::lock_guard lock(mutex_);
    for (; windows->buffers.size() > wanted_count; windows->buffers.pop_back()) {
      pool_.GiveOne(windows->buffers.back());
    }
    windows->data.resize(windows->buffers.size());
    const auto may_take = [&] {
      if (windows->buffers.empty() && may_allocate) return true;
      return windows->buffers.size() < wanted_count &&
             pool_.free_count() > pool_.buffer_count() / 2;
    };
    for (uint32_t buffer = 0; may_take() && pool_.TakeOne(&buffer);) {
      windows->buffers.push_back(buffer);
      windows->data.push_back(pool_.data(buffer));
    }
  }
  windows->record_count = static_cast<uint32_t>(windows->buffers.size()) * kWindowRecords;
  if (!windows->data.empty() || !may_allocate) return Status::Ok();
  constexpr size_t kBytes = size_t{kSmallWindowRecords} * kValueBytes;
  char* const data = static_cast<char*>(std::aligned_alloc(kIoAlignment, kBytes));
  if (data == nullptr) return Status::OutOfMemory("scan window");
  windows->data.push_back(data);
  windows->record_count = kSmallWindowRecords;
  heap_bytes_.fetch_add(kBytes);
  return Status::Ok();
}

void WindowPool::GiveWindows(Windows* windows) {
  if (windows->data.empty()) return;
  if (windows->buffers.empty()) {
    std::free(windows->data[0]);
    heap_bytes_.fetch_sub(size_t{kSmallWindowRecords} * kValueBytes);
  } else {
    std::lock_guard lock(mutex_);
    pool_.Give(&windows->buffers);
  }
  windows->data.clear();
  windows->record_count = 0;
}

void WindowPool::AbandonWindows(Windows* windows) {
  if (windows->buffers.empty() && !windows->data.empty()) std::free(windows->data[0]);
  *windows = Windows();
}

std::unique_ptr<io::ReadQueue> WindowPool::TakeQueue() {
  std::lock_guard lock(mutex_);
  std::unique_ptr<io::ReadQueue> queue;
  if (!queues_.empty()) {
    queue = std::move(queues_.back());
    queues_.pop_back();
  } else if (queues_made_ < kMaxQueues) {
    // Null is a good answer to a refusal too.
    queues_.reserve(kMaxQueues);
    const io::ReadQueueOptions wanted{context_.options.io_backend, kQueueDepth};
    if (io::LastingQueue::Create(wanted, context_.log.failed_backends(), &queue).ok()) {
      ++queues_made_;
    }
  }
  return queue;
}

void WindowPool::GiveQueue(std::unique_ptr<io::ReadQueue> queue) {
  ENGINE_RACE_ASSERT(queue->in_flight() == 0);
  std::lock_guard lock(mutex_);
  queues_.push_back(std::move(queue));
}

void WindowReader::GiveBack() {
  Clear();
  // The pool may be gone once it has none of them.
  if (!windows_.data.empty()) pool_->GiveWindows(&windows_);
}

void WindowReader::Abandon() {
  Clear();
  WindowPool::AbandonWindows(&windows_);
}

void WindowReader::Clear() {
  entries_.clear();
  segments_.clear();
  plan_.Clear();
  hot_count_ = 0;
  collect_status_ = read_status_ = Status::Ok();
  complete_ = false;
}

uint64_t WindowReader::memory_bytes() const {
  return entries_.capacity() * sizeof(IndexEntry) + segments_.capacity() * sizeof(Segment) +
         plan_.positions.capacity() * sizeof(uint32_t) +
         plan_.reads.capacity() * sizeof(PlannedRead) +
         requests_.capacity() * sizeof(io::ReadRequest) +
         completions_.capacity() * sizeof(io::ReadCompletion);
}

Status WindowReader::Read(uint64_t first_key, uint64_t last_key, uint64_t version,
                          uint32_t max_records) {
  ENGINE_RACE_ASSERT(max_records > 0);
  try {
    while (true) {
      Clear();
      uint32_t record_count = 0;
      ENGINE_RACE_RETURN_IF_ERROR(Reserve(max_records, /*may_allocate=*/true, &record_count));
      Collect(first_key, last_key, version, record_count);
      TakeHot(version);
      Plan();
      ReadPlanned();
      if (version != kLatestVersion) return Status::Ok();
      // Without a view slots are only good for as long as nobody uses them again.
      ReadStaged();
      const bool is_stale =
          std::any_of(segments_.begin(), segments_.end(),
                      [&](const Segment& each) { return IsStale(*context_, each); });
      if (!is_stale) return Status::Ok();
      // Slots of fewer buckets are used again meanwhile.
      max_records = std::max(max_records / 4, 1U);
    }
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("scan window");
  }
}

void WindowReader::ReadStaged() {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const size_t after = i + 1 < segments_.size() ? segments_[i + 1].first_entry : entries_.size();
    for (size_t entry = segments_[i].first_entry; entry < after; ++entry) {
      uint32_t& position = plan_.positions[entry];
      if (position == kUnreadablePosition || (position & kStagedPosition) == 0) continue;
      const uint32_t at = position & ~kStagedPosition;
      const Status status =
          context_->log.ReadValue(segments_[i].bucket, entries_[entry].ref.slot(), windows_.At(at));
      position = status.ok() ? at : kUnreadablePosition;
      if (!status.ok() && read_status_.ok()) read_status_ = status;
    }
  }
}

Status WindowReader::Reserve(uint32_t max_records, bool may_allocate, uint32_t* record_count) {
  ENGINE_RACE_RETURN_IF_ERROR(
      pool_->TakeWindows(PositionsFor(max_records), may_allocate, &windows_));
  *record_count = std::min(max_records, RecordsFor(windows_.record_count));
  return Status::Ok();
}

void WindowReader::Collect(uint64_t first_key, uint64_t last_key, uint64_t version,
                           uint32_t max_records) {
  const Geometry& geometry = context_->log.geometry();
  entries_.reserve(max_records);
  while (true) {
    const uint32_t bucket = context_->index.NextHeld(geometry.BucketOf(first_key));
    if (bucket > geometry.BucketOf(last_key)) {
      complete_ = true;
      next_key_ = last_key;
      return;
    }
    first_key = std::max(first_key, geometry.FirstKeyOf(bucket));
    const uint64_t last_in_bucket = std::min(last_key, geometry.LastKeyOf(bucket));
    const size_t before = entries_.size();
    const uint64_t reuse_count = context_->log.ReuseCount(bucket);
    bool whole = false;
    collect_status_ = context_->index.Collect(bucket, first_key, last_in_bucket, max_records,
                                              &entries_, &whole, version);
    if (!collect_status_.ok()) entries_.resize(before);
    if (entries_.size() > before) {
      segments_.push_back({bucket, static_cast<uint32_t>(before), reuse_count});
    }
    if (!collect_status_.ok()) return;
    const uint64_t reached = whole ? last_in_bucket : entries_.back().key;
    complete_ = reached == last_key;
    next_key_ = complete_ ? last_key : reached + 1;
    if (complete_ || entries_.size() >= max_records) return;
    first_key = next_key_;
  }
}

void WindowReader::TakeHot(uint64_t version) {
  plan_.positions.resize(entries_.size(), kNoPosition);
  if (context_->frames == nullptr) return;
  context_->frames->TakeHot(entries_, version, [this](size_t entry, const char* value) {
    plan_.positions[entry] = plan_.position_count;
    std::memcpy(windows_.At(plan_.position_count++), value, kValueBytes);
  });
  hot_count_ = plan_.position_count;
}

void WindowReader::Plan() {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const uint32_t first = segments_[i].first_entry;
    const size_t after = i + 1 < segments_.size() ? segments_[i + 1].first_entry : entries_.size();
    // Those to come keep their room. Some of them may have a position already.
    const uint32_t taken = plan_.position_count + static_cast<uint32_t>(entries_.size()) - first;
    const uint32_t spare = windows_.record_count - std::min(windows_.record_count, taken);
    planner_.Add(segments_[i].bucket, std::span(entries_).subspan(first, after - first),
                 context_->log.Logged(segments_[i].bucket), spare, &plan_);
  }
}

void WindowReader::ReadPlanned() {
  ENGINE_RACE_ASSERT(plan_.positions.size() == entries_.size());
  ENGINE_RACE_ASSERT(plan_.position_count <= windows_.record_count);
  if (plan_.reads.size() >= kMinOverlapped) {
    // Now, so that nothing is thrown while reads are in flight.
    requests_.reserve(plan_.reads.size());
    completions_.reserve(plan_.reads.size());
    std::unique_ptr<io::ReadQueue> queue = pool_->TakeQueue();
    if (queue != nullptr) {
      ReadOverlapped(queue.get());
      pool_->GiveQueue(std::move(queue));
      CheckCompletions();
      return;
    }
  }
  for (const PlannedRead& read : plan_.reads) {
    const uint32_t size_bytes = read.slot_count * kValueBytes;
    const SlotLocation location = context_->log.slots().LocateValues(read.bucket, read.first_slot);
    const Status status =
        location.file->Read(windows_.At(read.first_position), size_bytes, location.offset);
    if (!status.ok()) FailRead(read, 0, status);
    context_->read_bytes.fetch_add(size_bytes, std::memory_order_relaxed);  // a statistic
  }
}

void WindowReader::ReadOverlapped(io::ReadQueue* queue) {
  requests_.clear();
  completions_.clear();
  for (size_t i = 0; i < plan_.reads.size(); ++i) {
    const PlannedRead& read = plan_.reads[i];
    const SlotLocation location = context_->log.slots().LocateValues(read.bucket, read.first_slot);
    requests_.push_back({location.file->fd(), read.slot_count * kValueBytes, location.offset,
                         windows_.At(read.first_position), i});
  }
  for (std::span<const io::ReadRequest> rest = requests_; completions_.size() < requests_.size();) {
    const size_t count = std::min<size_t>(rest.size(), queue->depth() - queue->in_flight());
    size_t started = 0;
    Status status = queue->Submit(rest.first(count), &started);
    rest = rest.subspan(count);
    // A lasting queue fails only without room for requests or completions.
    ENGINE_RACE_ASSERT(status.ok());
    status = queue->Wait(rest.empty() ? queue->in_flight() : 1, &completions_);
    ENGINE_RACE_ASSERT(status.ok());
  }
}

void WindowReader::CheckCompletions() {
  for (const io::ReadCompletion& completion : completions_) {
    const PlannedRead& read = plan_.reads[completion.tag];
    context_->read_bytes.fetch_add(completion.read_bytes, std::memory_order_relaxed);  // likewise
    if (completion.error != 0 || completion.read_bytes < read.slot_count * kValueBytes) {
      FailRead(read, completion.error != 0 ? 0 : completion.read_bytes / kValueBytes,
               io::ReadError(*context_->log.slots().LocateValues(read.bucket, read.first_slot).file,
                             completion.error));
    }
  }
}

void WindowReader::FailRead(const PlannedRead& read, uint32_t first_bad, const Status& status) {
  if (read_status_.ok()) read_status_ = status;
  for (uint32_t& position : plan_.positions) {
    if (position >= read.first_position + first_bad &&
        position < read.first_position + read.slot_count) {
      position = kUnreadablePosition;
    }
  }
}

bool WindowReader::Find(uint64_t key, uint32_t* entry) const {
  const auto at = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [](const IndexEntry& candidate, uint64_t bound) { return candidate.key < bound; });
  *entry = static_cast<uint32_t>(at - entries_.begin());
  return at != entries_.end() && at->key == key;
}

Status WindowReader::Value(uint32_t entry, const char** value) {
  ENGINE_RACE_ASSERT(entry < record_count());
  const uint32_t position = plan_.positions[entry];
  if (position == kUnreadablePosition) return read_status_;
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), entry,
      [](uint32_t bound, const Segment& segment) { return bound < segment.first_entry; });
  const uint32_t bucket = std::prev(after)->bucket;
  char* data = windows_.At(position & ~kStagedPosition);
  if ((position & kStagedPosition) != 0) {
    ENGINE_RACE_RETURN_IF_ERROR(context_->log.ReadValue(bucket, entries_[entry].ref.slot(), data));
  }
  *value = data;
  if (position < hot_count_) return Status::Ok();
  return VerifyValue(*context_, bucket, entries_[entry], data);
}

}  // namespace engine_race
