#include "engine_race/log/follower.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/row_file.h"

namespace engine_race {
namespace {

using Writer = DirectoryLock::Writer;

// A row is damaged only if it is so again and again: its writer may be in the middle.
constexpr int kRowTries = 16;

// As many new records of a bucket are told one by one. Openings that restore an index set the same
// bounds.
constexpr uint64_t kFewNewRecords = 4096;

Status BeingOpened() { return Status(Code::kBusy, "a writer has come, gone or opens the store"); }

}  // namespace

bool Follower::SayTheSame(const format::BucketCounts& a, const format::BucketCounts& b) {
  return std::memcmp(&a, &b, offsetof(format::BucketCounts, clean_at)) == 0;
}

Status Follower::AdoptWritten() {
  const std::lock_guard<std::mutex> lock(mutex_);
  page_cache_id_ = PageCacheId(context_.files);
  if (page_cache_id_ == 0) {
    return Status(Code::kNotSupported,
                  "follow: the system does not tell whose page cache the store is in");
  }
  for (uint32_t number = 0; number < context_.buckets.size(); ++number) {
    bool detached = false;
    const Status updated = Update(number, How::kRows, &detached);
    Bucket& bucket = context_.buckets[number];
    bucket.damaged = updated.code() == Code::kCorruption;
    // Not a failed read: the bucket has not stood still. The next Refresh tries it again.
    bucket.followed.is_missing = updated.code() == Code::kIOError && updated.error() == 0;
    if (!bucket.damaged && !bucket.followed.is_missing) ENGINE_RACE_RETURN_IF_ERROR(updated);
  }
  return Status::Ok();
}

Status Follower::End(const DirectoryLock::Sight& sight) {
  const std::lock_guard<std::mutex> lock(mutex_);
  page_cache_id_ = PageCacheId(context_.files);
  if (sight.writer != Writer::kComplete) {
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.files.counts.Read(lines_.data(), lines_.size() * sizeof(lines_[0]), 0));
  }
  DirectoryLock::Sight now;
  ENGINE_RACE_RETURN_IF_ERROR(context_.files.lock.Look(&now));
  if (now != sight) return BeingOpened();
  opened_at_ = sight;
  return Status::Ok();
}

Status Follower::Refresh(std::vector<uint32_t>* reset) {
  const auto end = std::chrono::steady_clock::now() + DirectoryLock::kPatience;
  reset->clear();
  reset->reserve(lines_.size());
  while (true) {
    Status refreshed;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      refreshed = Guarded([&] { return RefreshLocked(reset); });
    }
    if (refreshed.code() != Code::kBusy) return refreshed;
    if (std::chrono::steady_clock::now() >= end) {
      return Status::IOError("a writer has been opening the store for a minute");
    }
    std::this_thread::sleep_for(DirectoryLock::kRetryInterval);
  }
}

// kBusy: a writer opens the store, or has opened it meanwhile.
Status Follower::RefreshLocked(std::vector<uint32_t>* reset) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckThere());
  DirectoryLock::Sight sight;
  ENGINE_RACE_RETURN_IF_ERROR(context_.files.lock.Look(&sight));
  if (sight.writer == Writer::kOpening) return BeingOpened();
  if (sight.writer == Writer::kInterrupted) {
    if (sight == opened_at_) return Status::Ok();
    return Status(Code::kIncomplete,
                  "the store needs a recovery: its writer has ended while it opened the store");
  }
  // Without a writer now, others may have come and gone.
  const bool anew = sight.writer == Writer::kNone ? sight != opened_at_
                                                  : sight.opening_id != opened_at_.opening_id;
  ENGINE_RACE_RETURN_IF_ERROR(UpdateAll(anew, reset));
  DirectoryLock::Sight now;
  ENGINE_RACE_RETURN_IF_ERROR(context_.files.lock.Look(&now));
  // The writer may have closed the store meanwhile, but no other one may have opened it.
  if (now.writer == Writer::kOpening || now.writer == Writer::kInterrupted ||
      (now.opening_id != 0 && now.opening_id != sight.opening_id)) {
    return BeingOpened();
  }
  opened_at_ = sight;
  return Status::Ok();
}

Status Follower::CheckThere() const {
  bool same = false;
  ENGINE_RACE_RETURN_IF_ERROR(context_.files.lock.IsThere(context_.files.directory.get(), &same));
  if (same) {
    UniqueFd now;
    const Status opened = sys::OpenDirectory(dir_, /*create=*/false, &now);
    same = opened.ok();
    // Other failures say nothing about the store.
    if (!same && opened.error() != ENOENT && opened.error() != ENOTDIR) return opened;
    if (same) {
      ENGINE_RACE_RETURN_IF_ERROR(sys::SameFile(now.get(), context_.files.directory.get(), &same));
    }
  }
  return same ? Status::Ok() : Status::IOError("the store was removed or replaced: open it again");
}

