#include "engine_race/log/write_latch.h"

#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/log/failure.h"

namespace engine_race {

WriteLatch::WriteLatch(const LogFn& log, bool read_only)
    : log_(log), read_only_(read_only), latched_(read_only) {
  if (!read_only) return;
  status_ = Status::InvalidArgument("the store is open for reading only: Options::read_only");
}

void WriteLatch::LatchIfLasting(const Status& failure) noexcept {
  if (!CanBeTriedAgain(failure)) Latch(failure);
}

// The latch takes effect before the failure is put into words, for which there may be no memory.
void WriteLatch::Latch(const Status& failure) noexcept {
  // Release pairs with the acquire in latched().
  latched_.store(true, std::memory_order_release);
  const Status worded = Guarded([&] {
    Status latched = failure.Reworded(Code::kIOError, "after " + failure.message());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (status_.ok()) status_ = std::move(latched);
    }
    const char* const effect = read_only_ ? "the store is open for reading only: "
                                          : "writing ends until the store is reopened: ";
    Log(log_, LogLevel::kError, effect + failure.ToString());
    return Status::Ok();
  });
  static_cast<void>(worded);
}

Status WriteLatch::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_.ok() ? Status(Code::kIOError, {}) : status_;
}

}  // namespace engine_race
