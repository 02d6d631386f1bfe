#include "harness/load/race_space.h"

#include "harness/load/store_basics.h"

namespace harness {

uint64_t RaceBytes(uint64_t record_count, bool has_write, bool has_mixed) {
  // A mixed phase overwrites about half as many records as there are, and what it overwrites keeps
  // its place. Chance decides how many, so all of them are counted.
  const uint64_t mixed_bytes = has_mixed ? record_count * engine_race::kValueBytes : 0;
  return (has_write ? StoreBytes(record_count) : 0) + mixed_bytes;
}

}  // namespace harness