Status Follower::UpdateAll(bool anew, std::vector<uint32_t>* reset) {
  std::vector<format::BucketCounts> lines(lines_.size());
  ENGINE_RACE_RETURN_IF_ERROR(
      context_.files.counts.Read(lines.data(), lines.size() * sizeof(lines[0]), 0));
  Status all;
  for (uint32_t number = 0; number < lines.size(); ++number) {
    if (!anew && SayTheSame(lines[number], lines_[number])) continue;
    bool detached = false;
    Status updated = Update(number, anew ? How::kReset : How::kCounts, &detached);
    if (detached) reset->push_back(number);
    // Its readers are told.
    if (context_.buckets[number].damaged && updated.code() == Code::kCorruption) continue;
    if (all.ok()) all = std::move(updated);
  }
  return all;
}

Status Follower::Update(uint32_t number, How how, bool* detached) {
  *detached = false;
  Bucket& bucket = context_.buckets[number];
  // Only another opening repairs it.
  if (bucket.damaged && how != How::kReset) return Status::Ok();
  bool has_listener = false;
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    has_listener = bucket.listener != nullptr;
  }
  bool resets = how == How::kReset || !has_listener;
  Sample sample;
  std::vector<KeyRecord> records;
  for (int i = 0; i < kBucketTries; ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(TakeSample(number, how != How::kCounts || i > 0, &sample));
    const bool has_same_rows =
        !sample.has_table || (sample.state.table.has_rows() == bucket.table.has_rows() &&
                              sample.state.table.rows() == bucket.table.rows());
    if (how != How::kReset && has_same_rows && SayTheSame(sample.line, lines_[number])) {
      return Status::Ok();
    }
    ENGINE_RACE_RETURN_IF_ERROR(CheckPageCache(sample.state));
    resets = resets || IsOtherState(bucket, sample) || HasManyNew(bucket, sample);
    // A reset needs those that are staged alone.
    const uint64_t staged_begin = sample.state.LoggedKeyCount();
    const uint64_t begin = resets ? staged_begin : std::min(staged_begin, bucket.record_count);
    bool all = false;
    ENGINE_RACE_RETURN_IF_ERROR(LoadSegments(number, sample));
    ENGINE_RACE_RETURN_IF_ERROR(ReadRecords(number, sample, begin, &records, &all));
    if (all) return Adopt(number, &sample, records, resets, detached);
    // Records that are not in the log any more were superseded or moved.
    resets = resets || i > 0;
  }
  return Status(Code::kIOError, "bucket " + std::to_string(number) +
                                    " is written faster than its staged records can be read");
}

// Whether the listener cannot be told how the bucket has come to what it is now: records were moved
// or, by a recovery, cut off.
bool Follower::IsOtherState(const Bucket& bucket, const Sample& sample) {
  if (sample.state.record_count < bucket.record_count) return true;
  const auto was_moved_to = [&](const Row& row) {
    return row.moved_at > bucket.table.births() && !row.kept().empty();
  };
  return sample.has_table && std::ranges::any_of(sample.state.table.rows(), was_moved_to);
}

// Whether to read the bucket anew takes less than to tell the listener of each record.
bool Follower::HasManyNew(const Bucket& bucket, const Sample& sample) {
  return sample.state.record_count - bucket.record_count >
         std::max(kFewNewRecords, bucket.record_count / 4);
}

// Of a bucket without rows. With rows, TakeSample has needed the segments already. Two groups may
// be written at once. So a segment may get its place before those in front of it.
Status Follower::LoadSegments(uint32_t number, const Sample& sample) {
  if (sample.TableOr(context_.buckets[number].table).has_rows()) return Status::Ok();
  SlotFiles& slots = context_.files.slots;
  const uint64_t end = std::max(sample.state.LoggedKeyCount(), sample.state.LoggedValueCount());
  uint64_t& placed_end = placed_ends_[number];
  placed_end = slots.PlacedEnd(number, placed_end, end);
  if (placed_end >= end) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(slots.Reload(number));
  placed_end = slots.PlacedEnd(number, placed_end, end);
  return Status::Ok();
}

