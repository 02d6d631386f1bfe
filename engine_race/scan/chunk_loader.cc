#include "engine_race/scan/chunk_loader.h"

#include <algorithm>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/io/lasting_queue.h"

namespace engine_race {

Status ChunkLoader::Start() {
  if (queue_ != nullptr) return Status::Ok();
  try {
    free_ids_.clear();
    free_ids_.reserve(kDepth);
    for (uint32_t id = kDepth; id > 0; --id) free_ids_.push_back(id - 1);
    requests_.reserve(kDepth);
    completions_.reserve(kDepth);
    if (fresh_ != nullptr) touched_.resize(fresh_->size_bytes() / kTouchBytes + 1);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("a read queue of scans");
  }
  return io::LastingQueue::Create({context_->options.io_backend, kDepth},
                                  context_->log.failed_backends(), &queue_);
}

void ChunkLoader::ReadBlocking(ScanContext* context, Chunk* chunk) {
  for (const PlannedRead& read : chunk->plan.reads) {
    const Status status = read.Read(context->log, chunk->DataOf(read));
    if (status.ok()) {
      // Relaxed: a statistic.
      context->read_bytes.fetch_add(read.BlocksOf(context->layout.slot_bytes()).size_bytes,
                                    std::memory_order_relaxed);
    } else {
      chunk->FailRead(read, 0, status);
    }
  }
  chunk->reads_left = 0;
}

void ChunkLoader::Add(Chunk* chunk) {
  ENGINE_RACE_ASSERT(chunk->reads_left > 0 && chunk->reads_left == chunk->plan.reads.size());
  backlog_.push_back({chunk, 0});
  backlog_reads_ += chunk->plan.reads.size();
}

void ChunkLoader::Drop(Chunk* chunk) {
  const auto at = std::find_if(backlog_.begin(), backlog_.end(),
                               [chunk](const Backlog& each) { return each.chunk == chunk; });
  if (at == backlog_.end()) return;
  const auto dropped_count = static_cast<uint32_t>(chunk->plan.reads.size()) - at->next_read;
  chunk->reads_left -= dropped_count;
  backlog_reads_ -= dropped_count;
  backlog_.erase(at);
}

void ChunkLoader::Submit() {
  if (queue_ == nullptr) return;
  if (!reading()) last_time_ = Clock::now();
  requests_.clear();
  bool touched = false;
  while (!backlog_.empty() && !free_ids_.empty() && bytes_in_flight_ < kMaxBytesInFlight) {
    Backlog& front = backlog_.front();
    const PlannedRead& read = front.chunk->plan.reads[front.next_read];
    io::ReadRequest request = read.RequestFor(context_->log, front.chunk->DataOf(read));
    if (!Touch(read, request.size_bytes, &touched)) break;
    request.tag = free_ids_.back();
    free_ids_.pop_back();
    in_flight_[request.tag] = {front.chunk, front.next_read, request.size_bytes};
    requests_.push_back(request);
    bytes_in_flight_ += request.size_bytes;
    --backlog_reads_;
    if (++front.next_read == front.chunk->plan.reads.size()) backlog_.pop_front();
  }
  if (requests_.empty()) return;
  size_t started = 0;
  const Status status = queue_->Submit(requests_, &started);
  // A lasting queue fails only without room for requests or, below, for completions.
  ENGINE_RACE_ASSERT(status.ok());
}

bool ChunkLoader::Touch(const PlannedRead& read, uint64_t size_bytes, bool* touched) {
  if (fresh_ == nullptr) return true;
  const uint64_t begin = context_->layout.OffsetOf(read.first_position);
  const uint64_t end = begin + size_bytes;
  for (uint64_t piece = begin / kTouchBytes; piece * kTouchBytes < end; ++piece) {
    if (touched_[piece]) continue;
    if (*touched) return false;
    *touched = true;
    const auto start = Clock::now();
    fresh_->Populate(piece * kTouchBytes, kTouchBytes);
    touched_[piece] = true;
    touch_time_ += Clock::now() - start;
  }
  return true;
}

void ChunkLoader::Reap(bool poll, std::vector<Chunk*>* loaded) {
  if (queue_ == nullptr) return;
  completions_.clear();
  if (queue_->in_flight() > 0) {
    // A few at a time, for fewer wake-ups; the device keeps most of its queue meanwhile.
    const uint32_t batch = std::max(1u, queue_->in_flight() / 8);
    const Status status = queue_->Wait(poll ? 0 : batch, &completions_);
    ENGINE_RACE_ASSERT(status.ok());
  }
  for (const io::ReadCompletion& completion : completions_) {
    Finish(completion, loaded);
  }
  const auto now = Clock::now();
  busy_time_ += now - last_time_;
  last_time_ = now;
}

void ChunkLoader::Finish(const io::ReadCompletion& completion, std::vector<Chunk*>* loaded) {
  const auto id = static_cast<uint32_t>(completion.tag);
  const auto [chunk, index, size_bytes] = in_flight_[id];
  ENGINE_RACE_ASSERT(chunk != nullptr);
  in_flight_[id] = InFlight();
  free_ids_.push_back(id);
  const PlannedRead& read = chunk->plan.reads[index];
  ENGINE_RACE_ASSERT(bytes_in_flight_ >= size_bytes);
  bytes_in_flight_ -= size_bytes;
  // Relaxed: a statistic.
  context_->read_bytes.fetch_add(completion.read_bytes, std::memory_order_relaxed);
  const Status status = read.Check(context_->log, completion);
  if (!status.ok()) {
    chunk->FailRead(read, completion.error != 0 ? 0 : completion.read_bytes, status);
  }
  ENGINE_RACE_ASSERT(chunk->reads_left > 0);
  if (--chunk->reads_left == 0) loaded->push_back(chunk);
}

}  // namespace engine_race
