#include "engine_race/index/bucket_reader.h"

#include <algorithm>
#include <cstring>

#include "engine_race/io/lasting_queue.h"

namespace engine_race {
namespace {

constexpr uint32_t kMaxQueueDepth = 16;

constexpr uint64_t kMaxPieceSlots = (uint64_t{1} << 24) - 1;

// The tag of a completion: the index of its Pending, and the slots of the piece.
uint64_t TagOf(uint32_t pending, uint64_t slot, uint64_t slot_count) {
  return slot << 32 | slot_count << 8 | pending;
}

}  // namespace

Status BucketReader::Init() {
  const BuildLimits& limits = context_->limits();
  const uint64_t bucket_bytes =
      context_->log().RecordCount() / context_->bucket_count() * format::kKeyEntryBytes + 1;
  const uint64_t window = std::min<uint64_t>(
      limits.window_buckets, std::max<uint64_t>(limits.window_bytes / bucket_bytes, 2));
  pending_.resize(std::clamp<uint64_t>(window, 1, 255));
  return io::LastingQueue::Create({context_->options().io_backend, kMaxQueueDepth},
                                  context_->log().failed_backends(), &queue_);
}

Status BucketReader::Start(uint32_t bucket) {
  const auto index = static_cast<uint32_t>((oldest_ + used_) % pending_.size());
  Pending& pending = pending_[index];
  pending.bucket = bucket;
  pending.failure = context_->Cut(bucket, /*first_sequence=*/0, &pending.cut);
  if (pending.failure.code() == Code::kIOError) {
    // The staged entries cannot be read: Next returns the failure.
    ++used_;
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(pending.failure);
  pending.readable_count = pending.cut.logged_slot_end();
  const uint64_t bytes =
      std::max(pending.cut.slot_end(), pending.cut.logged_slot_end()) * format::kKeyEntryBytes;
  if (pending.buffer.size() < bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes + bytes / 4, false, &pending.buffer,
                                                 context_->log().placement().memory()));
  }
  ++used_;
  return Submit(index);
}

Status BucketReader::Submit(uint32_t index) {
  Pending& pending = pending_[index];
  const uint64_t end = pending.cut.logged_slot_end();
  for (uint64_t slot = 0; slot < end;) {
    while (queue_->in_flight() == queue_->depth()) ENGINE_RACE_RETURN_IF_ERROR(Reap(1));
    const SlotLocation location = context_->log().slots().LocateKeys(
        pending.bucket, slot, std::min(PieceSlots(), end - slot));
    if (!location.found()) {
      // Entries that are lost, like those that are damaged.
      std::memset(pending.buffer.data() + slot * format::kKeyEntryBytes, 0,
                  location.slot_count * format::kKeyEntryBytes);
      slot += location.slot_count;
      continue;
    }
    const io::ReadRequest request =
        location.RequestFor(location.slot_count * format::kKeyEntryBytes,
                            pending.buffer.data() + slot * format::kKeyEntryBytes,
                            TagOf(index, slot, location.slot_count));
    size_t started = 0;
    ENGINE_RACE_RETURN_IF_ERROR(queue_->Submit({&request, 1}, &started));
    ++pending.pending_reads;
    slot += location.slot_count;
  }
  return Status::Ok();
}

Status BucketReader::Reap(uint32_t min_count) {
  completions_.clear();
  ENGINE_RACE_RETURN_IF_ERROR(queue_->Wait(min_count, &completions_));
  for (const io::ReadCompletion& done : completions_) {
    Pending& pending = pending_[done.tag & 0xff];
    --pending.pending_reads;
    const uint64_t slot = done.tag >> 32;
    if (done.error != 0) {
      pending.failure =
          io::ReadError(*context_->log().slots().LocateKeys(pending.bucket, slot).file, done.error);
    }
    const uint64_t read_count = done.read_bytes / format::kKeyEntryBytes;
    if (read_count < (done.tag >> 8 & kMaxPieceSlots)) {
      pending.readable_count = std::min(pending.readable_count, slot + read_count);
    }
  }
  return Status::Ok();
}

Status BucketReader::Next(uint32_t* bucket, RawBucket* raw, Status* failure) {
  Pending& pending = oldest();
  while (pending.pending_reads > 0) ENGINE_RACE_RETURN_IF_ERROR(Reap(1));
  *bucket = pending.bucket;
  *failure = pending.failure;
  if (!failure->ok()) return Status::Ok();
  auto* const entries = reinterpret_cast<format::KeyEntry*>(pending.buffer.data());
  pending.cut.PutStaged(entries);
  raw->entries = {entries, pending.cut.slot_end()};
  raw->lost_begin = pending.readable_count;
  raw->lost_end =
      pending.cut.table.has_rows() ? pending.cut.slot_end() : pending.cut.logged_key_watermark;
  raw->codec = context_->log().codec(pending.bucket);
  raw->table = &pending.cut.table;
  raw->record_count = pending.cut.record_count;
  raw->keys = context_->log().geometry().KeysOf(pending.bucket);
  return Status::Ok();
}

void BucketReader::Finish() {
  oldest().cut = BucketCut();
  oldest_ = (oldest_ + 1) % pending_.size();
  --used_;
}

}  // namespace engine_race