bool Follower::IsReused(uint32_t number, std::span<const uint64_t> slots, uint64_t reuse_count,
                        Status* failure) {
  Bucket& bucket = context_.buckets[number];
  // First with what the rows say. If they say nothing new, the listener knows a slot that held no
  // record before.
  for (const How how : {How::kRows, How::kReset}) {
    bool is_given_up = false;
    Status status = Guarded([&] {
      is_given_up = IsGivenUp(number, slots);
      return Status::Ok();
    });
    // The rows that it was asked about are those from before only if the count is.
    if (bucket.ReuseCount() != reuse_count) return true;
    if (status.ok()) {
      if (!is_given_up) return false;
      status = Guarded([&] {
        const std::lock_guard<std::mutex> lock(mutex_);
        bool detached = false;
        return bucket.ReuseCount() == reuse_count ? Update(number, how, &detached) : Status::Ok();
      });
    }
    if (!status.ok()) {
      // To readers kIncomplete says that a block of the index is to be read.
      *failure = status.code() == Code::kIncomplete
                     ? status.Reworded(Code::kIOError, status.message())
                     : std::move(status);
      return true;
    }
  }
  return true;
}

Status Follower::ConfirmDamage(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> one_change(mutex_);
  bool detached = false;
  ENGINE_RACE_RETURN_IF_ERROR(Update(number, How::kRows, &detached));
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  if (bucket.followed.change_count == bucket.followed.change_count_at_cut) return Status::Ok();
  return Status(Code::kBusy, "bucket " + std::to_string(number) +
                                 ": the writer has used slots again while they were read");
}

bool Follower::IsGivenUp(uint32_t number, std::span<const uint64_t> slots) {
  Bucket& bucket = context_.buckets[number];
  const uint64_t row_records = context_.geometry().row_records();
  bool had_rows = false;
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    had_rows = bucket.table.has_rows();
  }
  if (!had_rows) return HasRowsNow(number);
  while (!slots.empty()) {
    const uint64_t index = slots.front() / row_records;
    const auto in_row = [&](uint64_t slot) { return slot / row_records == index; };
    const auto count = static_cast<size_t>(std::ranges::find_if_not(slots, in_row) - slots.begin());
    if (IsRowGivenUp(number, static_cast<uint32_t>(index), slots.first(count))) return true;
    slots = slots.subspan(count);
  }
  return false;
}

// A row that begins another run has another birth. So has one that records were moved to.
bool Follower::IsRowGivenUp(uint32_t number, uint32_t index, std::span<const uint64_t> slots) {
  Bucket& bucket = context_.buckets[number];
  const uint32_t row_records = context_.geometry().row_records();
  Row known;
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    if (index >= bucket.table.rows().size()) return true;
    known = bucket.table.rows()[index];
  }
  Row now;
  Status read;
  for (int i = 0; i < kRowTries; ++i) {
    read = ReadRow(context_.files, number, index, &now);
    if (read.ok()) break;
  }
  if (!read.ok() || now.birth != known.birth) return true;
  const SlotBits held = known.held - (known.held - now.held);
  return !std::ranges::all_of(
      slots, [&](uint64_t slot) { return held.Has(static_cast<uint32_t>(slot % row_records)); });
}

// Of a bucket that had none.
bool Follower::HasRowsNow(uint32_t number) {
  // Acquire pairs with the release in LookForRows.
  if (!context_.has_row_file.load(std::memory_order_acquire)) {
    bool exists = true;
    const int dir_fd = context_.files.directory.get();
    if (sys::Exists(dir_fd, format::kRowsName, &exists).ok() && !exists) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!LookForRows().ok()) return true;
    if (!context_.has_row_file.load(std::memory_order_relaxed)) return false;
  }
  bool has_rows = true;
  return !ReadHasRows(context_.files, number, &has_rows).ok() || has_rows;
}

// A file of rows counts once the manifest names it.
Status Follower::LookForRows() {
  if (context_.files.rows.valid()) return Status::Ok();
  const int dir_fd = context_.files.directory.get();
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kRowsName, &exists));
  if (!exists) return Status::Ok();
  StoreIdentity identity;
  ENGINE_RACE_RETURN_IF_ERROR(ReadManifest(dir_fd, &identity));
  if (!identity.has_rows) return Status::Ok();
  io::File rows;
  ENGINE_RACE_RETURN_IF_ERROR(
      io::File::Open(dir_fd, format::kRowsName, io::Access::kRead, io::Caching::kBuffered, &rows));
  context_.files.rows = std::move(rows);
  // Release pairs with the acquire in HasRowsNow.
  context_.has_row_file.store(true, std::memory_order_release);
  return Status::Ok();
}

}  // namespace engine_race
