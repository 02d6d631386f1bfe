#include "engine_race/index/bucket_reader.h"

#include <algorithm>
#include <cstring>

namespace engine_race {
namespace {

constexpr uint32_t kMaxQueueDepth = 16;
constexpr uint64_t kEntryBytes = sizeof(format::KeyEntry);

// A completion's tag: which slot, and which piece of it.
uint64_t TagOf(uint32_t slot, uint64_t piece) { return (piece << 8) | slot; }

}  // namespace

Status BucketReader::Init() {
  slots_.resize(std::clamp<uint32_t>(context_->limits().window_buckets, 1, 255));
  return io::ReadQueue::CreateOrNextBest({context_->options().io_backend, kMaxQueueDepth}, &queue_);
}

Status BucketReader::Start(uint32_t bucket) {
  const auto index = static_cast<uint32_t>((oldest_ + used_) % slots_.size());
  Slot& slot = slots_[index];
  slot.bucket = bucket;
  slot.failure = context_->Cut(bucket, &slot.cut);
  if (slot.failure.code() == Code::kIOError) {
    // The staged entries cannot be read: Next returns the failure.
    ++used_;
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(slot.failure);
  slot.readable_count = slot.cut.flushed_key_count;
  const uint64_t bytes = slot.cut.record_count * kEntryBytes;
  if (slot.buffer.size() < bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes + bytes / 4, false, &slot.buffer));
  }
  ++used_;
  return Submit(index);
}

Status BucketReader::Submit(uint32_t slot_index) {
  Slot& slot = slots_[slot_index];
  const uint64_t bytes = slot.cut.flushed_key_count * kEntryBytes;
  const uint64_t piece_bytes = context_->limits().piece_bytes;
  for (uint64_t begin = 0; begin < bytes; begin += piece_bytes) {
    while (queue_->in_flight() == queue_->depth()) ENGINE_RACE_RETURN_IF_ERROR(Reap(1));
    io::ReadRequest request;
    request.fd = context_->log().KeyFile(slot.bucket).fd();
    request.size_bytes = static_cast<uint32_t>(std::min(piece_bytes, bytes - begin));
    request.offset = context_->log().KeyOffset(slot.bucket, 0) + begin;
    request.buffer = slot.buffer.data() + begin;
    request.tag = TagOf(slot_index, begin / piece_bytes);
    size_t started = 0;
    ENGINE_RACE_RETURN_IF_ERROR(queue_->Submit({&request, 1}, &started));
    ++slot.pending_reads;
  }
  return Status::Ok();
}

Status BucketReader::Reap(uint32_t min_count) {
  completions_.clear();
  ENGINE_RACE_RETURN_IF_ERROR(queue_->Wait(min_count, &completions_));
  for (const io::ReadCompletion& done : completions_) {
    Slot& slot = slots_[done.tag & 0xff];
    --slot.pending_reads;
    if (done.error != 0) {
      slot.failure = io::ReadError(context_->log().KeyFile(slot.bucket), done.error);
    }
    const uint64_t begin = (done.tag >> 8) * context_->limits().piece_bytes;
    const uint64_t asked = std::min<uint64_t>(context_->limits().piece_bytes,
                                              slot.cut.flushed_key_count * kEntryBytes - begin);
    if (done.read_bytes < asked) {
      slot.readable_count = std::min(slot.readable_count, (begin + done.read_bytes) / kEntryBytes);
    }
  }
  return Status::Ok();
}

Status BucketReader::Next(uint32_t* bucket, RawBucket* raw, Status* failure) {
  Slot& slot = oldest();
  while (slot.pending_reads > 0) ENGINE_RACE_RETURN_IF_ERROR(Reap(1));
  *bucket = slot.bucket;
  *failure = slot.failure;
  if (!failure->ok()) return Status::Ok();
  auto* const entries = reinterpret_cast<format::KeyEntry*>(slot.buffer.data());
  if (!slot.cut.staged_keys.empty()) {
    std::memcpy(entries + slot.cut.flushed_key_count, slot.cut.staged_keys.data(),
                slot.cut.staged_keys.size() * kEntryBytes);
  }
  raw->entries = {entries, slot.cut.record_count};
  raw->lost_begin = slot.readable_count;
  raw->lost_end = slot.cut.flushed_key_count;
  raw->codec = context_->log().codec(slot.bucket);
  raw->sequence_bound = slot.cut.sequence_bound;
  raw->keys = context_->log().geometry().division.KeysOf(slot.bucket);
  return Status::Ok();
}

void BucketReader::Finish() {
  oldest().cut = BucketCut();
  oldest_ = (oldest_ + 1) % slots_.size();
  --used_;
}

}  // namespace engine_race
