// The cost of a load for the board of the shared pass, without its reads.
//
// The board is the engine's. Chunks have one buffer each, whose memory is never touched. Scans lie
// far apart, and each load needs a victim.
#ifndef HARNESS_CLAIMS_BOARD_COST_H_
#define HARNESS_CLAIMS_BOARD_COST_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

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

#endif  // HARNESS_CLAIMS_BOARD_COST_H_
