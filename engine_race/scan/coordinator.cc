#include "engine_race/scan/coordinator.h"

#include <algorithm>
#include <new>

namespace engine_race {

namespace {

// Chunks have at least one read each, and reads waiting or in flight are bounded by far less.
constexpr size_t kMaxLoading = 1024;

// So much, or one chunk, is read ahead even into fresh memory, whatever that costs.
constexpr uint32_t kLeastAheadBlocks = 16 * 1024 * 1024 / ChunkCache::kBlockBytes;

// So long a scan waits for memory that lies before those behind it, which may only be waiting for a
// processor. That is many turns of some dozens of busy threads.
constexpr auto kPatience = std::chrono::milliseconds(100);

// From a block to all that chunks may take in any memory.
constexpr uint32_t kMaxDoublings = 24;

}  // namespace

Coordinator::Coordinator(ScanContext* context, uint64_t budget_bytes, MemoryShare* share)
    : context_(context),
      budget_bytes_(budget_bytes),
      share_(share),
      builder_(context),
      loader_(context, cache_.pool()) {}

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
  if (started_) return usable_;
  started_ = true;
  const uint32_t block_count = static_cast<uint32_t>(std::min<uint64_t>(
      budget_bytes_ / ChunkCache::kBookedBytes, kMaxPlaces / ChunkCache::kBlockPlaces));
  Status status = cache_.Allocate(block_count, share_);
  if (status.ok()) status = loader_.Start();
  if (status.ok()) {
    try {
      loaded_.reserve(kMaxLoading);
      chunk_views_.reserve(cache_.max_chunks());
      viewed_chunks_.reserve(cache_.max_chunks());
      victims_.reserve(cache_.max_chunks());
      thread_ = std::thread([this] { Run(); });
    } catch (const std::exception& failure) {
      status = Status::OutOfMemory(failure.what());
    }
  }
  usable_ = status.ok();
  if (!usable_ && context_->options.log) {
    context_->options.log(LogLevel::kWarning, "scans go unshared: " + status.ToString());
  }
  return usable_;
}

void Coordinator::Run() {
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
      if (insist_time_ == Clock::time_point()) {
        work_.wait(lock);
      } else {
        work_.wait_until(lock, insist_time_);
      }
      asleep_ = false;
    }
  }
}

// Shows the visitors what has been read. They are woken without the mutex, which they take next.
void Coordinator::Publish() {
  if (loaded_.empty()) return;
  {
    std::lock_guard lock(mutex_);
    for (Chunk* chunk : loaded_) chunk->doomed = chunk->doomed || chunk->read_failed;
  }
  for (Chunk* chunk : loaded_) chunk->SetReady();
  std::lock_guard lock(mutex_);
  for (Chunk* chunk : loaded_) cache_.Unpin(chunk);
  loaded_.clear();
}

// Brings the planner's view of everything up to date.
void Coordinator::Look() {
  scan_views_.clear();
  for (Scanner* scanner : attached_) {
    if (scanner->finishing) continue;
    AdvanceFrontier(scanner);
    scan_views_.push_back({scanner->pos, scanner->last, scanner->begin, scanner->frontier,
                           scanner->covered, scanner->waiting ? scanner->wait_number : 0,
                           scanner->insists, scanner->doublings});
  }
  std::sort(scan_views_.begin(), scan_views_.end(),
            [](const ScanView& a, const ScanView& b) { return a.pos < b.pos; });
  cache_.View(&chunk_views_, &viewed_chunks_);
}

// A chunk that failed is as good as loaded until a scan comes there and waits: then it is tried
// again.
void Coordinator::AdvanceFrontier(Scanner* scanner) {
  if (scanner->covered) return;
  scanner->frontier = std::max(scanner->frontier, scanner->pos);
  while (const Chunk* chunk = cache_.Find(scanner->frontier)) {
    if (!chunk->doomed && !Serves(*chunk, *scanner)) return;
    if (chunk->last_key >= scanner->last) {
      scanner->covered = true;
      return;
    }
    scanner->frontier = chunk->last_key + 1;
  }
}

