#include "engine_race/scan/coordinator.h"

#include <algorithm>
#include <new>

namespace engine_race {

namespace {

// A scan that keeps others waiting is given this long on top of four usual visits of its chunk.
constexpr auto kPatience = std::chrono::milliseconds(100);
// Nobody waits longer than this for memory.
constexpr auto kMaxShortage = std::chrono::seconds(1);

// Chunks have at least one read each, and reads waiting or in flight are bounded by far less.
constexpr size_t kMaxLoading = 1024;

// So much, or one chunk, is read ahead even into fresh memory, whatever that costs.
constexpr uint32_t kLeastAheadBlocks = 16 * 1024 * 1024 / ChunkCache::kBlockBytes;
// So much but no more than a part of the memory, or one chunk, is read ahead in place of chunks
// kept for the next pass.
constexpr uint32_t kMaxAheadShare = 4;
constexpr uint32_t kMaxAheadBlocks = 64 * 1024 * 1024 / ChunkCache::kBlockBytes;

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
      lock.lock();
      Publish(loaded_);
      loaded_.clear();
    } else if (step == Step::kNothing && !woken_ && !stop_) {
      asleep_ = true;
      if (short_since_ == ScanClock::time_point()) {
        work_.wait(lock);
      } else {
        work_.wait_until(lock, wake_time_);
      }
      asleep_ = false;
    }
  }
}

void Coordinator::Publish(std::span<Chunk* const> loaded) {
  const auto now = ScanClock::now();
  for (Chunk* chunk : loaded) {
    chunk->ready_time = now;
    chunk->doomed = chunk->doomed || chunk->read_failed;
    chunk->SetReady();
    if (chunk->cached) {
      if (chunk->doomed) cache_.Remove(chunk, attached_);
    } else if (chunk->pins == 0) {
      cache_.Drop(chunk);
    }
  }
}

Coordinator::Step Coordinator::PlanNext(std::unique_lock<std::mutex>* lock) {
  cache_.FitShare(attached_);
  Candidate candidate;
  if (!Choose(&candidate)) {
    short_since_ = ScanClock::time_point();
    return Step::kNothing;
  }
  if (!loader_.Start().ok()) {
    if (!candidate.waiting) return Step::kNothing;
    Refuse(candidate.key);
    return Step::kMore;
  }
  if (Chunk* chunk = cache_.Find(candidate.key)) return Revalidate(candidate, chunk, lock);
  const bool planned = planned_ != nullptr && planned_->first_key <= candidate.key &&
                       planned_->last_key >= candidate.key && planned_->cut >= candidate.begin &&
                       planned_available_ <= cache_.available_blocks();
  return planned ? LoadPlanned(candidate, lock) : BuildPlanned(candidate, lock);
}

bool Coordinator::Choose(Candidate* candidate) {
  for (Scanner* scanner : attached_) AdvanceFrontier(scanner);
  return ChooseWaiting(candidate) || ChooseAhead(candidate);
}

// The one that has waited longest, with what others want at the same place.
bool Coordinator::ChooseWaiting(Candidate* candidate) {
  const Scanner* first = nullptr;
  for (const Scanner* scanner : attached_) {
    if (scanner->waiting && (first == nullptr || scanner->wait_number < first->wait_number)) {
      first = scanner;
    }
  }
  if (first == nullptr) return false;
  candidate->waiting = true;
  candidate->key = first->pos;
  candidate->last = first->last;
  candidate->begin = first->begin;
  for (const Scanner* scanner : attached_) {
    if (scanner->finishing || scanner->covered || scanner->frontier != first->pos) continue;
    candidate->last = std::max(candidate->last, scanner->last);
    candidate->begin = std::max(candidate->begin, scanner->begin);
  }
  return true;
}

