#include "engine_race/c_handles.h"

#include <pthread.h>

#include <chrono>
#include <thread>

namespace engine_race::c_api {
namespace {

constexpr std::chrono::microseconds kPoll{100};
constexpr char kInherited[] = "a forked child cannot use the store of its parent";

// The store that was closed last. It leads to those closed before, so that leak checkers find all.
constinit std::atomic<engine_race_store*> closed_stores{nullptr};

void Insert(Link* link, Link* before) {
  link->next = before;
  link->previous = before->previous;
  before->previous->next = link;
  before->previous = link;
}

void Remove(Link* link) {
  link->previous->next = link->next;
  link->next->previous = link->previous;
  link->previous = link->next = link;
}

void ReleaseParts(Shard* shard) {
  const std::lock_guard lock(shard->mutex);
  while (shard->parts.next != &shard->parts) {
    auto* const part = static_cast<Part*>(shard->parts.next);
    part->Release();
    Remove(part);
  }
}

}  // namespace

constinit std::atomic<uint32_t> fork_count{0};

Status CountForks() {
  // Two threads may both get through. Forked children count twice then, which does no harm.
  // Relaxed: it guards nothing.
  static constinit std::atomic<bool> counts{false};
  if (counts.load(std::memory_order_relaxed)) return Status::Ok();
  const auto count = [] { fork_count.fetch_add(1, std::memory_order_relaxed); };
  if (::pthread_atfork(nullptr, nullptr, count) != 0) {
    return Status::OutOfMemory("the system has refused pthread_atfork");
  }
  counts.store(true, std::memory_order_relaxed);
  return Status::Ok();
}

namespace {

// Child handlers run in the order in which they were registered. So calls in a handler of the
// program's own are refused, too. If this fails, the next opening tries again.
[[gnu::constructor]] void CountForksFromTheStart() { static_cast<void>(CountForks()); }

}  // namespace

int StoreCall::Refused() const {
  if (store_ == nullptr) return NullArgument();
  return BadArgument(store_->IsInherited() ? kInherited : "the store is closed");
}

void StoreCall::Add(Part* part) const noexcept {
  const std::lock_guard lock(shard_->mutex);
  part->shard = shard_;
  Insert(part, &shard_->parts);
}

int Close(engine_race_store* store) {
  if (store == nullptr) return ENGINE_RACE_OK;
  if (store->IsInherited()) return BadArgument(kInherited);
  // Sequentially consistent, with the counts: see Enter. Of two threads that close, one finds it
  // open.
  if (store->is_closed.exchange(true, std::memory_order_seq_cst)) {
    return BadArgument("the store is closed, or another thread is closing it");
  }
  for (const Shard& shard : store->shards) {
    // Also acquire: what the calls did comes before what follows.
    while (shard.call_count.load(std::memory_order_seq_cst) != 0) {
      std::this_thread::sleep_for(kPoll);
    }
  }
  // No call is under way that could add another part.
  for (Shard& shard : store->shards) ReleaseParts(&shard);
  store->store.reset();
  // Relaxed: nothing reads the list.
  store->closed_before = closed_stores.exchange(store, std::memory_order_relaxed);
  return ENGINE_RACE_OK;
}

void Free(Part* part) noexcept {
  // In a forked child its view belongs to the engine of the parent, and the mutex may be locked.
  if (part == nullptr || part->store->IsInherited()) return;
  {
    // Close releases parts under the same mutex, so it waits for this.
    const std::lock_guard lock(part->shard->mutex);
    part->Release();
    Remove(part);
  }
  delete part;
}

}  // namespace engine_race::c_api
