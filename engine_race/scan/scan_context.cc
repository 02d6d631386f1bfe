#include "engine_race/scan/scan_context.h"

#include <new>
#include <string>

namespace engine_race {

Status BadValue(const ScanContext& context, uint32_t bucket, const IndexEntry& entry) {
  const ValuePlace place = context.log.LocateValue(bucket, entry.ref.slot());
  return Status::Corruption(place.file->name() + ": value of bucket " + std::to_string(bucket) +
                            " slot " + std::to_string(entry.ref.slot()) + " fails its check");
}

Status VerifyValue(const ScanContext& context, uint32_t bucket, const IndexEntry& entry,
                   const char* value) {
  if (!context.options.verify_checksums || ValueSum(value) == entry.ref.value_sum()) [[likely]] {
    return Status::Ok();
  }
  Status status = BadValue(context, bucket, entry);
  if (context.options.log) context.options.log(LogLevel::kError, status.message());
  return status;
}

Status ReadError(const io::File& file, int error) noexcept {
  try {
    return error != 0 ? Status::FromErrno("read " + file.name(), error)
                      : Status::IOError(file.name() + " ends early");
  } catch (const std::bad_alloc&) {
    return Status(Code::kIOError, {});
  }
}

}  // namespace engine_race
