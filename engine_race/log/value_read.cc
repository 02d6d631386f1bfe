#include "engine_race/log/value_read.h"

#include "engine_race/base/guarded.h"

namespace engine_race {

io::ReadRequest ValueRead::RequestFor(const BucketLog& log, char* buffer) const {
  SlotLocation location = log.slots().LocateValues(bucket, first_slot);
  // Segments begin with a block.
  location.offset = location.offset / kIoAlignment * kIoAlignment;
  return location.RequestFor(BlocksOf(log.geometry().slot_bytes()).size_bytes, buffer);
}

Status ValueRead::Failure(const BucketLog& log, int error) const noexcept {
  return Guarded([&] {
    const SlotLocation location = log.slots().LocateValues(bucket, first_slot);
    return location.found() ? io::ReadError(*location.file, error)
                            : log.reader().LostValue(bucket, first_slot);
  });
}

Status ValueRead::Read(const BucketLog& log, char* buffer) const {
  const SlotLocation location = log.slots().LocateValues(bucket, first_slot);
  if (!location.found()) return log.reader().LostValue(bucket, first_slot);
  const Blocks blocks = BlocksOf(log.geometry().slot_bytes());
  return location.file->Read(buffer, blocks.size_bytes, location.offset - blocks.skip_bytes);
}

}  // namespace engine_race
