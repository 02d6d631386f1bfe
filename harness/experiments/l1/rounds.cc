#include "harness/experiments/l1/rounds.h"

#include <algorithm>
#include <map>

#include "harness/data/mix.h"
#include "harness/system/child_process.h"

namespace harness {

using engine_race::Status;

namespace {

// The throughputs of a round, by contender.
using RoundRates = std::map<std::string, double>;

double FastestOf(const RoundRates& rates, const std::vector<std::string>& names) {
  double fastest = 0;
  for (const std::string& name : names) {
    const auto found = rates.find(name);
    if (found != rates.end()) fastest = std::max(fastest, found->second);
  }
  return fastest;
}

// Each contender's round begins at the same lookup.
Status RunContender(const L1RoundsShape& shape, uint32_t round, const L1Contender& contender,
                    RoundRates* rates) {
  const L1RunShape run_shape{contender.thread_count, shape.seconds, shape.warming_seconds,
                             AsBelow(MixAt(shape.seed, round), contender.lookups->chunk_count())};
  L1Run run;
  const Status status = contender.run
                            ? contender.run(run_shape, &run)
                            : RunLookups(*contender.lookups, run_shape, contender.answer, &run);
  if (!status.ok()) return Status(status.code(), contender.name + ": " + status.message());
  (*rates)[contender.name] = run.lookups_per_second;
  return Status::Ok();
}

}  // namespace

std::string L1Named(const std::string& step, uint32_t threads) {
  return step + ", " + std::to_string(threads);
}

std::string L1Figure(const std::string& contender) { return contender + ", lookups a second"; }

ResultRow L1StepRow(const ClaimRounds& rates, const std::string& step, const std::string& baseline,
                    uint32_t threads) {
  const double rate = rates.Median(L1Figure(L1Named(step, threads)));
  return {{"step", step},
          {"threads", threads},
          {"lookups_per_second", rate},
          {"lookup_ns", threads * 1e9 / rate},
          {"over_baseline", rate / rates.Median(L1Figure(L1Named(baseline, threads)))}};
}

Status RunL1Rounds(const L1RoundsShape& shape, const std::vector<L1Contender>& contenders,
                   const std::vector<L1Ratio>& ratios, ClaimRounds* rounds) {
  uint32_t next_round = 0;
  RoundRates rates;
  std::vector<Turn> turns;
  turns.reserve(contenders.size());
  for (const L1Contender& contender : contenders) {
    turns.emplace_back([&] { return RunContender(shape, next_round, contender, &rates); });
  }
  const Status status = AlternatingRounds(shape.round_count, turns, [&](uint32_t round) {
    next_round = round + 1;
    for (const auto& [name, rate] : rates) rounds->Note(L1Figure(name), rate);
    for (const L1Ratio& ratio : ratios) {
      rounds->NoteRatio(ratio.name, FastestOf(rates, ratio.above), FastestOf(rates, ratio.below));
    }
    rates.clear();
  });
  return Interrupted() ? Status::Ok() : status;
}

}  // namespace harness
