// A reference as the index keeps it: a word that leads to a slot or, while its value is hot, to a
// frame.
//
// Under the bucket's lock held shared, the words change only by Exchange: swizzling, cooling and
// eviction. Under the lock held exclusively, a thread may Store words and move them. Readers load
// words under the shared lock, or without a lock while no thread stores them.
//
// Thread safety: Load and Exchange from any thread. Store and copies exclude all other calls.
#ifndef ENGINE_RACE_INDEX_REF_WORD_H_
#define ENGINE_RACE_INDEX_REF_WORD_H_

#include <atomic>

#include "engine_race/index/value_ref.h"

namespace engine_race {

class RefWord {
 public:
  ValueRef Load() const {
    // Sequentially consistent: pairs with Exchange and with the entry of readers into the epoch. An
    // evictor takes the frame out of the word and then looks which readers are inside. A reader
    // enters and then loads the word. So the evictor sees the reader and waits, or the reader sees
    // that the frame is gone. Also acquire: the frame was filled before the word led to it.
    return Word().load(std::memory_order_seq_cst);
  }
  // Stores `next` if the word still is *seen. Otherwise false, and *seen is the word's content.
  bool Exchange(ValueRef* seen, ValueRef next) {
    // Sequentially consistent: pairs with Load. Also release: the frame is filled and its slot is
    // noted before the word leads to it.
    return Word().compare_exchange_strong(*seen, next, std::memory_order_seq_cst);
  }
  void Store(ValueRef ref) { ref_ = ref; }

 private:
  // std::atomic_ref cannot refer to a const object. A load changes nothing.
  std::atomic_ref<ValueRef> Word() const {
    return std::atomic_ref<ValueRef>(const_cast<ValueRef&>(ref_));
  }

  alignas(std::atomic_ref<ValueRef>::required_alignment) ValueRef ref_;
};
static_assert(sizeof(RefWord) == 8);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_REF_WORD_H_
