// One of several users' share of a memory budget, and that user as the other ones see it.
//
// A user books memory before it takes it, and cancels the booking after it has given the memory
// back. So bookings are never less than the memory in use. The limit moves with what others book.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_BASE_MEMORY_SHARE_H_
#define ENGINE_RACE_BASE_MEMORY_SHARE_H_

#include <cstdint>

namespace engine_race {

class MemoryShare {
 public:
  // How much may be booked in all, as of now. A few loads.
  virtual uint64_t LimitBytes() const noexcept = 0;
  // Books `bytes` more. False, and nothing is booked, where that is above the limit.
  virtual bool Book(uint64_t bytes) noexcept = 0;
  virtual void Cancel(uint64_t bytes) noexcept = 0;
  // Reports that the user wants `bytes` more than the limit allows. The share may make another user
  // give memory up meanwhile, by a call of MemoryUser::ShrinkTo from this thread. True when the
  // limit allows `bytes` more afterwards.
  virtual bool Want(uint64_t bytes) noexcept = 0;

 protected:
  ~MemoryShare() = default;
};

class MemoryUser {
 public:
  // How many times the memory that it holds was used so far.
  virtual uint64_t UseCount() const noexcept = 0;
  // Gives memory up, if it can, until no more than `bytes` are booked, and cancels its booking.
  // Takes no lock that is held during a call of MemoryShare::Want.
  virtual void ShrinkTo(uint64_t bytes) noexcept = 0;

 protected:
  ~MemoryUser() = default;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_MEMORY_SHARE_H_