Coordinator::Step Coordinator::PlanNext(std::unique_lock<std::mutex>* lock) {
  if (share_ != nullptr) cache_.SetLimit(share_->LimitBytes());
  FitLimit();
  Look();
  NextLoad load;
  if (!ChooseLoad({scan_views_, chunk_views_, cache_.pool().limit()}, &load)) {
    insist_time_ = Clock::time_point();
    return Step::kNothing;
  }
  if (!loader_.Start().ok()) return GiveUp(load);
  if (Chunk* chunk = cache_.Find(load.key)) return Revalidate(load, chunk, lock);
  return LoadChunk(load, lock);
}

// The chunk was cut before some scan began that wants it. It serves that scan as well when the
// index still says the same: a slot's value never changes.
Coordinator::Step Coordinator::Revalidate(const NextLoad& load, Chunk* chunk,
                                          std::unique_lock<std::mutex>* lock) {
  if (chunk->doomed) {
    Remove(chunk);
    return Step::kMore;
  }
  bool still_true = chunk->cut >= load.begin;
  if (!still_true) {
    cache_.Pin(chunk);
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
      Remove(chunk);
    }
    cache_.Unpin(chunk);
  }
  if (still_true) Deliver(chunk);
  return Step::kMore;
}

Coordinator::Step Coordinator::LoadChunk(const NextLoad& load, std::unique_lock<std::mutex>* lock) {
  ChunkBuilder::Request request;
  request.key = load.key;
  request.last_wanted = load.last;
  cache_.FreeRange(load.key, &request.low, &request.high);
  request.max_blocks = load.max_blocks;
  lock->unlock();
  const ChunkBuilder::Outline outline = builder_.Plan(request);
  lock->lock();
  // Before the chunk is built, because that takes long, and again for what it turns out to need.
  if (!MakeRoom(load, outline.block_count, lock)) return HandleShortage(load, outline.block_count);
  Chunk* chunk = BuildChunk(request, outline, lock);
  if (chunk == nullptr) return GiveUp(load);
  const uint32_t block_count = ChunkBuilder::BlocksFor(chunk->plan.place_count);
  if (!MakeRoom(load, block_count, lock) || !PlaceChunk(chunk, block_count)) {
    cache_.Unpin(chunk);
    return HandleShortage(load, block_count);
  }
  insist_time_ = Clock::time_point();
  load_count_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  Deliver(chunk);
  chunk->doomed = !chunk->collect_status.ok();
  if (chunk->reads_left == 0) {
    chunk->SetReady();
    cache_.Unpin(chunk);
  }
  return Step::kMore;
}

