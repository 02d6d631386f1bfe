// How work comes to a core shard, and how whoever sent it learns that it is done.
//
// A mail is what one batch has for one worker: it goes into the worker's inbox with one atomic
// operation, whatever it holds, and is counted down from the sender's ticket with one more. Who has
// nothing to do sleeps in the kernel; nobody wakes who is not asleep.
//
// Thread safety: as said at each call.
#ifndef HARNESS_LAB_SHARD_MAIL_H_
#define HARNESS_LAB_SHARD_MAIL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "harness/lab/engine_names.h"

namespace lab {

class ShardClient;
class ShardInbox;
class ShardWorker;

// What one waiting thread still waits for. Lives as long as the shards do, so that the last one to
// count may touch it after the waiting thread has gone on.
class alignas(64) Ticket {
 public:
  // `inbox` is that of the worker that will wait; null for a thread that is none.
  explicit Ticket(ShardInbox* inbox) : inbox_(inbox) {}

  // Before the first mail goes out; nothing is pending.
  void Expect(uint32_t count) { pending_.store(count, std::memory_order_relaxed); }
  // One more, by who holds one that is not done.
  void ExpectMore() { pending_.fetch_add(1, std::memory_order_relaxed); }
  // From any thread: what was written before it is seen by who waits.
  void Done();
  // Acquire: pairs with Done.
  bool ready() const { return pending_.load(std::memory_order_acquire) == 0; }
  // By the thread that is no worker.
  void Wait() const;

 private:
  std::atomic<uint32_t> pending_{0};
  ShardInbox* const inbox_;
};

// Tickets of threads that are no workers, used again. Thread-safe.
class TicketPool {
 public:
  // kOutOfMemory.
  Status Take(Ticket** ticket);
  void GiveBack(Ticket* ticket);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Ticket>> tickets_;
  std::vector<Ticket*> free_;  // with room for all of them
};

// Gets of keys of one sub-table, one behind the other, as their payloads and statuses are. Belongs
// to who has the mail, until that is done.
struct ShardRun {
  uint32_t table = 0;
  uint32_t sub = 0;  // in the routes of the mail's version
  uint32_t count = 0;
  char* keys = nullptr;
  char* payloads = nullptr;
  Status* statuses = nullptr;
  uint32_t* places = nullptr;  // whose gets these are: they move with the keys
};

struct alignas(64) Mail {
  enum class Kind : uint8_t {
    kGets,
    kLook,  // done at once, between two mails
    kWork,  // done when the work before it is done
    kStop,
  };

  Mail* next = nullptr;
  Kind kind = Kind::kGets;
  bool passed_on = false;  // made by a worker; who answers it deletes it
  Ticket* ticket = nullptr;
  // Of kGets.
  uint64_t version = 0;
  ShardRun* runs = nullptr;
  uint32_t run_count = 0;
  ShardRun own_run;  // the only one of what is passed on
  // Of the others.
  const std::function<void(ShardWorker&)>* look = nullptr;
  const std::function<void(ShardClient&)>* work = nullptr;
};

class ShardInbox {
 public:
  // From any thread. False when it is closed: the mail is still the caller's.
  bool Push(Mail* mail);
  // From any thread: the worker looks at what it waits for, if it sleeps.
  void Nudge();

  // The rest by the worker alone.

  // Everything, the oldest first; null for nothing.
  Mail* TakeAll();
  // Until there is a mail or a nudge; not at all when `ready` says so.
  template <typename ReadyFn>
  void Sleep(const ReadyFn& ready) {
    // Relaxed: if a waker has been faster than the next line, that one fails.
    const uint32_t seen = wakes_.load(std::memory_order_relaxed);
    if (!SayAsleep()) return;
    if (!ready()) WaitForWake(seen);
    SayAwake();
  }
  // When it is empty: from then on nothing comes in.
  bool Close();

 private:
  bool SayAsleep();
  void SayAwake();
  void WaitForWake(uint32_t seen);
  void Wake();

  // Stand in head_ for states in which there is no mail.
  Mail asleep_;
  Mail closed_;
  alignas(64) std::atomic<Mail*> head_{nullptr};
  std::atomic<uint32_t> wakes_{0};
};

// For a moment, in which what is waited for usually comes.
inline constexpr uint32_t kSpins = 200;
inline void SpinOnce() { __builtin_ia32_pause(); }

}  // namespace lab

#endif  // HARNESS_LAB_SHARD_MAIL_H_
