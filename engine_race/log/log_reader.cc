#include "engine_race/log/log_reader.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/file_part.h"

namespace engine_race {

Status LogReader::ReadValue(uint32_t number, uint64_t slot, char* buffer,
                            uint64_t buffer_bytes) const {
  Bucket& bucket = context_.buckets[number];
  if (!bucket.Logged().Contains(slot)) {
    bool is_read = false;
    Status staged = ReadStaged(number, slot, buffer, &is_read);
    if (is_read || !staged.ok()) return staged;
  }
  SlotLocation location = context_.files.slots.LocateValues(number, slot);
  if (!location.found() && context_.options.follow) {
    // The writer may have given the segment its place since.
    ENGINE_RACE_RETURN_IF_ERROR(context_.files.slots.Reload(number));
    location = context_.files.slots.LocateValues(number, slot);
  }
  if (!location.found()) [[unlikely]] {
    return LostValue(number, slot);
  }
  return ReadWholePart(*location.file, buffer, context_.geometry().slot_bytes(), location.offset,
                       buffer_bytes);
}

// Ok and *is_read: `buffer` has the staged value. A pin keeps the place from the writers of this
// process. A follower reads the counts afterwards: the group leaves its place only once they say
// that it is in the log.
Status LogReader::ReadStaged(uint32_t number, uint64_t slot, char* buffer, bool* is_read) const {
  Bucket& bucket = context_.buckets[number];
  const bool follow = context_.options.follow;
  std::unique_lock<std::mutex> lock(bucket.mutex);
  uint64_t sequence = 0;
  // Slots that were given to other records meanwhile need not hold counted ones.
  if (!bucket.table.SequenceOf(slot, &sequence) || sequence >= bucket.record_count ||
      sequence < bucket.LoggedCount(LaneKind::kValues)) {
    return Status::Ok();
  }
  const uint32_t places_word = bucket.values.places_word();
  const uint32_t place = bucket.values.PlaceOf(sequence);
  if (!follow) bucket.values.Pin(place);
  lock.unlock();
  format::BucketCounts line{};
  Status read = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.Read(LaneKind::kValues, number, places_word, sequence, 1, buffer));
    return follow ? context_.files.counts.Read(&line, sizeof(line), number * sizeof(line))
                  : Status::Ok();
  });
  lock.lock();
  if (follow) {
    const BucketState now = DecodeLine(context_.files.identity.seed_id(), number,
                                       context_.geometry(), line, bucket.table);
    *is_read = !now.damaged && sequence >= now.LoggedValueCount();
    return read;
  }
  bucket.values.Unpin(place);
  bucket.WakeOneIfRoom();
  *is_read = true;
  return read;
}

void LogReader::PrefetchStagedValues(uint32_t number, uint64_t wanted_count) const {
  // Reading as much again costs less than a wait for each.
  constexpr uint64_t kMostPerWanted = 4;
  Bucket& bucket = context_.buckets[number];
  // The records of each place.
  std::array<uint64_t, 1 << format::kPlaceBits> counts = {};
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    const uint64_t group_records = bucket.values.group_records();
    const uint64_t logged = bucket.LoggedCount(LaneKind::kValues);
    if (bucket.record_count - logged > kMostPerWanted * wanted_count) return;
    for (uint64_t first = logged - logged % group_records; first < bucket.record_count;
         first += group_records) {
      counts[bucket.values.PlaceOf(first)] = std::min(bucket.record_count - first, group_records);
    }
  }
  for (uint32_t place = 0; place < counts.size(); ++place) {
    if (counts[place] > 0) context_.staging.PrefetchValues(number, place, counts[place]);
  }
}

Status LogReader::CutBucket(uint32_t number, uint64_t first_sequence, AppendListener* listener,
                            BucketCut* cut) const {
  Bucket& bucket = context_.buckets[number];
  if (bucket.damaged) return context_.DamagedCounts(number);
  std::unique_lock<std::mutex> lock(bucket.mutex);
  bucket.AwaitRelease(&lock);
  ENGINE_RACE_RETURN_IF_ERROR(TakeCut(number, first_sequence, cut));
  bucket.listener = listener;
  bucket.views = listener;
  bucket.followed.change_count_at_cut = bucket.followed.change_count;
  return Status::Ok();
}

Status LogReader::LookAtBucket(uint32_t number, uint64_t first_sequence, BucketCut* cut) const {
  Bucket& bucket = context_.buckets[number];
  if (bucket.damaged) return context_.DamagedCounts(number);
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  return TakeCut(number, first_sequence, cut);
}

