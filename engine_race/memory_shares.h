// How two users divide the memory that everything else leaves them: frames and the chunks of
// ranges. Frames hold blocks of the index and hot values. Where values have frames of their own,
// these and those of blocks divide the memory of frames likewise.
//
// Each user books memory before it takes it, first come first served. An eighth of the rest is kept
// for each, and at least what Keep says. When the rest falls because the index grows, the first
// user gives memory back first, down to its eighth, and then the second one does.
//
// Idle memory moves. A user that cannot grow says how much more it wants. The other user lies idle
// once such wants come to an eighth of the rest without a use of its memory. It then gives up what
// is wanted, until its memory is used again or it has no more than its eighth. A use is a hit or an
// admission of frames, or a chunk that a scan takes; no clock is looked at.
//
// Two users that divide the share of a user are together that user: they book there too.
//
// Thread safety: every call from any thread. The functions that the users call hold no lock while
// another user is called.
#ifndef ENGINE_RACE_MEMORY_SHARES_H_
#define ENGINE_RACE_MEMORY_SHARES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "engine_race/base/memory_share.h"

namespace engine_race {

class MemoryShares final : public MemoryUser {
 public:
  // The part of the rest that each keeps: one in this many.
  static constexpr uint64_t kLeastFraction = 8;

  // The memory to be divided, as of now; called by any thread, does not wait.
  using RestFn = std::function<uint64_t()>;

  explicit MemoryShares(RestFn rest);
  // Divides `whole`, which outlives it.
  explicit MemoryShares(MemoryShare* whole);

  // At least so many bytes are kept for each from here on, whatever is left; before, nothing. To be
  // called before other threads know the shares.
  void Keep(uint64_t first_bytes, uint64_t second_bytes) {
    first_.set_min_bytes(first_bytes);
    second_.set_min_bytes(second_bytes);
  }

  MemoryShare* first() { return &first_; }
  MemoryShare* second() { return &second_; }
  // The user that is asked to give memory back. It outlives every other call.
  void SetFirstUser(MemoryUser* user) { first_.SetUser(user); }
  void SetSecondUser(MemoryUser* user) { second_.SetUser(user); }

  // Whether the rest has changed since Settle was last called: for callers that make it smaller.
  bool RestHasChanged() const noexcept {
    // Relaxed: what follows is decided under a mutex.
    return rest_() != settled_rest_.load(std::memory_order_relaxed);
  }
  // Has memory given back that the rest does not allow any more. Waits for that.
  void Settle() noexcept;

  // Of both users, as the user of a share that these divide.
  uint64_t UseCount() const noexcept override { return first_.UseCount() + second_.UseCount(); }
  void ShrinkTo(uint64_t bytes) noexcept override;

  // While it is held nothing is booked or cancelled, so that neither share takes memory that the
  // other one has given up meanwhile.
  [[nodiscard]] std::unique_lock<std::mutex> HoldBookings() const {
    return std::unique_lock(mutex_);
  }

 private:
  class Share final : public MemoryShare {
   public:
    Share(MemoryShares* shares, Share* other) : shares_(*shares), other_(*other) {}

    uint64_t LimitBytes() const noexcept override { return LimitOf(shares_.rest_()); }
    bool Book(uint64_t bytes) noexcept override;
    void Cancel(uint64_t bytes) noexcept override;
    bool Want(uint64_t bytes) noexcept override;

    void set_min_bytes(uint64_t bytes) { min_bytes_ = bytes; }
    // Release: pairs with the acquires in Want and Settle, which call the user.
    void SetUser(MemoryUser* user) { user_.store(user, std::memory_order_release); }
    // Has the user give up what is above its limit, where so much is to be divided.
    void Settle(uint64_t rest_bytes) noexcept;
    // Of its user; 0 without one.
    uint64_t UseCount() const noexcept;

   private:
    uint64_t LeastOf(uint64_t rest_bytes) const noexcept;
    uint64_t LimitOf(uint64_t rest_bytes) const noexcept;
    bool HasRoomFor(uint64_t bytes) const noexcept { return booked() + bytes <= LimitBytes(); }
    // Whether the other share lies idle, now that this one wants `bytes` more.
    bool OtherIsIdle(uint64_t other_use_count, uint64_t bytes, uint64_t rest_bytes) noexcept;
    // Relaxed: bookings change under the mutex; without it this is the state of a moment ago.
    uint64_t booked() const noexcept { return booked_bytes_.load(std::memory_order_relaxed); }

    MemoryShares& shares_;
    Share& other_;
    uint64_t min_bytes_ = 0;
    std::atomic<MemoryUser*> user_{nullptr};
    std::atomic<uint64_t> booked_bytes_{0};
    // Under the mutex: the bytes that were wanted since the other share was last used.
    uint64_t wanted_bytes_ = 0;
    uint64_t other_use_count_ = 0;
  };

  const RestFn rest_;
  MemoryShare* const whole_ = nullptr;  // null: nothing is booked elsewhere
  mutable std::mutex mutex_;
  std::mutex settle_mutex_;
  std::atomic<uint64_t> settled_rest_{0};
  Share first_;
  Share second_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_MEMORY_SHARES_H_