// Pinned; null when memory for it is refused.
Chunk* Coordinator::BuildChunk(const ChunkBuilder::Request& request,
                               const ChunkBuilder::Outline& outline,
                               std::unique_lock<std::mutex>* lock) {
  Chunk* chunk = nullptr;
  try {
    chunk = cache_.NewChunk();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  cache_.Pin(chunk);
  bool built = false;
  lock->unlock();
  try {
    builder_.Build(request, outline, chunk);
    built = true;
  } catch (const std::bad_alloc&) {
  }
  lock->lock();
  if (built) return chunk;
  cache_.Unpin(chunk);
  return nullptr;
}

// Gives the chunk its blocks, puts it into the cache and has it read.
bool Coordinator::PlaceChunk(Chunk* chunk, uint32_t block_count) {
  try {
    // What was free may have been booked for something else.
    if (!cache_.TakeBlocks(block_count, &chunk->blocks)) return false;
    chunk->Place(cache_.pool(), context_->options.verify_checksums);
    cache_.Insert(chunk);
    if (chunk->reads_left > 0) loader_.Add(chunk);
  } catch (const std::bad_alloc&) {
    if (chunk->cached) Remove(chunk);
    return false;
  }
  return true;
}

bool Coordinator::MakeRoom(const NextLoad& load, uint32_t block_count,
                           std::unique_lock<std::mutex>* lock) {
  const BlockPool& pool = cache_.pool();
  // Where fresh memory costs little it is taken before anything goes, elsewhere for what is wanted
  // soon, when nothing else is to be had.
  const bool fresh_first = loader_.fresh_memory_is_cheap();
  if (fresh_first && share_ != nullptr && block_count > pool.free_count() &&
      pool.limit() < pool.block_count()) {
    const uint64_t new_blocks = block_count - pool.used_free_count();
    // Without the mutex, because another user of the memory may be called.
    lock->unlock();
    (void)share_->Want(new_blocks * ChunkCache::kBookedBytes);
    lock->lock();
    cache_.SetLimit(share_->LimitBytes());
  }
  NextLoad patient = load;
  patient.insists = false;
  const bool soon =
      load.waited_for || load.ahead_blocks <= std::max(block_count, kLeastAheadBlocks);
  if (EvictFor(patient, block_count, fresh_first ? pool.free_count() : pool.used_free_count()) ||
      (!fresh_first && soon && EvictFor(patient, block_count, pool.free_count()))) {
    for (Scanner* scanner : attached_) {
      if (scanner->waiting && scanner->pos == load.key) scanner->insists = false;
    }
    return true;
  }
  return load.insists && EvictFor(load, block_count, pool.free_count());
}

// Whether so many blocks can be had beside those that are free, and in victims_ what goes for them.
bool Coordinator::FindRoom(const NextLoad& load, uint32_t block_count, uint32_t free_blocks) {
  victims_.clear();
  const uint32_t missing_blocks = block_count > free_blocks ? block_count - free_blocks : 0;
  if (missing_blocks == 0 && !cache_.full()) return true;
  Look();
  const ScanSituation situation{scan_views_, chunk_views_, cache_.pool().limit()};
  return ChooseVictims(situation, load, missing_blocks, cache_.full() ? 1 : 0, &victims_);
}

bool Coordinator::EvictFor(const NextLoad& load, uint32_t block_count, uint32_t free_blocks) {
  if (!FindRoom(load, block_count, free_blocks)) return false;
  for (const Victim& victim : victims_) Remove(viewed_chunks_[victim.chunk]);
  return true;
}

// Nothing can be read, or no memory be had.
Coordinator::Step Coordinator::GiveUp(const NextLoad& load) {
  if (!load.waited_for) return Step::kNothing;
  RefuseAll();
  return Step::kMore;
}

// There are not so many blocks for `load`, which is all that the planner would take from others.
Coordinator::Step Coordinator::HandleShortage(const NextLoad& load, uint32_t block_count) {
  if (!load.waited_for) return Step::kNothing;
  NextLoad insisted = load;
  insisted.insists = true;
  if (load.insists || !FindRoom(insisted, block_count, cache_.pool().free_count())) {
    RecallLarge();
    return GiveUp(load);
  }
  const auto now = Clock::now();
  if (insist_time_ == Clock::time_point()) insist_time_ = now + kPatience;
  if (now < insist_time_) return Step::kNothing;
  insist_time_ = Clock::time_point();
  for (Scanner* scanner : attached_) scanner->insists = scanner->insists || scanner->waiting;
  RecallLarge();
  return Step::kMore;
}

// Memory is short because of what scans hold: those leave their chunks that are in one larger than
// its share, and none is doubled any more.
void Coordinator::RecallLarge() {
  for (Scanner* scanner : attached_) scanner->doublings = 0;
  Look();
  const uint32_t max_blocks = ChunkBlocks({scan_views_, chunk_views_, cache_.pool().limit()});
  for (Chunk* chunk : viewed_chunks_) {
    if (chunk->pins == 0 || chunk->reads_left > 0 || chunk->blocks.size() <= max_blocks) continue;
    // Relaxed: to be seen some time.
    chunk->recalled.store(true, std::memory_order_relaxed);
    Remove(chunk);
  }
}

void Coordinator::RefuseAll() {
  for (Scanner* scanner : attached_) {
    if (!scanner->waiting) continue;
    scanner->waiting = false;
    scanner->answered.notify_one();
  }
}

// Gives up what the cache holds above its limit, as far as scans allow.
void Coordinator::FitLimit() {
  if (cache_.FitLimit()) return;
  Look();
  RankVictims({scan_views_, chunk_views_, cache_.pool().limit()}, &victims_);
  for (const Victim& victim : victims_) {
    Remove(viewed_chunks_[victim.chunk]);
    if (cache_.FitLimit()) return;
  }
}

void Coordinator::Remove(Chunk* chunk) {
  for (Scanner* scanner : attached_) {
    if (scanner->finishing || scanner->pos > chunk->last_key) continue;
    if (scanner->covered ? chunk->first_key <= scanner->last
                         : chunk->first_key < scanner->frontier) {
      scanner->covered = false;
      scanner->frontier = std::max(scanner->pos, chunk->first_key);
    }
  }
  cache_.Remove(chunk);
}

void Coordinator::Deliver(Chunk* chunk) {
  for (Scanner* scanner : attached_) {
    if (scanner->waiting && scanner->pos >= chunk->first_key && scanner->pos <= chunk->last_key &&
        Serves(*chunk, *scanner)) {
      Give(scanner, chunk);
      scanner->waiting = false;
      scanner->answered.notify_one();
    }
  }
}

void Coordinator::Give(Scanner* scanner, Chunk* chunk) {
  cache_.Pin(chunk);
  use_count_.fetch_add(1, std::memory_order_relaxed);  // written under the mutex
  scanner->chunk = chunk;
  if (chunk->last_key >= scanner->last) {
    scanner->finishing = true;
  } else {
    scanner->pos = chunk->last_key + 1;
  }
}

// What scans call, each from its own thread.

Chunk* Coordinator::Next(Scanner* scanner, uint64_t pos) {
  std::unique_lock lock(mutex_);
  const bool goes_on = scanner->chunk != nullptr;
  if (goes_on) LetGo(scanner);
  scanner->pos = pos;
  if (!scanner->attached && !Attach(scanner)) return nullptr;
  Chunk* chunk = cache_.Find(pos);
  const bool served = chunk != nullptr && Serves(*chunk, *scanner);
  const bool must_wait = !served || !chunk->ready();
  if (goes_on && must_wait) scanner->doublings = std::min(scanner->doublings + 1, kMaxDoublings);
  if (served) {
    // The first one in a chunk has less before it now.
    if (chunk->pins == 0) Wake();
    Give(scanner, chunk);
    return chunk;
  }
  scanner->waiting = true;
  scanner->wait_number = ++wait_count_;
  Wake();
  scanner->answered.wait(lock, [scanner] { return !scanner->waiting; });
  return scanner->chunk;
}

void Coordinator::Condemn(Scanner* scanner) {
  std::lock_guard lock(mutex_);
  scanner->chunk->doomed = true;
}

void Coordinator::Leave(Scanner* scanner) {
  std::lock_guard lock(mutex_);
  if (scanner->chunk != nullptr) LetGo(scanner);
  if (!scanner->attached) return;
  *std::find(attached_.begin(), attached_.end(), scanner) = attached_.back();
  attached_.pop_back();
  Wake();
}

void Coordinator::ShrinkTo(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  cache_.SetLimit(bytes);
  FitLimit();
}

bool Coordinator::Attach(Scanner* scanner) {
  try {
    const size_t count = attached_.size() + 1;
    if (scan_views_.capacity() < count) scan_views_.reserve(2 * count);
    attached_.push_back(scanner);
  } catch (const std::bad_alloc&) {
    return false;
  }
  scanner->attached = true;
  scanner->frontier = scanner->pos;
  return true;
}

void Coordinator::LetGo(Scanner* scanner) {
  // The chunk of nobody may go.
  if (cache_.Unpin(scanner->chunk)) Wake();
  scanner->chunk = nullptr;
}

void Coordinator::Wake() {
  woken_ = true;
  if (asleep_) work_.notify_one();
}

}  // namespace engine_race
