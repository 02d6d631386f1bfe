#include "engine_race/scan/coordinator.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/thread_name.h"

namespace engine_race {

namespace {

// Chunks have at least one read each, and reads waiting or in flight are bounded by far less.
constexpr size_t kMaxLoading = 1024;

// This much, or one chunk, is read ahead even into fresh memory, whatever that costs.
constexpr uint64_t kLeastAheadBytes = 16 * 1024 * 1024;

// For runs of the index that are read ahead of chunks.
uint32_t RunsAheadBytes(uint64_t budget_bytes) {
  constexpr uint64_t kFraction = 64;
  const uint64_t bytes = std::min<uint64_t>(budget_bytes / kFraction, RunsAhead::kMaxBytes);
  return static_cast<uint32_t>(bytes / kIoAlignment * kIoAlignment);
}

}  // namespace

Coordinator::Coordinator(ScanContext* context, uint64_t budget_bytes, MemoryShare* share)
    : context_(context),
      // The walk keeps the run that it is in, which is no longer than what is read ahead.
      budget_bytes_(budget_bytes - 2 * RunsAheadBytes(budget_bytes)),
      share_(share),
      board_(context->layout),
      builder_(context, RunsAheadBytes(budget_bytes)),
      loader_(context, &board_.cache().pool()) {}

Coordinator::~Coordinator() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool Coordinator::Start() {
  std::lock_guard lock(mutex_);
  if (is_started_) return true;
  // Refused threads and memory throw.
  const Status status = Guarded([this] {
    ENGINE_RACE_RETURN_IF_ERROR(Prepare());
    thread_ = StartThread("er-scan", [this] { Run(); });
    return Status::Ok();
  });
  is_started_ = status.ok();
  // Of failures in a row only the first is reported.
  if (!status.ok() && !std::exchange(has_failed_, true)) {
    (void)Guarded([&] {
      Log(context_->options.log, LogLevel::kWarning, "scans go unshared: " + status.ToString());
      return Status::Ok();
    });
  }
  return is_started_;
}

// A call after a failed one does what is left to do.
Status Coordinator::Prepare() {
  ENGINE_RACE_RETURN_IF_ERROR(AllocateBuffers());
  loaded_.reserve(kMaxLoading);
  return loader_.Start();
}

// Likewise.
Status Coordinator::AllocateBuffers() {
  if (board_.cache().pool().buffer_count() == 0) {
    const auto buffer_count = static_cast<uint32_t>(
        std::min<uint64_t>(budget_bytes_ / board_.cache().booked_bytes(),
                           kMaxPositions / context_->layout.buffer_positions()));
    ENGINE_RACE_RETURN_IF_ERROR(
        board_.cache().Allocate(buffer_count, share_, context_->log.placement().memory()));
  }
  board_.ReserveVictims();
  return Status::Ok();
}

void Coordinator::Run() {
  // Before the queue of reads is used: back ends' own threads inherit where this one runs.
  context_->log.placement().EnterDeviceThread();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    woken_ = false;
    const Step step = loader_.hungry() ? PlanNext(&lock) : Step::kNothing;
    if (loader_.busy()) {
      lock.unlock();
      loader_.Submit();
      loader_.Reap(step == Step::kMore, &loaded_);
      // Before the visitors are woken: the device must not wait for that.
      loader_.Submit();
      Publish();
      lock.lock();
    } else if (step == Step::kNothing && !woken_ && !stop_) {
      asleep_ = true;
      const Clock::time_point insist_time = waits_.NextInsistTime(board_.scanners());
      if (insist_time == Clock::time_point()) {
        work_.wait(lock);
      } else {
        work_.wait_until(lock, insist_time);
      }
      asleep_ = false;
    }
  }
}

// Shows the visitors the chunks that have been read. Wakes them without the mutex, which they take
// next.
void Coordinator::Publish() {
  if (loaded_.empty()) return;
  // Without the mutex: beside a writer this reads rows, and may bring buckets up to date.
  for (Chunk* chunk : loaded_) chunk->NoteReuse(*context_);
  {
    std::lock_guard lock(mutex_);
    for (Chunk* chunk : loaded_) {
      chunk->doomed = chunk->doomed || chunk->read_failed || chunk->stale();
    }
  }
  for (Chunk* chunk : loaded_) chunk->SetReady();
  std::lock_guard lock(mutex_);
  for (Chunk* chunk : loaded_) board_.cache().Unpin(chunk);
  loaded_.clear();
}

