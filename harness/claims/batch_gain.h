// The gain of batches over single writes, with one thread: in memory, and durably on a disk.
//
// Each side fills a fresh store with the same records in the same order; sides alternate. A batch's
// rate includes putting the records into it. Not thread-safe.
#ifndef HARNESS_CLAIMS_BATCH_GAIN_H_
#define HARNESS_CLAIMS_BATCH_GAIN_H_

#include <cstdint>
#include <string>

#include "harness/measure/claim_rounds.h"

namespace harness {

struct BatchGainConfig {
  std::string memory_dir;  // on tmpfs; empty and writable, as the next one
  std::string disk_dir;
  uint32_t batch_records = 128;
  uint64_t memory_records = 128 * 1024;
  uint64_t durable_writes = 2000;          // single ones
  uint64_t durable_batch_records = 25600;  // in batches
  uint32_t round_count = 15;
  uint32_t durable_round_count = 5;
  uint64_t seed = 1;
};

inline constexpr char kBatchGain[] = "batch_gain";
inline constexpr char kBatchDurableGain[] = "batch_durable_gain";

// Notes both claims and the rates behind them, round by round. Returns what has failed; empty when
// nothing has.
std::string MeasureBatchGain(const BatchGainConfig& config, ClaimRounds* rounds);

}  // namespace harness

#endif  // HARNESS_CLAIMS_BATCH_GAIN_H_
