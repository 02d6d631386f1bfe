#include "engine_race/scan/scan_context.h"

namespace engine_race {

Status VerifyValue(const ScanContext& context, uint32_t bucket, const IndexEntry& entry,
                   const char* value) {
  if (!context.options.verify_checksums || ValueSum(value) == entry.ref.value_sum()) [[likely]] {
    return Status::Ok();
  }
  Status status = context.log.CorruptValue(bucket, entry.ref.slot());
  if (context.options.log) context.options.log(LogLevel::kError, status.message());
  return status;
}

}  // namespace engine_race
