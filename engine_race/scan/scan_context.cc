#include "engine_race/scan/scan_context.h"

namespace engine_race {

Status VerifyValue(const ScanContext& context, uint32_t bucket, const IndexEntry& entry,
                   const char* value) {
  if (!context.options.verify_checksums) return Status::Ok();
  Status status =
      context.log.VerifyValue(bucket, entry.ref.slot(), entry.ref.value_checksum(), value);
  if (!status.ok() && context.options.log) [[unlikely]] {
    context.options.log(LogLevel::kError, status.message());
  }
  return status;
}

}  // namespace engine_race