// The one whose foremost scan has least before it.
bool Coordinator::ChooseAhead(Candidate* candidate) {
  ahead_.clear();
  for (const Scanner* scanner : attached_) {
    if (scanner->finishing || scanner->covered) continue;
    ahead_.push_back({scanner->frontier, scanner->pos, scanner->last, scanner->begin});
  }
  std::sort(ahead_.begin(), ahead_.end(), [](const Ahead& a, const Ahead& b) {
    return a.frontier != b.frontier ? a.frontier < b.frontier : a.pos > b.pos;
  });
  bool found = false;
  for (size_t i = 0; i < ahead_.size();) {
    Candidate here;
    here.key = ahead_[i].frontier;
    here.ahead_blocks = cache_.BlocksBetween(ahead_[i].pos, ahead_[i].frontier);
    for (; i < ahead_.size() && ahead_[i].frontier == here.key; ++i) {
      here.last = std::max(here.last, ahead_[i].last);
      here.begin = std::max(here.begin, ahead_[i].begin);
    }
    if (!found || here.ahead_blocks < candidate->ahead_blocks) *candidate = here;
    found = true;
  }
  return found;
}

void Coordinator::AdvanceFrontier(Scanner* scanner) {
  if (scanner->finishing || scanner->covered) return;
  scanner->frontier = std::max(scanner->frontier, scanner->pos);
  while (const Chunk* chunk = cache_.Find(scanner->frontier)) {
    if (!Serves(*chunk, *scanner)) return;
    if (chunk->last_key >= scanner->last) {
      scanner->covered = true;
      return;
    }
    scanner->frontier = chunk->last_key + 1;
  }
}

// The chunk was cut before some scan began that wants it. It serves that scan as well when the
// index still says the same: a slot's value never changes.
Coordinator::Step Coordinator::Revalidate(const Candidate& candidate, Chunk* chunk,
                                          std::unique_lock<std::mutex>* lock) {
  if (chunk->doomed) {
    cache_.Remove(chunk, attached_);
    return Step::kMore;
  }
  bool still_true = chunk->cut >= candidate.begin;
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
      cache_.Remove(chunk, attached_);
    }
    cache_.Unpin(chunk, false);
  }
  if (still_true) Deliver(chunk);
  return Step::kMore;
}

Coordinator::Step Coordinator::BuildPlanned(const Candidate& candidate,
                                            std::unique_lock<std::mutex>* lock) {
  DropPlanned();
  ChunkBuilder::Request request;
  request.key = candidate.key;
  request.last_wanted = candidate.last;
  cache_.FreeRange(candidate.key, &request.low, &request.high);
  request.available_blocks = cache_.available_blocks();
  planned_available_ = request.available_blocks;
  Chunk* chunk = nullptr;
  bool built = false;
  try {
    chunk = cache_.NewChunk();
    lock->unlock();
    builder_.Build(request, chunk);
    built = true;
  } catch (const std::bad_alloc&) {
  }
  if (!lock->owns_lock()) lock->lock();
  if (built) {
    planned_ = chunk;
    return Step::kMore;
  }
  if (chunk != nullptr) cache_.Drop(chunk);
  if (!candidate.waiting) return Step::kNothing;
  Refuse(candidate.key);
  return Step::kMore;
}

void Coordinator::DropPlanned() {
  if (planned_ != nullptr) cache_.Drop(planned_);
  planned_ = nullptr;
}

ChunkCache::Need Coordinator::NeedOf(const Candidate& candidate) {
  ChunkCache::Need need;
  need.first_key = planned_->first_key;
  need.block_count =
      (planned_->plan.place_count + ChunkCache::kBlockPlaces - 1) / ChunkCache::kBlockPlaces;
  need.waited_for = candidate.waiting;
  const uint32_t ahead = candidate.ahead_blocks;
  const uint32_t max_ahead = std::min(kMaxAheadBlocks, cache_.pool().limit() / kMaxAheadShare);
  need.may_replace_passed = ahead <= std::max(need.block_count, max_ahead);
  if (loader_.fresh_memory_is_cheap()) {
    need.fresh = ChunkCache::Fresh::kFirst;
  } else if (candidate.waiting || ahead <= std::max(need.block_count, kLeastAheadBlocks)) {
    need.fresh = ChunkCache::Fresh::kLast;
  } else {
    need.fresh = ChunkCache::Fresh::kNever;
  }
  return need;
}

