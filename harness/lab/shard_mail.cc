#include "harness/lab/shard_mail.h"

namespace engine_race::lab {

void Ticket::Done() {
  // Sequentially consistent, as is SayAsleep: either the worker sees the zero, or Nudge sees that
  // the worker sleeps. Also a release, for ready's acquire.
  if (pending_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  if (inbox_ != nullptr) return inbox_->Nudge();
  pending_.notify_one();
}

void Ticket::Wait() const {
  for (uint32_t spin = 0; spin < kSpins; ++spin) {
    if (ready()) return;
    SpinOnce();
  }
  // Acquire, here and in ready: pairs with Done.
  while (const uint32_t left = pending_.load(std::memory_order_acquire)) {
    pending_.wait(left, std::memory_order_acquire);
  }
}

void ShardInbox::Push(Mail* mail) {
  // Relaxed: the exchange below checks the value.
  Mail* head = head_.load(std::memory_order_relaxed);
  do {
    mail->next = head == &asleep_ ? nullptr : head;
    // Release: pairs with TakeAll's acquire. Relaxed on failure: nothing of the head is read.
  } while (!head_.compare_exchange_weak(head, mail, std::memory_order_release,
                                        std::memory_order_relaxed));
  if (head == &asleep_) Wake();
}

void ShardInbox::Nudge() {
  Mail* asleep = &asleep_;
  // Sequentially consistent: see Ticket::Done. Usually the worker is awake, and the line is only
  // read.
  if (head_.load(std::memory_order_seq_cst) != asleep) return;
  if (head_.compare_exchange_strong(asleep, nullptr, std::memory_order_seq_cst)) Wake();
}

void ShardInbox::Wake() {
  // Acquire and release: pairs with Sleep, and comes before the search for waiters.
  wakes_.fetch_add(1, std::memory_order_acq_rel);
  wakes_.notify_one();
}

Mail* ShardInbox::TakeAll() {
  // Relaxed: only decides whether an exchange is worth its cost.
  if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // Acquire: pairs with Push's release. The head is a mail and not the sentinel: only this worker
  // sets that.
  Mail* newest = head_.exchange(nullptr, std::memory_order_acquire);
  Mail* oldest = nullptr;
  while (newest != nullptr) {
    Mail* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

bool ShardInbox::SayAsleep() {
  Mail* none = nullptr;
  // Sequentially consistent: see Ticket::Done.
  return head_.compare_exchange_strong(none, &asleep_, std::memory_order_seq_cst);
}

void ShardInbox::SayAwake() {
  Mail* asleep = &asleep_;
  // A late waker of an earlier sleep leaves the sentinel there. Relaxed: the exchange fails when a
  // mail has been pushed, which TakeAll takes later.
  head_.compare_exchange_strong(asleep, nullptr, std::memory_order_relaxed);
}

}  // namespace engine_race::lab
