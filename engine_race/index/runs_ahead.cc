#include "engine_race/index/runs_ahead.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/io/lasting_queue.h"
#include "engine_race/log/format.h"

namespace engine_race {

std::deque<RunsAhead::Read>::iterator RunsAhead::Find(const l1::ExtentId& id) {
  return std::find_if(reads_.begin(), reads_.end(),
                      [&id](const Read& read) { return read.id == id; });
}

bool RunsAhead::GoTo(const l1::ExtentId& id) noexcept {
  const auto found = Find(id);
  keeps_first_ = found == reads_.begin();
  const size_t untaken_count = reads_.size() - (is_first_taken_ ? 1 : 0);
  if (found == reads_.end() && untaken_count > 0 && ++strange_count_ <= kPatience) return false;
  strange_count_ = 0;
  while (found == reads_.end() && !reads_.empty()) DropFirst();
  return true;
}

// A call after a failed one does what is left to do.
Status RunsAhead::Prepare() {
  if (queue_ != nullptr) return Status::Ok();
  if (memory_.data() == nullptr) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(memory_bytes_, /*huge_pages=*/false, &memory_));
    allocated_bytes_.store(memory_.size(), std::memory_order_relaxed);
  }
  completions_.reserve(kMaxExtents);
  return io::LastingQueue::Create({backend_, kMaxExtents}, failed_, &queue_);
}

bool RunsAhead::FindRoom(uint32_t size_bytes, uint32_t* begin) const {
  *begin = 0;
  if (reads_.empty()) return size_bytes <= memory_bytes_;
  const Read& first = reads_.front();
  const Read& last = reads_.back();
  *begin = last.end;
  // The reads go on from the memory's beginning once they have come to its end.
  if (last.begin < first.begin) return first.begin - last.end >= size_bytes;
  if (memory_bytes_ - last.end >= size_bytes) return true;
  *begin = 0;
  return first.begin >= size_bytes;
}

bool RunsAhead::Begin(const l1::ExtentStore& store, const l1::ExtentId& id,
                      uint32_t block_count) noexcept {
  if (Find(id) != reads_.end()) return true;
  Reap(/*poll=*/true);
  const uint32_t size_bytes = block_count * format::kIndexBlockBytes;
  uint32_t begin = 0;
  if (is_first_taken_ && (!keeps_first_ || !FindRoom(size_bytes, &begin))) DropFirst();
  if (reads_.size() == kMaxExtents || !FindRoom(size_bytes, &begin)) return false;
  // Without memory or a queue the walk reads for itself.
  const Status begun = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(Prepare());
    const l1::ExtentStore::Location location = store.Locate(id, 0);
    io::ReadRequest request;
    request.fd = location.file->fd();
    request.size_bytes = size_bytes;
    request.offset = location.offset;
    request.buffer = memory_.data() + begin;
    request.tag = first_number_ + reads_.size();
    reads_.push_back({id, begin, begin + size_bytes});
    size_t started = 0;
    const Status submitted = queue_->Submit({&request, 1}, &started);
    // A lasting queue fails only without room for requests.
    ENGINE_RACE_ASSERT(submitted.ok());
    return Status::Ok();
  });
  return begun.ok();
}

const char* RunsAhead::Take(const l1::ExtentId& id, uint32_t block_count) noexcept {
  const auto found = Find(id);
  if (found == reads_.end()) return nullptr;
  for (auto before = found - reads_.begin(); before > 0; --before) DropFirst();
  const Read& read = reads_.front();
  while (read.is_in_flight) Reap(/*poll=*/false);
  is_first_taken_ = true;
  const bool is_whole = read.end - read.begin == block_count * format::kIndexBlockBytes;
  return read.is_good && is_whole ? memory_.data() + read.begin : nullptr;
}

void RunsAhead::Reap(bool poll) noexcept {
  if (queue_ == nullptr || queue_->in_flight() == 0) return;
  completions_.clear();
  const Status status = queue_->Wait(poll ? 0 : 1, &completions_);
  // A lasting queue fails only without room for completions.
  ENGINE_RACE_ASSERT(status.ok());
  for (const io::ReadCompletion& completion : completions_) {
    Read& read = reads_[completion.tag - first_number_];
    read.is_in_flight = false;
    read.is_good = completion.error == 0 && completion.read_bytes == read.end - read.begin;
  }
}

void RunsAhead::DropFirst() noexcept {
  while (reads_.front().is_in_flight) Reap(/*poll=*/false);
  reads_.pop_front();
  ++first_number_;
  is_first_taken_ = false;
}

}  // namespace engine_race