// Before chunks are evicted for want of memory: true when there is more of it now.
bool Coordinator::WantBlocks(const ChunkCache::Need& need, std::unique_lock<std::mutex>* lock) {
  const BlockPool& pool = cache_.pool();
  if (share_ == nullptr || need.fresh != ChunkCache::Fresh::kFirst ||
      need.block_count <= pool.free_count() || pool.limit() == pool.block_count()) {
    return false;
  }
  const uint64_t new_blocks = need.block_count - pool.used_free_count();
  // Without the mutex, because another user of the memory may be called.
  lock->unlock();
  const bool gained = share_->Want(new_blocks * ChunkCache::kBookedBytes);
  lock->lock();
  return gained;
}

Coordinator::Step Coordinator::LoadPlanned(const Candidate& candidate,
                                           std::unique_lock<std::mutex>* lock) {
  const ChunkCache::Need need = NeedOf(candidate);
  if (WantBlocks(need, lock)) return Step::kMore;
  if (!cache_.MakeRoom(need, attached_)) return HandleShortage(candidate);
  short_since_ = ScanClock::time_point();
  Chunk* chunk = planned_;
  try {
    // What was free until now has been booked for something else: plan again.
    if (!cache_.TakeBlocks(need.block_count, &chunk->blocks)) return Step::kMore;
    chunk->Place(cache_.pool(), context_->options.verify_checksums);
    cache_.Insert(chunk);
    if (chunk->reads_left > 0) loader_.Add(chunk);
  } catch (const std::bad_alloc&) {
    if (chunk->cached) cache_.Remove(chunk, attached_);
    DropPlanned();
    if (candidate.waiting) Refuse(candidate.key);
    return candidate.waiting ? Step::kMore : Step::kNothing;
  }
  planned_ = nullptr;
  Deliver(chunk);
  chunk->doomed = !chunk->collect_status.ok();
  if (chunk->reads_left == 0) Publish({&chunk, 1});
  return Step::kMore;
}

// Some scan waits for memory that others hold.
Coordinator::Step Coordinator::HandleShortage(const Candidate& candidate) {
  if (!candidate.waiting) {
    short_since_ = ScanClock::time_point();
    return Step::kNothing;
  }
  // Chunks on their way will be visited and left.
  if (loader_.busy()) return Step::kNothing;
  const auto now = ScanClock::now();
  if (short_since_ == ScanClock::time_point()) short_since_ = now;
  wake_time_ = short_since_ + kMaxShortage;
  bool somebody_moves = false;
  bool detached = false;
  for (size_t i = attached_.size(); i > 0; --i) {
    Scanner* scanner = attached_[i - 1];
    if (scanner->chunk == nullptr) continue;
    const auto limit = std::max({short_since_, scanner->taken_time, scanner->chunk->ready_time}) +
                       Patience(*scanner);
    if (now >= limit) {
      cache_.MarkDetached(scanner->chunk);
      // Relaxed: the scanning thread only needs to see it some time; the mutex does the rest.
      scanner->detached.store(true, std::memory_order_relaxed);
      Unlist(scanner);
      detached = true;
    } else {
      somebody_moves = true;
      wake_time_ = std::min(wake_time_, limit);
    }
  }
  if (detached) return Step::kMore;
  if (somebody_moves && now < short_since_ + kMaxShortage) return Step::kNothing;
  short_since_ = ScanClock::time_point();
  Refuse(candidate.key);
  return Step::kMore;
}

ScanClock::duration Coordinator::Patience(const Scanner& scanner) const {
  const double visits_ns =
      kPatienceVisits * usual_ns_per_record_ * static_cast<double>(scanner.chunk->entries.size());
  return kPatience + std::chrono::nanoseconds(static_cast<int64_t>(visits_ns));
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
  scanner->taken_time = ScanClock::now();
  if (chunk->last_key >= scanner->last) {
    scanner->finishing = true;
  } else {
    scanner->pos = chunk->last_key + 1;
  }
}

void Coordinator::Refuse(uint64_t key) {
  for (size_t i = attached_.size(); i > 0; --i) {
    Scanner* scanner = attached_[i - 1];
    if (!scanner->waiting || scanner->pos != key) continue;
    Unlist(scanner);
    scanner->waiting = false;
    scanner->answered.notify_one();
  }
}

}  // namespace engine_race