void Coordinator::FitShare() {
  if (share_ != nullptr) board_.cache().SetLimit(share_->LimitBytes());
  board_.FitLimit();
}

Coordinator::Step Coordinator::PlanNext(std::unique_lock<std::mutex>* lock) {
  FitShare();
  uint64_t passed_over = 0;
  while (true) {
    NextLoad load;
    if (!board_.ChooseLoad(passed_over, &load)) return Step::kNothing;
    if (!Guarded([this] { return loader_.Start(); }).ok()) return GiveUp(load);
    Chunk* chunk = board_.cache().Find(load.key);
    const Step step = chunk != nullptr ? Revalidate(load, chunk, lock) : LoadChunk(load, lock);
    if (step != Step::kLater) return step;
    passed_over = load.wait_number;
  }
}

// The chunk was cut before some scan began that wants it. It serves that scan as well when the
// index still says the same: the value that was read of a record never changes.
Coordinator::Step Coordinator::Revalidate(const NextLoad& load, Chunk* chunk,
                                          std::unique_lock<std::mutex>* lock) {
  if (chunk->doomed) {
    board_.Remove(chunk);
    return Step::kMore;
  }
  bool still_true = chunk->cut >= load.begin;
  if (!still_true) {
    board_.cache().Pin(chunk);
    const uint64_t ticket = context_->ticket.load();
    lock->unlock();
    try {
      still_true = builder_.StillTrue(*chunk);
    } catch (const std::bad_alloc&) {
      still_true = false;
    }
    lock->lock();
    if (still_true) {
      chunk->cut = ticket;
    } else {
      board_.Remove(chunk);
    }
    board_.cache().Unpin(chunk);
  }
  if (still_true) Deliver(chunk);
  return Step::kMore;
}

Coordinator::Step Coordinator::LoadChunk(const NextLoad& load, std::unique_lock<std::mutex>* lock) {
  ChunkBuilder::Request request;
  request.key = load.key;
  request.last_wanted = load.last;
  board_.cache().FreeRange(load.key, &request.low, &request.high);
  request.max_buffers = load.max_buffers;
  lock->unlock();
  const ChunkBuilder::Outline outline = builder_.Plan(request);
  lock->lock();
  uint32_t buffer_count = outline.buffer_count;
  if (load.key == unplaced_key_) buffer_count = std::max(buffer_count, unplaced_buffers_);
  // Before the chunk is built, because that takes long, and again for what it turns out to need.
  bool patient = true;
  if (!MakeRoom(load, buffer_count, lock, &patient)) return HandleShortage(load, buffer_count);
  Chunk* chunk = BuildChunk(request, outline, lock);
  if (chunk == nullptr) return GiveUp(load);
  buffer_count = context_->layout.BuffersFor(chunk->plan.position_count);
  if (!MakeRoom(load, buffer_count, lock, &patient) || !PlaceChunk(chunk, buffer_count)) {
    board_.cache().Unpin(chunk);
    unplaced_key_ = load.key;
    unplaced_buffers_ = buffer_count;
    return HandleShortage(load, buffer_count);
  }
  unplaced_buffers_ = 0;
  waits_.CountLoad();
  for (Scanner* scanner : board_.scanners()) {
    if (patient && scanner->waiting && scanner->pos == load.key) scanner->insists = false;
  }
  Deliver(chunk);
  chunk->doomed = !chunk->collect_status.ok();
  if (chunk->reads_left == 0) {
    chunk->SetReady();
    board_.cache().Unpin(chunk);
  }
  return Step::kMore;
}

