#include "harness/lab/extent_root.h"

#include <algorithm>
#include <utility>

namespace engine_race::lab {

void ExtentRoot::Build(std::vector<char> last_keys, uint32_t key_bytes) {
  last_keys_ = std::move(last_keys);
  key_bytes_ = key_bytes;
  count_ = static_cast<uint32_t>(last_keys_.size() / key_bytes);
  if (count_ > 0) {
    prefix_bytes_ =
        std::min(CommonPrefix(LastKey(0), LastKey(count_ - 1), key_bytes), key_bytes - 1);
  }
  words_.reserve(count_ + kCounted);
  for (uint32_t extent = 0; extent < count_; ++extent) {
    words_.push_back(WordAfter(LastKey(extent), key_bytes, prefix_bytes_));
  }
  words_.resize(count_ + kCounted, ~uint64_t{0});
}

}  // namespace engine_race::lab
