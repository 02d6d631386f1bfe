#include "engine_race/task/point_reader.h"

#include "engine_race/log/follower.h"

namespace engine_race {

// Calls read(&found) until its slot holds the record that was looked up. The status of another
// record's slot says nothing.
template <typename ReadFn>
Status PointReader::UntilFresh(const ReadFn& read) const {
  for (int i = 0; i < Follower::kReadTries || !log_.follows(); ++i) {
    Found found;
    Status status = read(&found);
    if (status.ok() || found.delivered || !found.is_found) return status;
    Status failure;
    if (!IsStale(found, &failure)) return status;
    ENGINE_RACE_RETURN_IF_ERROR(failure);
  }
  return BucketLog::Outrun();
}

Status PointReader::Read(uint64_t key, ValueSink value, uint64_t version) const {
  return UntilFresh([&](Found* found) {
    ENGINE_RACE_RETURN_IF_ERROR(index_.Await(
        key, [&](BlockLookup* lookup) { return Find(key, version, found, lookup, value); }));
    return found->delivered ? Status::Ok() : ReadFromLog(key, *found, value);
  });
}

// Not inlined, so that a read from a frame does not pay for the buffer.
__attribute__((noinline)) Status PointReader::ReadFromLog(uint64_t key, const Found& found,
                                                          ValueSink value) const {
  // On the stack: a pool of buffers that all threads share would cost more than copying the value.
  // Of a large value the copy costs more, and so does fresh memory for each read.
  const uint32_t read_bytes = layout_.read_bytes();
  if (read_bytes <= kIoAlignment) return ReadOnStack<kIoAlignment>(key, found, value);
  if (read_bytes <= 2 * kIoAlignment) return ReadOnStack<2 * kIoAlignment>(key, found, value);
  RegionPool::Lease buffer;
  const Status taken = large_buffers_.Take(placement().memory(), &buffer);
  if (!taken.ok()) return taken.Prefixed("the buffer of a value: ");
  return ReadThrough(buffer.data(), key, found, value);
}

// Not inlined, so that each size takes the stack that it needs.
template <size_t kBytes>
__attribute__((noinline)) Status PointReader::ReadOnStack(uint64_t key, const Found& found,
                                                          ValueSink value) const {
  alignas(kIoAlignment) char buffer[kBytes];
  return ReadThrough(buffer, key, found, value);
}

Status PointReader::ReadThrough(char* buffer, uint64_t key, const Found& found,
                                ValueSink value) const {
  ENGINE_RACE_RETURN_IF_ERROR(ReadBlocking(found, buffer));
  ENGINE_RACE_RETURN_IF_ERROR(CheckFresh(found));
  return DeliverOnce(key, found, buffer, value);
}

// Calls find() again after loading the bucket, if it was unread: a lookup of frames does not load
// it.
template <typename FindFn>
Status PointReader::FindLoaded(uint32_t bucket, const FindFn& find) const {
  Status status = find();
  for (int i = 0; status.code() == Code::kIOError && i < index_.max_loads(); ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(index_.Bring(bucket));
    status = find();
  }
  return status;
}

Status PointReader::ReadAt(uint64_t key, uint64_t version, char* buffer) const {
  return UntilFresh([&](Found* found) {
    ENGINE_RACE_RETURN_IF_ERROR(index_.Await(key, [&](BlockLookup* lookup) {
      return Find(key, version, found, lookup, ValueSink(buffer));
    }));
    if (found->delivered) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(ReadBlocking(*found, buffer));
    ENGINE_RACE_RETURN_IF_ERROR(CheckFresh(*found));
    ENGINE_RACE_RETURN_IF_ERROR(Verify(*found, buffer));
    if (frames_ != nullptr && !found->staged && frames_->MayAdmit()) {
      (void)frames_->AdmitIfFree(key, found->ref, buffer);
    }
    return Status::Ok();
  });
}

Status PointReader::Find(uint64_t key, uint64_t version, Found* found, BlockLookup* lookup,
                         ValueSink value, const RunWindow& window) const {
  found->delivered = found->is_found = false;
  found->version = version;
  found->bucket = log_.geometry().BucketOf(key);
  found->reuse_count = log_.ReuseCount(found->bucket);
  if (frames_ != nullptr) {
    // Copied here, because the frame may be used for another value as soon as Find returns.
    const auto use = [&](const char* hot) { value.Put(hot, layout_.value_bytes()); };
    ENGINE_RACE_RETURN_IF_ERROR(FindLoaded(found->bucket, [&] {
      return frames_->Find(key, &found->ref, &found->delivered, lookup, use, window, version);
    }));
    if (found->delivered) return Status::Ok();
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(index_.Find(key, &found->ref, lookup, window, version));
  }
  found->is_found = true;
  found->staged = !log_.Logged(found->bucket).Contains(found->ref.slot());
  return Status::Ok();
}

Status PointReader::Verify(const Found& found, const char* read) const {
  if (!verify_checksums_) return Status::Ok();
  return log_.reader().VerifyValue(found.bucket, found.ref.slot(), found.ref.value_checksum(),
                                   read);
}

// Whether the record is known to be the newest of its key.
bool PointReader::IsNewest(uint64_t key, const Found& found) const {
  if (found.version == kLatestVersion) return true;
  ValueRef newest;
  BlockLookup lookup;
  return index_.Find(key, &newest, &lookup).ok() && newest == found.ref;
}

Status PointReader::Deliver(uint64_t key, const Found& found, const char* buffer,
                            ValueSink value) const {
  Status failure;
  if (IsStale(found, &failure)) {
    ENGINE_RACE_RETURN_IF_ERROR(failure);
    return Read(key, value, found.version);
  }
  const char* const read =
      found.staged ? buffer : buffer + found.read().BlocksOf(layout_.slot_bytes()).skip_bytes;
  return DeliverOnce(key, found, read, value);
}

Status PointReader::DeliverOnce(uint64_t key, const Found& found, const char* read,
                                ValueSink value) const {
  // A staged value is in memory anyway.
  const bool offers = frames_ != nullptr && !found.staged && IsNewest(key, found);
  if (offers) frames_->PrepareOffer(key);
  ENGINE_RACE_RETURN_IF_ERROR(Verify(found, read));
  value.Put(read, layout_.value_bytes());
  if (offers) frames_->Offer(key, found.ref, read);
  return Status::Ok();
}

}  // namespace engine_race
