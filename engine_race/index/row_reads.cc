#include "engine_race/index/row_reads.h"

#include <cstring>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/io/lasting_queue.h"

namespace engine_race {

Status RowReads::Read(const SlotFiles& slots, uint32_t bucket, uint32_t row_records,
                      std::span<const uint32_t> rows) {
  ENGINE_RACE_ASSERT(rows.size() <= kMaxRows);
  row_bytes_ = row_records * format::kKeyEntryBytes;
  const uint64_t bytes = kMaxRows * row_bytes_;
  if (memory_.size() < bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes, /*huge_pages=*/false, &memory_));
  }
  runs_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool goes_on = i > 0 && rows[i] == rows[i - 1] + 1;
    if (!goes_on) runs_.push_back({i, uint64_t{rows[i]} * row_records, 0});
    runs_.back().slot_count += row_records;
  }
  if (MakeRequests(slots, bucket) && ReadAtOnce()) return Status::Ok();
  for (const Run& run : runs_) {
    ENGINE_RACE_RETURN_IF_ERROR(
        slots.ReadKeys(bucket, run.slot, run.slot_count, memory_.data() + run.place * row_bytes_));
  }
  return Status::Ok();
}

// Makes a request for each piece of the runs. False: some piece has no place.
bool RowReads::MakeRequests(const SlotFiles& slots, uint32_t bucket) {
  requests_.clear();
  for (const Run& run : runs_) {
    char* buffer = memory_.data() + run.place * row_bytes_;
    for (uint64_t done = 0; done < run.slot_count;) {
      const SlotLocation location =
          slots.LocateKeys(bucket, run.slot + done, run.slot_count - done);
      if (!location.found()) return false;
      const uint64_t size_bytes = location.slot_count * format::kKeyEntryBytes;
      requests_.push_back(location.RequestFor(size_bytes, buffer, requests_.size()));
      buffer += size_bytes;
      done += location.slot_count;
    }
  }
  return true;
}

// After a failure the next call does what is left to do.
Status RowReads::Prepare() {
  if (queue_ != nullptr) return Status::Ok();
  completions_.reserve(kMaxRows);
  return io::LastingQueue::Create({backend_, kMaxRows}, failed_, &queue_);
}

// False: the caller reads one run after the other, which also tells why a read fails.
bool RowReads::ReadAtOnce() {
  // The threads of psync would cost more than they save.
  if (requests_.size() == 1 || failed_->InPlaceOf(backend_) == IoBackend::kPsync) return false;
  // Each row lies in one segment, so there are at most as many pieces as rows.
  ENGINE_RACE_ASSERT(requests_.size() <= kMaxRows);
  if (!Guarded([this] { return Prepare(); }).ok()) return false;
  size_t started = 0;
  const Status submitted = queue_->Submit(requests_, &started);
  // A lasting queue fails only without room for requests.
  ENGINE_RACE_ASSERT(submitted.ok());
  completions_.clear();
  const Status waited = queue_->Wait(static_cast<uint32_t>(requests_.size()), &completions_);
  // Or without room for completions.
  ENGINE_RACE_ASSERT(waited.ok());
  bool is_good = true;
  for (const io::ReadCompletion& completion : completions_) {
    const io::ReadRequest& request = requests_[completion.tag];
    is_good = is_good && completion.error == 0;
    // A power loss may have left the file short.
    std::memset(static_cast<char*>(request.buffer) + completion.read_bytes, 0,
                request.size_bytes - completion.read_bytes);
  }
  return is_good;
}

}  // namespace engine_race
