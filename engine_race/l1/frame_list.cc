#include "engine_race/l1/frame_list.h"

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

void FrameList::Append(uint32_t frame) {
  ENGINE_RACE_ASSERT(frame < frames_.touched_count());
  FrameInfo& own = frames_.info(frame);
  ENGINE_RACE_ASSERT(own.state == State::kTaken || own.state == State::kHot ||
                     own.state == State::kOutside);
  own.state = state_;
  own.previous = last_;
  own.next = kNoFrame;
  if (last_ == kNoFrame) {
    first_ = frame;
  } else {
    frames_.info(last_).next = frame;
  }
  last_ = frame;
  ++count_;
}

void FrameList::Remove(uint32_t frame, State next) {
  FrameInfo& own = frames_.info(frame);
  ENGINE_RACE_ASSERT(own.state == state_ && count_ > 0);
  if (own.previous == kNoFrame) {
    first_ = own.next;
  } else {
    frames_.info(own.previous).next = own.next;
  }
  if (own.next == kNoFrame) {
    last_ = own.previous;
  } else {
    frames_.info(own.next).previous = own.previous;
  }
  --count_;
  own.state = next;
  ENGINE_RACE_ASSERT((count_ == 0) == (first_ == kNoFrame) && (count_ == 0) == (last_ == kNoFrame));
}

}  // namespace engine_race::l1
