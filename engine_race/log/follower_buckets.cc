// Of Follower: what a bucket is now, its new records, and how it takes them over.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/log/follower.h"
#include "engine_race/log/lane.h"
#include "engine_race/log/row_file.h"

namespace engine_race {
namespace {

// Readings of a bucket until two agree. Most agree at once: a record takes longer than a reading.
constexpr int kReadings = 1000;
// From this one on there is a pause before each.
constexpr int kHastyReadings = 20;
constexpr std::chrono::microseconds kPause{100};
// Readings of rows until two agree. And readings in a row that agree with each other until what
// they say counts as damage: the writer may stand still in the middle.
constexpr int kRowReadings = 100;
constexpr int kDamageReadings = 40;
static_assert(kHastyReadings < kDamageReadings);

void PauseBefore(int reading) {
  if (reading >= kHastyReadings) std::this_thread::sleep_for(kPause);
}

// Whether some record that lay in a slot may not lie there any more. The bucket had `record_count`.
bool HasGivenUp(const SlotTable& before, uint64_t record_count, const SlotTable& after) {
  const auto& rows = after.rows();
  if (!before.has_rows()) {
    if (!after.has_rows()) return false;
    const uint64_t row_records = after.row_records();
    for (uint64_t first = 0; first < record_count; first += row_records) {
      const auto count = static_cast<uint32_t>(std::min(row_records, record_count - first));
      const uint64_t index = first / row_records;
      if (index >= rows.size() || rows[index].birth != 0 ||
          !(SlotBits::First(count) - rows[index].held).empty()) {
        return true;
      }
    }
    return false;
  }
  for (size_t i = 0; i < before.rows().size(); ++i) {
    const Row& row = before.rows()[i];
    if (row.held.empty()) continue;
    if (i >= rows.size() || rows[i].birth != row.birth || !(row.held - rows[i].held).empty()) {
      return true;
    }
  }
  return false;
}

}  // namespace

Status Follower::ReadLine(uint32_t number, format::BucketCounts* line) const {
  const auto read = [&](format::BucketCounts* into) {
    return context_.files.counts.Read(into, sizeof(*into), number * sizeof(*into));
  };
  format::BucketCounts before;
  ENGINE_RACE_RETURN_IF_ERROR(read(&before));
  for (int i = 0; i < kReadings; ++i) {
    PauseBefore(i);
    ENGINE_RACE_RETURN_IF_ERROR(read(line));
    if (std::memcmp(line, &before, sizeof(*line)) == 0) return Status::Ok();
    before = *line;
  }
  return Status::IOError("the counts of bucket " + std::to_string(number) + " do not stand still");
}

// Whether the staged groups have places, as Bucket::Adopt wants them.
bool Follower::IsSound(const BucketState& state) const {
  Lane values;
  Lane keys;
  return !state.damaged && InitLanes(context_.geometry(), state, &values, &keys);
}

Status Follower::CheckPageCache(const BucketState& state) const {
  if (state.page_cache_id == page_cache_id_) return Status::Ok();
  return Status(Code::kIncomplete,
                "the counts of the store are in doubt: a flush of its writer has failed");
}

Status Follower::TakeSample(uint32_t number, bool with_rows, Sample* sample) {
  bool is_good = false;
  if (!with_rows) {
    ENGINE_RACE_RETURN_IF_ERROR(SampleCounts(number, sample, &is_good));
    if (is_good) return Status::Ok();
  }
  RawRows rows;
  int damage_count = 0;
  for (int i = 0; i < kRowReadings; ++i) {
    PauseBefore(i);
    const format::BucketCounts line_before = sample->line;
    RawRows rows_before = std::exchange(rows, RawRows());
    bool agrees = false;
    // Damaged rows may have another place by now.
    ENGINE_RACE_RETURN_IF_ERROR(SampleRows(number, damage_count != 0, sample, &rows, &agrees));
    if (!agrees) {
      damage_count = 0;
      continue;
    }
    const bool is_new =
        damage_count == 0 || !SayTheSame(sample->line, line_before) || rows != rows_before;
    if (is_new && DecodeSample(number, rows, sample)) return Status::Ok();
    damage_count = is_new ? 1 : damage_count + 1;
    if (damage_count == kDamageReadings) return context_.DamagedCounts(number);
  }
  return Status::IOError("the rows of bucket " + std::to_string(number) +
                         " change at each reading");
}

// With the rows that the bucket has already. Good if they hold the new records.
Status Follower::SampleCounts(uint32_t number, Sample* sample, bool* is_good) {
  const SlotTable& table = context_.buckets[number].table;
  ENGINE_RACE_RETURN_IF_ERROR(ReadLine(number, &sample->line));
  sample->has_table = false;
  sample->state = DecodeLine(context_.files.identity.seed_id(), number, context_.geometry(),
                             sample->line, table);
  *is_good = IsSound(sample->state);
  if (!*is_good) return Status::Ok();
  if (table.has_rows()) {
    *is_good = sample->state.record_count <= table.RunEnd();
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(LookForRows());
  if (!context_.files.rows.valid()) return Status::Ok();
  bool has_rows = false;
  ENGINE_RACE_RETURN_IF_ERROR(ReadHasRows(context_.files, number, &has_rows));
  *is_good = !has_rows;
  return Status::Ok();
}

// The counts are read between two readings of the rows. A writer that gives a row another place
// counts that as a birth afterwards.
Status Follower::SampleRows(uint32_t number, bool reloads, Sample* sample, RawRows* rows,
                            bool* agrees) {
  RawRows before;
  ENGINE_RACE_RETURN_IF_ERROR(LookForRows());
  ENGINE_RACE_RETURN_IF_ERROR(ReadRawRows(context_.files, number, &before));
  if (reloads || !before.is_whole || before.births != placed_births_[number]) {
    ENGINE_RACE_RETURN_IF_ERROR(context_.files.slots.Reload(number));
    placed_births_[number] = before.births;
  }
  ENGINE_RACE_RETURN_IF_ERROR(ReadLine(number, &sample->line));
  ENGINE_RACE_RETURN_IF_ERROR(LookForRows());
  ENGINE_RACE_RETURN_IF_ERROR(ReadRawRows(context_.files, number, rows));
  *agrees = before == *rows;
  return Status::Ok();
}

// False: the rows or the counts are damaged.
bool Follower::DecodeSample(uint32_t number, const RawRows& rows, Sample* sample) const {
  BucketRows decoded_rows;
  DecodeRows(context_.files, number, rows, &decoded_rows);
  if (decoded_rows.damaged) return false;
  sample->state = DecodeCounts(context_.files.identity.seed_id(), number, context_.geometry(),
                               sample->line, std::move(decoded_rows.table));
  sample->has_table = true;
  const SlotTable& decoded = sample->state.table;
  return IsSound(sample->state) &&
         (!decoded.has_rows() || sample->state.record_count <= decoded.RunEnd());
}

// The staging places come first, even for records that are in the log by now: reading the log takes
// a call of the device, and the entry says whether it still is that record's.
Status Follower::ReadRecords(uint32_t number, const Sample& sample, uint64_t begin,
                             std::vector<KeyRecord>* records, bool* all) const {
  const Bucket& bucket = context_.buckets[number];
  const SlotTable& table = sample.TableOr(bucket.table);
  const EntryCodec codec = context_.codec(number);
  const uint64_t end = sample.state.record_count;
  const uint64_t group_records = context_.geometry().keys_per_group();
  alignas(kIoAlignment) std::array<format::KeyEntry, format::kPageEntries> page;
  uint64_t slot_of_page = ~uint64_t{0};
  std::vector<format::KeyEntry> staged(group_records);
  uint64_t staged_begin = 0;
  uint64_t staged_end = 0;
  records->clear();
  records->reserve(end - begin);
  *all = false;
  const auto is_record = [&](const format::KeyEntry& entry, uint64_t sequence, KeyRecord* record) {
    return SlotTable::DecodeAppended(codec, entry, sequence, record) &&
           context_.geometry().IsIn(number, record->key);
  };
  for (uint64_t sequence = begin; sequence < end; ++sequence) {
    const uint64_t group = sequence / group_records;
    if (sequence >= staged_end && group + format::kKeyPlaces > (end - 1) / group_records) {
      staged_begin = sequence;
      staged_end = std::min(end, (group + 1) * group_records);
      const uint32_t places = sample.state.key_places;
      std::ranges::fill(staged, format::KeyEntry());
      if (context_.staging.HasPlace(LaneKind::kKeys, places, sequence)) {
        ENGINE_RACE_RETURN_IF_ERROR(context_.staging.Read(LaneKind::kKeys, number, places, sequence,
                                                          staged_end - sequence, staged.data()));
      }
    }
    uint64_t slot = 0;
    if (!table.SlotOf(sequence, &slot)) return Status::Ok();
    KeyRecord record;
    bool is_found =
        sequence < staged_end && is_record(staged[sequence - staged_begin], sequence, &record);
    if (!is_found && sequence < sample.state.LoggedKeyCount()) {
      const uint64_t in_page = slot % page.size();
      if (slot - in_page != slot_of_page) {
        slot_of_page = slot - in_page;
        ENGINE_RACE_RETURN_IF_ERROR(
            context_.files.slots.ReadKeys(number, slot_of_page, page.size(), page.data()));
      }
      is_found = is_record(page[in_page], sequence, &record);
    }
    if (!is_found) return Status::Ok();
    record.slot = static_cast<uint32_t>(slot);
    records->push_back(record);
  }
  *all = true;
  return Status::Ok();
}

Status Follower::Adopt(uint32_t number, Sample* sample, std::span<const KeyRecord> records,
                       bool resets, bool* detached) {
  Bucket& bucket = context_.buckets[number];
  const uint64_t staged_begin = sample->state.LoggedKeyCount();
  std::vector<format::KeyEntry> staged;
  staged.reserve(sample->state.record_count - staged_begin);
  for (const KeyRecord& record : records) {
    if (record.sequence < staged_begin) continue;
    staged.push_back(SlotTable::EncodeAppended(context_.codec(number), record, record.sequence));
  }
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  const bool gives_up =
      sample->has_table && HasGivenUp(bucket.table, bucket.record_count, sample->state.table);
  *detached = bucket.listener != nullptr && resets;
  if (*detached) Detach(number, &bucket);
  if (sample->has_table) bucket.AdoptTable(std::move(sample->state.table));
  // Nothing is thrown from here on.
  bucket.followed.staged_keys.swap(staged);
  const uint64_t known_count = bucket.record_count;
  if (bucket.listener != nullptr && gives_up) bucket.listener->OnReuse(number);
  const bool adopted = bucket.Adopt(context_.geometry(), sample->state);
  ENGINE_RACE_ASSERT(adopted);
  bucket.damaged = bucket.followed.is_missing = false;
  lines_[number] = sample->line;
  ++bucket.followed.change_count;
  // Release pairs with the acquire in Bucket::RecordCount.
  bucket.published_count.store(bucket.record_count, std::memory_order_release);
  Status told;
  if (bucket.listener != nullptr) {
    const auto is_new = [&](const KeyRecord& record) { return record.sequence >= known_count; };
    const auto first = std::ranges::find_if(records, is_new) - records.begin();
    told = Tell(number, bucket.listener, records.subspan(static_cast<size_t>(first)));
  }
  // Some records were told, and the others never will be.
  if (!told.ok()) {
    *detached = true;
    Detach(number, &bucket);
  }
  // Sequentially consistent, as in RowMover::Release: a reader that finds the old count has found
  // the old rows.
  if (resets || gives_up || !told.ok()) {
    bucket.reuse_count.fetch_add(1, std::memory_order_seq_cst);
  }
  return told;
}

void Follower::Detach(uint32_t number, Bucket* bucket) {
  std::exchange(bucket->listener, nullptr)->OnDetach(number);
}

Status Follower::Tell(uint32_t number, AppendListener* listener,
                      std::span<const KeyRecord> records) {
  for (const KeyRecord& record : records) {
    ENGINE_RACE_RETURN_IF_ERROR(listener->Prepare(number));
    listener->OnAppend(number, record);
  }
  return Status::Ok();
}

}  // namespace engine_race
