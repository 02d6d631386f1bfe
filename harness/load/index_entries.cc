#include "harness/load/index_entries.h"

#include <algorithm>

#include "engine_race/base/memory.h"

namespace harness {
namespace {

using engine_race::Region;
using engine_race::Status;
namespace format = engine_race::format;

class NoListener : public engine_race::AppendListener {
 public:
  Status Prepare(uint32_t) override { return Status::Ok(); }
  void OnAppend(uint32_t, const engine_race::KeyRecord&) noexcept override {}
};

// Direct reads are of whole pages.
constexpr uint64_t kPieceEntries = (uint64_t{1} << 20) / sizeof(format::KeyEntry);

}  // namespace

Status ReadEntries(engine_race::BucketLog* log, uint32_t bucket,
                   std::vector<format::KeyEntry>* entries) {
  entries->clear();
  NoListener listener;
  engine_race::BucketCut cut;
  ENGINE_RACE_RETURN_IF_ERROR(log->CutBucket(bucket, /*first_sequence=*/0, &listener, &cut));
  log->DetachListener(bucket);
  Region piece;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(kPieceEntries * sizeof(format::KeyEntry), false, &piece));
  const auto* const read = reinterpret_cast<const format::KeyEntry*>(piece.data());
  for (uint64_t begin = 0; begin < cut.logged_key_watermark; begin += kPieceEntries) {
    const uint64_t count = std::min(kPieceEntries, cut.logged_key_watermark - begin);
    ENGINE_RACE_RETURN_IF_ERROR(log->KeyFile(bucket).Read(
        piece.data(), count * sizeof(format::KeyEntry), log->KeyOffset(bucket, begin)));
    entries->insert(entries->end(), read, read + count);
  }
  entries->insert(entries->end(), cut.staged_keys.begin(), cut.staged_keys.end());
  return Status::Ok();
}

}  // namespace harness
