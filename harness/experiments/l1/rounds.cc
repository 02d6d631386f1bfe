#include "harness/experiments/l1/rounds.h"

#include <algorithm>

#include "harness/data/mix.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {

namespace {

// Each contender's round begins at the same lookup.
Status RunContender(const L1RoundsShape& shape, uint32_t round, const L1Contender& contender,
                    ClaimRounds* rounds) {
  const L1RunShape run_shape{contender.thread_count, shape.seconds, shape.warming_seconds,
                             AsBelow(MixAt(shape.seed, round), contender.lookups->chunk_count())};
  TimedPoint point;
  const Status status = contender.run
                            ? contender.run(run_shape, &point)
                            : RunLookups(*contender.lookups, run_shape, contender.answer, &point);
  ENGINE_RACE_RETURN_IF_ERROR(status.Prefixed(contender.name + ": "));
  rounds->Note(L1Figure(contender.name), point.RequestsPerSecond());
  return Status::Ok();
}

// In the round that has `later` rounds after it; 0 when none of them ran.
double FastestOf(const ClaimRounds& rounds, const std::vector<std::string>& names, size_t later) {
  double fastest = 0;
  for (const std::string& name : names) {
    if (!rounds.has(L1Figure(name))) continue;
    const std::vector<double>& rates = rounds.rounds(L1Figure(name));
    if (later < rates.size()) fastest = std::max(fastest, rates[rates.size() - 1 - later]);
  }
  return fastest;
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
  std::vector<Turn> turns;
  turns.reserve(contenders.size());
  for (const L1Contender& contender : contenders) {
    turns.emplace_back([&, round = uint32_t{0}]() mutable {
      return RunContender(shape, round++, contender, rounds);
    });
  }
  const Status status = rounds->Run({shape.round_count}, turns);
  if (Interrupted()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(status);
  for (const L1Ratio& ratio : ratios) {
    for (uint32_t later = shape.round_count; later-- > 0;) {
      rounds->NoteRatio(ratio.name, FastestOf(*rounds, ratio.above, later),
                        FastestOf(*rounds, ratio.below, later));
    }
  }
  return Status::Ok();
}

}  // namespace engine_race::harness
