// The cost of seeks that pass what is not there, and of walks over keys in a paged index.
//
// The stores have keys only, or a few values. Seeks and walks run on the caller's thread.
#ifndef HARNESS_CLAIMS_SCAN_SEEKS_H_
#define HARNESS_CLAIMS_SCAN_SEEKS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

// The shape of a comparison of scans.
struct ScanShape {
  std::string dir;  // new stores are made in here; the caller removes them
  uint64_t key_count = 0;
  uint32_t round_count = 1;
  double seconds = 1;  // of each timed run
  uint64_t seed = 1;
};

// Claims, and the figures of which others are the ratios.
inline constexpr char kSparseSeek[] = "seek over few keys, 1024 buckets, us";
inline constexpr char kSparseSeekWide[] = "seek over few keys, 65536 buckets, us";
inline constexpr char kSeekAfterDeletes[] = "seek_after_deletes_us";
inline constexpr char kPagedKeyWalk[] = "paged_key_walk_mkeys";

// Notes the time of a seek over few keys, in stores of 1024 and of 65536 buckets. Beside it, notes
// that of a range over all of them.
Status CompareSparseSeeks(const ScanShape& shape, ClaimRounds* rounds);
// Deletes the lower half of the keys. Notes the time of the first seek to the first key that is
// left, and that of seeks after many others.
Status SeekAfterDeletes(const ScanShape& shape, ClaimRounds* rounds);
// Walks over all keys by an iterator, forwards and backwards. The index has no memory. Notes
// millions of keys a second; the slower direction is the claim.
Status WalkPagedKeys(const ScanShape& shape, ClaimRounds* rounds);

// The cost of a load for the board of the shared pass, without its reads.
//
// The board is the engine's. Chunks have one buffer each, whose memory is never touched. Scans lie
// far apart, and each load needs a victim.

// The claim, in microseconds a load.
inline constexpr char kBoardCost[] = "board_cost_64k_us";

struct BoardCostShape {
  uint32_t chunk_count = 65536;
  uint32_t scan_count = 64;
  uint32_t load_count = 20000;  // of each timed run
  uint32_t round_count = 1;
};

// Notes the time of a load on a full board of `chunk_count` chunks. Beside it, notes those of a
// 64th of the chunks, and of one scan. kOutOfMemory: there is no address space for the chunks.
Status MeasureBoardCost(const BoardCostShape& shape, ClaimRounds* rounds);

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SCAN_SEEKS_H_
