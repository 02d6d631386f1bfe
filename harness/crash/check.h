// Compares what the store gives with what the oracle allows.
//
// Thread safety: every const call from any thread.
#ifndef HARNESS_CRASH_CHECK_H_
#define HARNESS_CRASH_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/store.h"
#include "harness/crash/oracle.h"
#include "harness/crash/shared.h"

namespace engine_race::crash {

// The 4096 bytes of a version of a key: words 0 and 1 name them, every other word depends on both,
// on its place and on the store.
void MakeValue(const Oracle& oracle, uint32_t key_index, uint32_t version, char* value);

class Checker {
 public:
  // With `settled`, nobody writes any more: what is found is observed, so that whoever looks again
  // must find the same.
  Checker(Store* store, Oracle* oracle, Report* report, bool settled)
      : store_(store), oracle_(oracle), report_(report), settled_(settled) {}

  // One Read of one key. `buffer` is the caller's, kept between calls.
  void CheckRead(uint32_t key_index, std::string* buffer) const;

  // One Range over the keys of ranks [first, last), bounds included as the store sees them:
  // order, phantoms, values, and that what is not visited may be absent. With `open_bounds` the
  // bounds are empty strings, and the ranks must be all.
  void CheckRange(uint32_t first_rank, uint32_t last_rank, bool open_bounds) const;

 private:
  struct RangeState;
  void Visit(RangeState* state, std::string_view key, std::string_view value) const;
  void Judge(const char* call, uint32_t key_index, uint32_t floor, uint32_t version) const;
  void ParseAndJudge(const char* call, uint32_t key_index, uint32_t floor,
                     std::string_view value) const;

  Store* store_;
  Oracle* oracle_;
  Report* report_;
  bool settled_;
};

}  // namespace engine_race::crash

#endif  // HARNESS_CRASH_CHECK_H_
