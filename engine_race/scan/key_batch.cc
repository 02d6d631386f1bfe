#include "engine_race/scan/key_batch.h"

#include <algorithm>

namespace engine_race {

void KeyBatch::Grow(const Index& index, bool backwards) noexcept {
  if (loaded_backwards_ != backwards) {
    ahead_.reset();
  } else if (room_ == kMaxKeys && ahead_ == nullptr) {
    ahead_ = index.TakeAhead();
  }
  room_ = loaded_backwards_ == backwards ? std::min(room_ * 2, kMaxKeys) : kFirstKeys;
  if (room_ <= kInlineKeys || many_keys_ != nullptr) return;
  many_keys_.reset(new (std::nothrow) uint64_t[kMaxKeys]);
  if (many_keys_ == nullptr) {
    room_ = kInlineKeys;
    return;
  }
  keys_ = many_keys_.get();
}

}  // namespace engine_race
