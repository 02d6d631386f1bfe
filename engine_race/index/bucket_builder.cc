#include "engine_race/index/bucket_builder.h"

#include <algorithm>
#include <utility>

namespace engine_race {
namespace {

// Slabs of this size waste little at their ends, and there are few of them.
constexpr uint64_t kMaxSlabBytes = uint64_t{64} << 20;
constexpr uint64_t kMinSlabBytes = uint64_t{256} << 10;

uint64_t SlabBytes(uint64_t record_count) {
  return std::clamp(record_count * SortedRun::kBytesPerRecord, kMinSlabBytes, kMaxSlabBytes);
}

}  // namespace

BucketBuilder::BucketBuilder(BuildContext* context, uint64_t record_count)
    : context_(context),
      slabs_(SlabBytes(record_count), context->log().placement().memory()),
      parts_(&slabs_, context->limits().split_keys),
      reader_(context) {}

Status BucketBuilder::BuildOldest(uint32_t* bucket, Status* failure) {
  RawBucket raw;
  ENGINE_RACE_RETURN_IF_ERROR(reader_.Next(bucket, &raw, failure));
  if (!failure->ok()) {
    reader_.Finish();
    return Status::Ok();
  }
  BuiltParts built;
  ENGINE_RACE_RETURN_IF_ERROR(parts_.Build(raw, &built));
  const bool damaged = !built.damaged_slots.empty();
  if (damaged) ENGINE_RACE_RETURN_IF_ERROR(context_->log().ConfirmDamage(*bucket));
  if (damaged) context_->ReportDamage(*bucket, built.damaged_slots, built.damaged_slots.size());
  const BucketTail tail = {{}, {raw.record_count, raw.table->births()}, raw.table->births()};
  for (const auto& part : built.parts) part->births = tail.births;
  if (!damaged) context_->PageFresh(built.parts, /*other_bytes=*/0, &image_);
  const Status installed = context_->bucket(*bucket).Install(std::move(built.parts), damaged, tail);
  // Only now: Install needs the cut.
  reader_.Finish();
  return installed;
}

Status BucketBuilder::Build(uint32_t bucket) {
  ENGINE_RACE_RETURN_IF_ERROR(reader_.Start(bucket));
  Status failure;
  ENGINE_RACE_RETURN_IF_ERROR(BuildOldest(&bucket, &failure));
  // Beside a writer a bucket may be built again long before the others: a shared slab would live as
  // long as its last bucket.
  if (context_->log().follows()) slabs_.Seal();
  return failure;
}

}  // namespace engine_race