// Under the bucket's lock.
Status LogReader::TakeCut(uint32_t number, uint64_t first_sequence, BucketCut* cut) const {
  Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(bucket.keys.watermark() <= bucket.record_count);
  if (bucket.followed.is_missing) [[unlikely]] {
    return Status::IOError("bucket " + std::to_string(number) +
                           " has changed at each reading: refresh the store");
  }
  if (first_sequence > bucket.record_count) return NoSuchRecord(number, first_sequence);
  cut->first_sequence = first_sequence;
  cut->record_count = bucket.record_count;
  cut->logged_key_watermark = bucket.LoggedCount(LaneKind::kKeys);
  cut->logged_watermark =
      std::min(cut->logged_key_watermark, bucket.LoggedCount(LaneKind::kValues));
  cut->table = bucket.table;
  cut->pin = CutPin(&bucket.cut_count);
  if (context_.options.follow && !bucket.followed.staged_keys.empty()) {
    const auto skipped = cut->first_staged() - cut->logged_key_watermark;
    cut->staged_keys.assign(bucket.followed.staged_keys.begin() + static_cast<ptrdiff_t>(skipped),
                            bucket.followed.staged_keys.end());
    return Status::Ok();
  }
  cut->staged_keys.resize(bucket.record_count - cut->first_staged());
  const uint64_t group_records = bucket.keys.group_records();
  for (uint64_t sequence = cut->first_staged(); sequence < bucket.record_count;) {
    const uint64_t count =
        std::min(group_records - bucket.keys.IndexOf(sequence), bucket.record_count - sequence);
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.Read(LaneKind::kKeys, number, bucket.keys.places_word(), sequence, count,
                              cut->staged_keys.data() + (sequence - cut->first_staged())));
    sequence += count;
  }
  return Status::Ok();
}

void LogReader::SuspendListener(uint32_t number) const {
  Bucket& bucket = context_.buckets[number];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  bucket.AwaitRelease(&lock);
  bucket.listener = nullptr;
}

void LogReader::DetachListener(uint32_t number) const {
  Bucket& bucket = context_.buckets[number];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  bucket.AwaitRelease(&lock);
  bucket.listener = nullptr;
  bucket.views = nullptr;
}

Status LogReader::ReadKeyEntry(uint32_t number, uint64_t sequence, format::KeyEntry* entry) const {
  Bucket& bucket = context_.buckets[number];
  if (bucket.damaged) return context_.DamagedCounts(number);
  uint64_t slot = 0;
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    if (sequence >= bucket.record_count || !bucket.table.SlotOf(sequence, &slot)) {
      return NoSuchRecord(number, sequence);
    }
    if (sequence >= bucket.LoggedCount(LaneKind::kKeys)) {
      return context_.staging.Read(LaneKind::kKeys, number, bucket.keys.places_word(), sequence, 1,
                                   entry);
    }
  }
  // The watermark never falls.
  return context_.files.slots.ReadKeys(number, slot, 1, entry);
}

Status LogReader::NoSuchRecord(uint32_t number, uint64_t sequence) const {
  return Status::InvalidArgument("bucket " + std::to_string(number) + " has no record " +
                                 std::to_string(sequence));
}

uint64_t LogReader::FirstSince(uint32_t number, const BucketMoment& since) const {
  const std::lock_guard<std::mutex> lock(context_.buckets[number].mutex);
  return context_.buckets[number].table.FirstSince(since);
}

uint64_t LogReader::CountSince(uint32_t number, const BucketMoment& since) const {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  return bucket.table.CountSince(since, bucket.record_count);
}

void LogReader::WithBucketLocked(uint32_t number, FunctionRef<void()> function) const {
  Bucket& bucket = context_.buckets[number];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  bucket.AwaitRelease(&lock);
  function();
}

bool LogReader::IfAttached(uint32_t number, FunctionRef<void()> admit) const {
  bool is_attached = false;
  WithBucketLocked(number, [&] {
    is_attached = context_.buckets[number].listener != nullptr;
    if (is_attached) admit();
  });
  return is_attached;
}

std::string LogReader::NameOfValue(uint32_t bucket, uint64_t slot) const {
  const SlotFiles& slots = context_.files.slots;
  return slots.NameOf(slots.LocateValues(bucket, slot)) + ": bucket " + std::to_string(bucket) +
         ", slot " + std::to_string(slot);
}

Status LogReader::CorruptValue(uint32_t bucket, uint64_t slot) const {
  return Status::Corruption(NameOfValue(bucket, slot) + ": the value does not match its checksum");
}

Status LogReader::LostValue(uint32_t bucket, uint64_t slot) const {
  return Status::Corruption(NameOfValue(bucket, slot) + ": the place of its segment is lost");
}

}  // namespace engine_race
