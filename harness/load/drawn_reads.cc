#include "harness/load/drawn_reads.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::EncodeKey;
using engine_race::kKeyBytes;
using engine_race::Options;
using engine_race::Status;
using engine_race::Store;
using engine_race::StoreStats;

namespace {

constexpr uint32_t kLooks = 8;
// Between two looks at the clock.
constexpr uint64_t kReadsPerLook = 32;

Status StatusOf(const Failures& failures) {
  if (Interrupted()) return Status::IOError("interrupted");
  return failures.any() ? Status::IOError(failures.first()) : Status::Ok();
}

}  // namespace

Status DrawnReads::Open(const StoreShape& shape, const Options& options,
                        std::unique_ptr<DrawnReads>* reads) {
  std::unique_ptr<DrawnReads> opened(new DrawnReads(shape));
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, shape.dir, &opened->store_));
  std::string value;
  ENGINE_RACE_RETURN_IF_ERROR(opened->store_->Read(KeyBytesOf(opened->KeyAt(0)), &value));
  *reads = std::move(opened);
  return Status::Ok();
}

bool DrawnReads::IsRight(uint64_t key, const std::string& value) const {
  uint64_t version = 0;
  return value.size() == kValueSize && runs_.values().CheckEnds(key, value.data(), &version);
}

template <typename IndexAt, typename More>
uint64_t DrawnReads::ReadOneByOne(const IndexAt& index_at, const More& more, Failures* failures) {
  std::string value;
  uint64_t count = 0;
  for (; more(count); ++count) {
    const uint64_t key = KeyAt(index_at(count));
    char key_bytes[kKeyBytes];
    EncodeKey(key, key_bytes);
    const Status status = store_->Read({key_bytes, kKeyBytes}, &value);
    if (!status.ok() || (count % kLooks == 0 && !IsRight(key, value))) {
      failures->Note("read: " + status.ToString());
    }
  }
  return count;
}

template <typename IndexAt, typename More>
uint64_t DrawnReads::ReadMany(uint32_t keys_per_call, const IndexAt& index_at, const More& more,
                              Failures* failures) {
  std::vector<uint64_t> numbers(keys_per_call);
  std::vector<char> bytes(size_t{keys_per_call} * kKeyBytes);
  std::vector<std::string_view> keys;
  for (uint32_t i = 0; i < keys_per_call; ++i) {
    keys.emplace_back(bytes.data() + size_t{i} * kKeyBytes, kKeyBytes);
  }
  std::vector<std::string> values(keys_per_call);
  std::vector<Status> statuses(keys_per_call);
  uint64_t count = 0;
  while (more(count)) {
    // The last call may have fewer.
    uint32_t filled = 0;
    for (; filled < keys_per_call && (filled == 0 || more(count + filled)); ++filled) {
      numbers[filled] = KeyAt(index_at(count + filled));
      EncodeKey(numbers[filled], bytes.data() + size_t{filled} * kKeyBytes);
    }
    const Status status =
        store_->MultiRead(std::span(keys).first(filled), values, std::span(statuses).first(filled));
    if (!status.ok()) failures->Note("MultiRead: " + status.ToString());
    for (uint32_t i = 0; i < filled; ++i) {
      if (!statuses[i].ok() || (i % kLooks == 0 && !IsRight(numbers[i], values[i]))) {
        failures->Note("MultiRead: " + statuses[i].ToString());
      }
    }
    count += filled;
  }
  return count;
}

Status DrawnReads::Run(const RecordDraw& draw, const ReadShape& shape, uint64_t seed, TimedRun* run,
                       FrameCounts* frames) {
  const StoreStats before = store_->Stats();
  Failures failures;
  std::atomic<uint64_t> total{0};
  const double cpu_began_s = CpuSeconds();
  const uint64_t began_ns = NowNs();
  RunWorkers(shape.thread_count, &failures, [&](uint32_t thread) {
    const uint64_t stream = MixAt(seed, thread);
    const auto index_at = [&](uint64_t i) { return draw.IndexFrom(MixAt(stream, i)); };
    const uint64_t share = (shape.read_count + thread) / shape.thread_count;
    const auto more = [&](uint64_t i) {
      if (shape.read_count > 0 && i >= share) return false;
      if (i % kReadsPerLook != 0) return true;
      if (failures.any() || Interrupted()) return false;
      return shape.read_count > 0 || SecondsSince(began_ns) < shape.seconds;
    };
    total += shape.keys_per_call == 0 ? ReadOneByOne(index_at, more, &failures)
                                      : ReadMany(shape.keys_per_call, index_at, more, &failures);
  });
  *run = {total, SecondsSince(began_ns), CpuSeconds() - cpu_began_s};
  if (frames != nullptr) {
    const StoreStats after = store_->Stats();
    frames->hit_count = after.frame_hit_count - before.frame_hit_count;
    frames->miss_count = after.frame_miss_count - before.frame_miss_count;
    frames->admission_count = after.frame_admission_count - before.frame_admission_count;
  }
  return StatusOf(failures);
}

Status DrawnReads::ReadEachOnce(uint32_t thread_count, uint32_t keys_per_call) {
  Failures failures;
  RunWorkers(thread_count, &failures, [&](uint32_t thread) {
    const uint64_t begin = shape_.record_count * thread / thread_count;
    const uint64_t count = shape_.record_count * (thread + 1) / thread_count - begin;
    ReadMany(
        keys_per_call, [begin](uint64_t i) { return begin + i; },
        [&](uint64_t i) { return i < count && !failures.any() && !Interrupted(); }, &failures);
  });
  return StatusOf(failures);
}

Status DrawnReads::RangeOnce() {
  uint64_t count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(
      store_->Range("", "", [&count](std::string_view, std::string_view) { ++count; }));
  return count == shape_.record_count ? Status::Ok()
                                      : Status::Corruption("a range saw another number of records");
}

}  // namespace harness
