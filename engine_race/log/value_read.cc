#include "engine_race/log/value_read.h"

#include "engine_race/base/guarded.h"

namespace engine_race {

io::ReadRequest ValueRead::RequestFor(const BucketLog& log, char* buffer) const {
  const SlotLocation location = log.slots().LocateValues(bucket, first_slot);
  io::ReadRequest request;
  request.fd = location.file->fd();
  request.size_bytes = static_cast<uint32_t>(BlocksOf(log.geometry().slot_bytes()).size_bytes);
  // Segments begin with a block.
  request.offset = location.offset / kIoAlignment * kIoAlignment;
  request.buffer = buffer;
  return request;
}

Status ValueRead::Failure(const BucketLog& log, int error) const noexcept {
  return Guarded([&] {
    const SlotLocation location = log.slots().LocateValues(bucket, first_slot);
    return location.found() ? io::ReadError(*location.file, error)
                            : log.LostValue(bucket, first_slot);
  });
}

Status ValueRead::Read(const BucketLog& log, char* buffer) const {
  const SlotLocation location = log.slots().LocateValues(bucket, first_slot);
  if (!location.found()) return log.LostValue(bucket, first_slot);
  const io::ReadRequest request = RequestFor(log, buffer);
  return location.file->Read(buffer, request.size_bytes, request.offset);
}

}  // namespace engine_race
