// A reference as the index keeps it: a word that leads to a slot or, while its value lies in a
// frame, to that.
//
// What the words of a bucket are is changed under the bucket's lock. Held shared, by exchange only:
// swizzling, cooling, eviction. Held exclusively, plainly: writes, and whatever moves words. They
// are read with or without the lock, beside the former.
//
// Thread safety: Load and Exchange from any thread; Store and copies exclude everything.
#ifndef ENGINE_RACE_INDEX_REF_WORD_H_
#define ENGINE_RACE_INDEX_REF_WORD_H_

#include <atomic>

#include "engine_race/index/index.h"

namespace engine_race {

class RefWord {
 public:
  ValueRef Load() const {
    // Sequentially consistent: pairs with Exchange and with how readers enter the epoch of frames.
    // An evictor takes the frame out of the word, then looks who is inside; a reader goes inside,
    // then looks at the word. Either the evictor sees the reader and waits, or the reader sees that
    // the frame is gone. Also an acquire: what lies in a frame comes before its number.
    return Word().load(std::memory_order_seq_cst);
  }
  // True when the word was *seen; else *seen is what it was.
  bool Exchange(ValueRef* seen, ValueRef next) {
    // Sequentially consistent: pairs with Load, as above. Also a release: the frame, and where its
    // slot is noted, before its number.
    return Word().compare_exchange_strong(*seen, next, std::memory_order_seq_cst);
  }
  void Store(ValueRef ref) { ref_ = ref; }

 private:
  // There is no reference to a const object; a load changes nothing.
  std::atomic_ref<ValueRef> Word() const {
    return std::atomic_ref<ValueRef>(const_cast<ValueRef&>(ref_));
  }

  alignas(std::atomic_ref<ValueRef>::required_alignment) ValueRef ref_;
};
static_assert(sizeof(RefWord) == 8);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_REF_WORD_H_
