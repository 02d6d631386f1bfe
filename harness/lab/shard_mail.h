// How work reaches a core shard, and how its sender learns that it is done.
//
// A mail carries the part of one batch that is for one worker. One atomic operation puts it into
// the worker's inbox, and one more counts it down from the sender's ticket. A thread that has
// nothing to do sleeps in the kernel. Only sleeping threads are woken.
//
// Thread safety: as said at each call.
#ifndef HARNESS_LAB_SHARD_MAIL_H_
#define HARNESS_LAB_SHARD_MAIL_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "harness/lab/engine_names.h"

namespace engine_race::lab {

class ShardClient;
class ShardInbox;

// The number of mails that one waiting thread still waits for. A ticket lives as long as the
// shards, so the thread that counts the last mail may touch it after the waiter has continued.
class alignas(64) Ticket {
 public:
  // `inbox` is that of the worker that will wait; null for another thread.
  explicit Ticket(ShardInbox* inbox) : inbox_(inbox) {}

  // Called before the first mail is sent, while nothing is pending.
  void Expect(uint32_t count) { pending_.store(count, std::memory_order_relaxed); }
  // From any thread. Release: the waiter sees all that was written before it.
  void Done();
  // Acquire: pairs with Done.
  bool ready() const { return pending_.load(std::memory_order_acquire) == 0; }
  // By a waiting thread that is not a worker.
  void Wait() const;

 private:
  std::atomic<uint32_t> pending_{0};
  ShardInbox* const inbox_;
};

// Gets of one table; their keys, payloads and statuses are arrays. Belongs to the thread that has
// the mail, until the mail is done.
struct ShardRun {
  uint32_t table = 0;
  uint32_t count = 0;
  char* keys = nullptr;
  char* payloads = nullptr;
  Status* statuses = nullptr;
  uint32_t* places = nullptr;  // indexes of the gets in the client's batch
};

struct alignas(64) Mail {
  enum class Kind : uint8_t {
    kGets,
    kWork,  // done when the work before it is done
    kStop,
  };

  Mail* next = nullptr;
  Kind kind = Kind::kGets;
  Ticket* ticket = nullptr;
  // Of kGets.
  uint32_t worker = 0;
  ShardRun* runs = nullptr;
  uint32_t run_count = 0;
  // Of kWork.
  const std::function<void(ShardClient&)>* work = nullptr;
};

class ShardInbox {
 public:
  // From any thread.
  void Push(Mail* mail);
  // From any thread. Wakes the worker if it sleeps, so that it checks its condition again.
  void Nudge();

  // The calls below are for the worker alone.

  // Takes all mails, the oldest first; null when there are none.
  Mail* TakeAll();
  // Sleeps until a mail or a nudge comes. Does not sleep when `ready` returns true.
  template <typename ReadyFn>
  void Sleep(const ReadyFn& ready) {
    // Relaxed: if a waker has been faster than the next line, that one fails.
    const uint32_t seen = wakes_.load(std::memory_order_relaxed);
    if (!SayAsleep()) return;
    // Acquire: pairs with Wake.
    if (!ready()) wakes_.wait(seen, std::memory_order_acquire);
    SayAwake();
  }

 private:
  bool SayAsleep();
  void SayAwake();
  void Wake();

  // A sentinel: head_ points to it while the worker sleeps.
  Mail asleep_;
  alignas(64) std::atomic<Mail*> head_{nullptr};
  std::atomic<uint32_t> wakes_{0};
};

// Turns of a spinning wait, in which most answers arrive.
inline constexpr uint32_t kSpins = 200;
inline void SpinOnce() { __builtin_ia32_pause(); }

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_SHARD_MAIL_H_
