// Tells a forked child from the process that made the object.
//
// Thread-safe once made. Owner of its memory.
#ifndef ENGINE_RACE_BASE_FORK_MARK_H_
#define ENGINE_RACE_BASE_FORK_MARK_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"

namespace engine_race {

class ForkMark {
 public:
  // kOutOfMemory when the system refuses a page.
  static Status Make(ForkMark* mark);

  // A load where the kernel empties the page in children, which Linux does from 4.14 on; else a
  // system call.
  bool InChild() const {
    return is_emptied_ ? *page_.data() == 0 : owner_ != 0 && owner_ != ::getpid();
  }
  // A flag for the owner, false at first. Children find it false wherever the kernel empties the
  // page, so that one load tells whether the owner has set it and is this process.
  std::atomic<bool>& flag() const { return *flag_; }
  // The answer of every call of an object that belongs to the parent.
  Status CheckProcess() const {
    if (InChild()) [[unlikely]] {
      return Status::InvalidArgument("a forked child cannot use the store of its parent");
    }
    return Status::Ok();
  }

 private:
  Region page_;
  std::atomic<bool>* flag_ = nullptr;  // in the page
  bool is_emptied_ = false;
  pid_t owner_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_FORK_MARK_H_
