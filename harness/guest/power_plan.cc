#include "harness/guest/power_plan.h"

#include "harness/data/mix.h"

namespace engine_race::powercut {
namespace {

constexpr uint32_t kDeletePercent = 15;
// Keys that are written more often than the others.
constexpr uint32_t kHotKeyCount = 6;

}  // namespace

Options Plan::StoreOptions() const {
  uint64_t draw = harness::MixAt(seed_, 0);
  const auto next = [&draw](uint64_t bound) {
    draw = harness::Mix64(draw + 1);
    return draw % bound;
  };
  Options options;
  options.bucket_count = kBucketCount;
  options.file_count = 1u << next(3);
  options.bucket_capacity_records = 16384;
  options.value_group_bytes = 4096u << next(5);
  options.key_group_bytes = 4096u << next(2);
  options.memory_budget_bytes = uint64_t{32} << 20;
  options.journal_bytes = kMinJournalBytes;
  return options;
}

Operation Plan::OperationAt(uint32_t writer, uint32_t cycle, uint32_t number) const {
  const uint64_t word =
      harness::MixAt(harness::MixAt(seed_, Version(cycle, number)), uint64_t{writer});
  Operation operation;
  // Most operations are in one bucket of the writer, so that whole groups of entries fill between
  // two cuts.
  operation.bucket = writer + ((word & 7) == 0 ? kWriterCount : 0);
  const bool hot = (word >> 3 & 3) == 0;
  operation.key_index =
      static_cast<uint32_t>((word >> 8 & 0xffff) % (hot ? kHotKeyCount : kKeysPerBucket));
  operation.is_delete = (word >> 32 & 0xffff) % 100 < kDeletePercent;
  return operation;
}

uint64_t Plan::KeyAt(uint32_t bucket, uint32_t key_index) const {
  const uint64_t low = harness::MixAt(seed_, (uint64_t{bucket} << 32) + key_index);
  return uint64_t{bucket} << (64 - kBucketBits) | low >> kBucketBits;
}

void Model::Apply(uint32_t cycle, uint32_t number) {
  const Operation operation = plan_.OperationAt(Plan::WriterOf(bucket_), cycle, number);
  if (operation.bucket != bucket_) return;
  versions_[operation.key_index] = operation.is_delete ? 0 : Plan::Version(cycle, number);
}

}  // namespace engine_race::powercut
