#include "harness/experiments/l1/rounds.h"

#include <algorithm>
#include <map>

#include "harness/data/mix.h"
#include "harness/system/child_process.h"

namespace harness {

using engine_race::Status;

namespace {

// Throughputs of a round, by contender.
using RoundRates = std::map<std::string, double>;

double FastestOf(const RoundRates& rates, const std::vector<std::string>& names) {
  double fastest = 0;
  for (const std::string& name : names) {
    const auto found = rates.find(name);
    if (found != rates.end()) fastest = std::max(fastest, found->second);
  }
  return fastest;
}

}  // namespace

std::string L1Figure(const std::string& contender) { return contender + ", lookups a second"; }

Status RunL1Rounds(const L1RoundsShape& shape, const std::vector<L1Contender>& contenders,
                   const std::vector<L1Ratio>& ratios, ClaimRounds* rounds) {
  for (uint32_t round = 0; round < shape.round_count; ++round) {
    RoundRates rates;
    for (size_t i = 0; i < contenders.size() && !Interrupted(); ++i) {
      const L1Contender& contender = contenders[round % 2 == 0 ? i : contenders.size() - 1 - i];
      // Everybody's round begins at the same lookup.
      const L1RunShape run_shape{
          contender.thread_count, shape.seconds, shape.warming_seconds,
          AsBelow(MixAt(shape.seed, round), contender.lookups->chunk_count())};
      L1Run run;
      const Status status = contender.run
                                ? contender.run(run_shape, &run)
                                : RunLookups(*contender.lookups, run_shape, contender.answer, &run);
      if (!status.ok()) return Status(status.code(), contender.name + ": " + status.message());
      rates[contender.name] = run.lookups_per_second;
    }
    if (Interrupted()) break;
    for (const auto& [name, rate] : rates) rounds->Note(L1Figure(name), rate);
    for (const L1Ratio& ratio : ratios) {
      rounds->NoteRatio(ratio.name, FastestOf(rates, ratio.above), FastestOf(rates, ratio.below));
    }
  }
  return Status::Ok();
}

}  // namespace harness
