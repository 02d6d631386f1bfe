// Compares the store's answers with those that the oracle allows.
//
// Thread safety: every const call from any thread.
#ifndef HARNESS_CRASH_CHECK_H_
#define HARNESS_CRASH_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine_race/store.h"
#include "harness/crash/oracle.h"
#include "harness/crash/shared.h"

namespace engine_race::crash {

// The least size of a value that names key and version.
inline constexpr uint32_t kLeastValueBytes = 16;

// Makes the bytes of a version of a key. Words 0 and 1 name key and version. Every other word
// depends on key, version, its position and the store.
void MakeValue(const Oracle& oracle, uint32_t key_index, uint32_t version, std::string* value);

// The memory that a child shares with its parent, and the shape of the store.
struct Trial {
  const Shape& shape;
  Oracle& oracle;
  Report& report;
};

class Checker {
 public:
  // With `settled`, nobody writes any more: each version found is noted in the oracle, and later
  // checks must find the same.
  Checker(Store* store, const Trial& trial, bool settled)
      : store_(store),
        value_bytes_(trial.shape.geometry.value_bytes),
        oracle_(&trial.oracle),
        report_(&trial.report),
        settled_(settled) {}

  // Checks one Read of one key. `buffer` holds the value; callers reuse it between calls.
  void CheckRead(uint32_t key_index, std::string* buffer) const;

  // Checks one Range over the keys of ranks [first, last): order, phantoms and values, and that
  // keys which are not visited may be absent. With `open_bounds` the bounds are empty strings, and
  // the ranks must be all.
  void CheckRange(uint32_t first_rank, uint32_t last_rank, bool open_bounds) const;

 private:
  struct RangeState;
  void Visit(RangeState* state, std::string_view key, std::string_view value) const;
  void Judge(const char* call, uint32_t key_index, uint32_t floor, uint32_t version) const;
  void ParseAndJudge(const char* call, uint32_t key_index, uint32_t floor,
                     std::string_view value) const;

  Store* store_;
  uint32_t value_bytes_;
  Oracle* oracle_;
  Report* report_;
  bool settled_;
};

}  // namespace engine_race::crash

#endif  // HARNESS_CRASH_CHECK_H_