// Pinned; null when memory for it is refused.
Chunk* Coordinator::BuildChunk(const ChunkBuilder::Request& request,
                               const ChunkBuilder::Outline& outline,
                               std::unique_lock<std::mutex>* lock) {
  Chunk* chunk = nullptr;
  try {
    chunk = board_.cache().NewChunk();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  board_.cache().Pin(chunk);
  bool built = false;
  lock->unlock();
  try {
    builder_.Build(request, outline, chunk);
    built = true;
    const uint64_t last_wanted = std::min(request.last_wanted, request.high);
    if (chunk->last_key < last_wanted) builder_.ReadAhead(chunk->last_key + 1, last_wanted);
  } catch (const std::bad_alloc&) {
  }
  lock->lock();
  if (built) return chunk;
  board_.cache().Unpin(chunk);
  return nullptr;
}

// Gives the chunk its buffers, puts it into the cache and has it read.
bool Coordinator::PlaceChunk(Chunk* chunk, uint32_t buffer_count) {
  try {
    // Buffers that were free may have been booked for something else.
    if (!board_.cache().TakeBuffers(buffer_count, &chunk->buffers)) return false;
    chunk->Place(context_->layout, board_.cache().pool().base(), chunk->buffers,
                 context_->options.verify_checksums);
    board_.cache().Insert(chunk);
    if (chunk->reads_left > 0) loader_.Add(chunk);
  } catch (const std::bad_alloc&) {
    if (chunk->cached) board_.Remove(chunk);
    return false;
  }
  return true;
}

bool Coordinator::MakeRoom(const NextLoad& load, uint32_t buffer_count,
                           std::unique_lock<std::mutex>* lock, bool* patient) {
  const BufferPool& pool = board_.cache().pool();
  // Where fresh memory costs little it is taken before anything is evicted. Elsewhere it is the
  // last resort, for chunks that are wanted soon.
  const bool fresh_first = loader_.fresh_memory_is_cheap();
  if (fresh_first && share_ != nullptr && buffer_count > pool.free_count() &&
      pool.limit() < pool.buffer_count()) {
    const uint64_t new_buffers = buffer_count - pool.used_free_count();
    // Without the mutex, because another user of the memory may be called.
    lock->unlock();
    (void)share_->Want(new_buffers * board_.cache().booked_bytes());
    lock->lock();
    board_.cache().SetLimit(share_->LimitBytes());
  }
  NextLoad asking = load;
  asking.insists = false;
  const uint32_t least_ahead = context_->layout.BuffersIn(kLeastAheadBytes);
  const bool soon = load.waited_for || load.ahead_buffers <= std::max(buffer_count, least_ahead);
  if (board_.MakeRoom(asking, buffer_count,
                      fresh_first ? pool.free_count() : pool.used_free_count()) ||
      (!fresh_first && soon && board_.MakeRoom(asking, buffer_count, pool.free_count()))) {
    return true;
  }
  if (!load.insists || !board_.MakeRoom(load, buffer_count, pool.free_count())) return false;
  *patient = false;
  return true;
}

// The read queue cannot be made, or memory for a chunk is refused.
Coordinator::Step Coordinator::GiveUp(const NextLoad& load) {
  if (!load.waited_for) return Step::kNothing;
  RefuseAll();
  return Step::kMore;
}

// Evicting all that the planner would evict for `load` does not give it `buffer_count` buffers.
Coordinator::Step Coordinator::HandleShortage(const NextLoad& load, uint32_t buffer_count) {
  if (!load.waited_for) return Step::kNothing;
  NextLoad insisted = load;
  insisted.insists = true;
  if (load.insists ||
      !board_.CanMakeRoom(insisted, buffer_count, board_.cache().pool().free_count())) {
    board_.RecallLarge();
    return GiveUp(load);
  }
  if (!waits_.IsPatienceOver(board_.scanners(), load.key, Clock::now())) return Step::kLater;
  waits_.InsistAll(board_.scanners());
  board_.RecallLarge();
  return Step::kMore;
}

void Coordinator::RefuseAll() {
  for (Scanner* scanner : board_.scanners()) {
    if (!scanner->waiting) continue;
    Answer(scanner);
  }
}

void Coordinator::Answer(Scanner* scanner) {
  waits_.End(scanner);
  scanner->answered.notify_one();
}

void Coordinator::Deliver(Chunk* chunk) {
  for (Scanner* scanner : board_.scanners()) {
    if (scanner->waiting && scanner->pos >= chunk->first_key && scanner->pos <= chunk->last_key &&
        ScanBoard::Serves(*chunk, *scanner)) {
      Give(scanner, chunk);
      Answer(scanner);
    }
  }
}

void Coordinator::Give(Scanner* scanner, Chunk* chunk) {
  board_.cache().Pin(chunk);
  ENGINE_RACE_ASSERT(scanner->chunk == nullptr);
  ENGINE_RACE_ASSERT(chunk->first_key <= scanner->pos && scanner->pos <= chunk->last_key);
  use_count_.fetch_add(1, std::memory_order_relaxed);  // written under the mutex
  scanner->chunk = chunk;
  if (chunk->last_key >= scanner->last) {
    scanner->finishing = true;
  } else {
    scanner->pos = chunk->last_key + 1;
  }
}

}  // namespace engine_race
