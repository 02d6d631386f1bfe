// The two ids of a store: the one that its files are known by, and the seed of its checksums.
//
// They differ in a clone alone. Its logs share blocks with those of its source, so its entries keep
// the seed of the source. The index root and the journal carry both ids. So the clone refuses those
// of its source, and the source those of the clone. A clone has no paths, so markers carry one id.
//
// Values; thread-safe.
#ifndef ENGINE_RACE_LOG_STORE_IDS_H_
#define ENGINE_RACE_LOG_STORE_IDS_H_

#include <cstdint>

namespace engine_race {

struct StoreIds {
  uint64_t store_id = 0;
  uint64_t seed_id = 0;
};

// Of a store that is no clone.
inline StoreIds OwnIds(uint64_t store_id) { return {store_id, store_id}; }

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_STORE_IDS_H_
