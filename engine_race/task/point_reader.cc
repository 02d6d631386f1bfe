#include "engine_race/task/point_reader.h"

#include <cstring>

#include "engine_race/base/memory.h"

#include "engine_race/base/assert.h"

namespace engine_race {

Status PointReader::Read(uint64_t key, std::string* value) const {
  Place place;
  ENGINE_RACE_RETURN_IF_ERROR(Find(key, &place, value));
  return place.delivered ? Status::Ok() : ReadFromLog(key, place, value);
}

// Out of line, so that what is in a frame does not pay for the buffer.
__attribute__((noinline)) Status PointReader::ReadFromLog(uint64_t key, const Place& place,
                                                          std::string* value) const {
  // On the stack: a pool of buffers that all threads share costs more than the copy out of it.
  alignas(kIoAlignment) char buffer[kValueBytes];
  ENGINE_RACE_RETURN_IF_ERROR(log_.ReadValue(place.bucket, place.ref.slot(), buffer));
  return Deliver(key, place, buffer, value);
}

// Once more when the key's bucket had to be read first, which no lookup of frames does.
template <typename FindFn>
Status PointReader::FindLoaded(uint32_t bucket, const FindFn& find) const {
  Status status = find();
  if (status.code() != Code::kIOError) [[likely]] {
    return status;
  }
  ENGINE_RACE_RETURN_IF_ERROR(index_.Load(bucket));
  return find();
}

Status PointReader::ReadAt(uint64_t key, uint64_t epoch, char* buffer) const {
  Place place;
  place.bucket = log_.geometry().BucketOf(key);
  if (frames_ != nullptr) {
    const auto find = [&] {
      return frames_->FindAt(key, epoch, &place.ref, &place.delivered,
                             [buffer](const char* hot) { std::memcpy(buffer, hot, kValueBytes); });
    };
    ENGINE_RACE_RETURN_IF_ERROR(FindLoaded(place.bucket, find));
    if (place.delivered) return Status::Ok();
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(index_.FindAt(key, epoch, &place.ref));
  }
  ENGINE_RACE_RETURN_IF_ERROR(log_.ReadValue(place.bucket, place.ref.slot(), buffer));
  return Verify(place, buffer);
}

Status PointReader::Find(uint64_t key, Place* place, std::string* value) const {
  place->delivered = false;
  if (frames_ != nullptr) {
    // The frame is somebody else's as soon as this is over: so it is copied here.
    const auto find = [&] {
      return frames_->Find(key, &place->ref, &place->delivered,
                           [value](const char* hot) { value->assign(hot, kValueBytes); });
    };
    ENGINE_RACE_RETURN_IF_ERROR(FindLoaded(log_.geometry().BucketOf(key), find));
    if (place->delivered) return Status::Ok();
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(index_.Find(key, &place->ref));
  }
  place->bucket = log_.geometry().BucketOf(key);
  place->staged = place->ref.slot() >= log_.LoggedValueWatermark(place->bucket);
  return Status::Ok();
}

io::ReadRequest PointReader::RequestFor(const Place& place, char* buffer) const {
  ENGINE_RACE_ASSERT(!place.delivered && !place.staged);
  io::ReadRequest request;
  const ValueLocation value = log_.LocateValue(place.bucket, place.ref.slot());
  request.fd = value.file->fd();
  request.size_bytes = kValueBytes;
  request.offset = value.offset;
  request.buffer = buffer;
  return request;
}

Status PointReader::Check(const Place& place, const io::ReadCompletion& completion) const {
  if (completion.error == 0 && completion.read_bytes == kValueBytes) [[likely]] {
    return Status::Ok();
  }
  const ValueLocation value = log_.LocateValue(place.bucket, place.ref.slot());
  if (value.offset == UnitMap::kNowhere) return log_.LostValue(place.bucket, place.ref.slot());
  return io::ReadError(*value.file, completion.error);
}

Status PointReader::Verify(const Place& place, const char* buffer) const {
  if (!verify_checksums_) return Status::Ok();
  return log_.VerifyValue(place.bucket, place.ref.slot(), place.ref.value_checksum(), buffer);
}

Status PointReader::Deliver(uint64_t key, const Place& place, const char* buffer,
                            std::string* value) const {
  // What is staged is in memory anyway.
  const bool offers = frames_ != nullptr && !place.staged;
  if (offers) frames_->PrepareOffer(key);
  ENGINE_RACE_RETURN_IF_ERROR(Verify(place, buffer));
  value->assign(buffer, kValueBytes);
  if (offers) frames_->Offer(key, place.ref, buffer);
  return Status::Ok();
}

}  // namespace engine_race
