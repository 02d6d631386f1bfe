#include "engine_race/base/fork_mark.h"

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace engine_race {

Status ForkMark::Make(ForkMark* mark) {
  ForkMark made;
  made.owner_ = ::getpid();
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &made.page_));
  made.is_emptied_ = ::madvise(made.page_.data(), made.page_.size(), MADV_WIPEONFORK) == 0;
  *made.page_.data() = 1;
  made.flag_ = new (made.page_.data() + alignof(std::max_align_t)) std::atomic<bool>(false);
  *mark = std::move(made);
  return Status::Ok();
}

}  // namespace engine_race
