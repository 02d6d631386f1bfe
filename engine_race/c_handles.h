// The handles of the C API, and the answers of its calls. For the sources of the C API alone.
//
// The handle of a store outlives its closing. It is never freed, so a late call finds that the
// store is closed. Each call holds its store open by a StoreCall. Closing refuses later calls and
// waits for those that are under way.
//
// Snapshots and iterators are parts of a store, with memory of their own. Closing the store
// releases what they hold in the engine. The call that frees such a handle frees its memory.
//
// Thread safety: see include/engine_race_c.h.
#ifndef ENGINE_RACE_C_HANDLES_H_
#define ENGINE_RACE_C_HANDLES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "engine_race/base/log_queue.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/thread_number.h"
#include "engine_race/store.h"
#include "include/engine_race_c.h"

namespace engine_race::c_api {

// The forks between this process and the first one that opened a store. A forked child's number
// differs from that of its parent. A ForkMark takes a page for each store, and handles of closed
// stores are kept.
extern constinit std::atomic<uint32_t> fork_count;

// A place in a circular list; alone at first.
struct Link {
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Link* previous = this;
  Link* next = this;
};

// The calls of some of the threads, and the parts that these threads made.
struct alignas(64) Shard {
  std::atomic<uint64_t> call_count{0};
  std::mutex mutex;
  Link parts;  // under the mutex
};

// A snapshot or an iterator, in a list of its store until it is released.
struct Part : Link {
  explicit Part(engine_race_store* its_store) : store(its_store) {}
  virtual ~Part() = default;
  // Gives back what it holds in the engine, and does nothing the second time.
  virtual void Release() noexcept = 0;

  engine_race_store* const store;
  Shard* shard = nullptr;  // whose list has it
};

}  // namespace engine_race::c_api

struct engine_race_store {
  using Shard = engine_race::c_api::Shard;

  // Whether a parent of this process has opened it.
  bool IsInherited() const {
    // Relaxed: only a fork changes the number, and no other thread is there then.
    return forks != engine_race::c_api::fork_count.load(std::memory_order_relaxed);
  }

  // Begins a call. Null when the store cannot be used.
  Shard* Enter() {
    // Relaxed: keeps late calls from the counts. The load below decides.
    if (IsInherited() || is_closed.load(std::memory_order_relaxed)) [[unlikely]] {
      return nullptr;
    }
    Shard* const shard = &shards[engine_race::ThreadNumber() % shards.size()];
    // Sequentially consistent, both: Close changes is_closed and then looks at the counts. Either
    // it waits for this call, or this call is refused.
    shard->call_count.fetch_add(1, std::memory_order_seq_cst);
    if (!is_closed.load(std::memory_order_seq_cst)) [[likely]] {
      return shard;
    }
    Leave(shard);
    return nullptr;
  }
  static void Leave(Shard* shard) {
    // Release: pairs with the load in Close.
    shard->call_count.fetch_sub(1, std::memory_order_release);
  }

  const uint32_t forks = engine_race::c_api::fork_count.load(std::memory_order_relaxed);
  std::atomic<bool> is_closed{false};
  std::unique_ptr<engine_race::Store> store;  // until it is closed
  engine_race_store* closed_before = nullptr;
  // Each thread uses one of them, with few others.
  std::array<Shard, 16> shards;
};
struct engine_race_options {
  engine_race::Options options;
};
// Shared with the stores that log into it.
struct engine_race_log_queue {
  std::shared_ptr<engine_race::LogQueue> queue;
};
struct engine_race_snapshot : engine_race::c_api::Part {
  using Part::Part;
  void Release() noexcept override { snapshot.Release(); }

  engine_race::Snapshot snapshot;
};
struct engine_race_iterator : engine_race::c_api::Part {
  using Part::Part;
  void Release() noexcept override { iterator.Release(); }

  engine_race::Iterator iterator;
};

namespace engine_race::c_api {

// The code of a call. Keeps the message of a failure for the calling thread.
int Answer(const Status& status);
int BadArgument(const char* why);
int NullArgument();

// The defaults for null.
Options OptionsOf(const engine_race_options* options);

// The progress function that the calling thread has set, or an empty one.
ProgressFn CallersProgress();

// Copies a text into memory of malloc, which callers of C free.
Status CopyText(const std::string& text, char** copy);

// Whether a caller's structure can be used: it is no shorter than in version 0.9, which had
// `first_bytes`, and not absurdly long.
bool IsStructSize(size_t struct_bytes, size_t first_bytes);

// Has forked children count in fork_count. To be called before a store is opened.
Status CountForks();
int Close(engine_race_store* store);

// A call of a store, or of its part. The store is not closed while it lives.
class StoreCall {
 public:
  // Null is refused.
  explicit StoreCall(engine_race_store* store)
      : store_(store), shard_(store == nullptr ? nullptr : store->Enter()) {}
  explicit StoreCall(const Part* part) : StoreCall(part == nullptr ? nullptr : part->store) {}
  StoreCall(const StoreCall&) = delete;
  StoreCall& operator=(const StoreCall&) = delete;
  ~StoreCall() {
    if (shard_ != nullptr) engine_race_store::Leave(shard_);
  }

  bool ok() const { return shard_ != nullptr; }
  // The code of a call that is not ok(). Keeps its message.
  int Refused() const;
  Store* operator->() const { return store_->store.get(); }
  Store& operator*() const { return *store_->store; }
  // Has the store release the part when it is closed.
  void Add(Part* part) const noexcept;

 private:
  engine_race_store* const store_;
  Shard* const shard_;  // null: refused
};

// Frees a part. Null is fine.
void Free(Part* part) noexcept;

}  // namespace engine_race::c_api

#endif  // ENGINE_RACE_C_HANDLES_H_
