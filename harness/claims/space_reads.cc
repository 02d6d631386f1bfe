// The latencies of reads beside writers, with and without reclaim.
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/claims/space_measurements.h"
#include "harness/claims/space_runs.h"
#include "harness/kv/engine_store.h"
#include "harness/measure/alternating_rounds.h"

namespace harness {
namespace {

using engine_race::LatencyHistogram;
using engine_race::Reclaim;
using engine_race::Status;
using engine_race::Store;

constexpr uint64_t kReadsStream = 0x7061636564;

struct ReadTurn {
  LatencyHistogram latency;
  double write_rate = 0;
  double moved_bytes_per_second = 0;
  uint64_t disk_bytes = 0;
};

// Reads at the fixed rate beside writers at theirs. The reads run up too.
Status ReadFor(const SpaceConfig& config, const SpaceRecords& records, const std::string& dir,
               Reclaim reclaim, uint32_t turn_number, ReadTurn* turn) {
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(SpaceOptions(config, reclaim), dir, &store));
  const uint64_t seed = MixAt(config.seed ^ kReadsStream, turn_number);
  PacedReads reads = {.rate = config.read_rate,
                      .seconds = config.ramp_seconds,
                      .thread_count = config.read_thread_count,
                      .seed = seed};
  Overwriters writers(
      records, {.thread_count = config.thread_count, .rate = config.write_rate, .seed = seed},
      PutInto(store.get()));
  const SpaceProbe probe(dir, store.get(), writers);
  LatencyHistogram ramp;
  ENGINE_RACE_RETURN_IF_ERROR(
      RunPacedReads(records, reads, GetFrom(store.get()), SteadyClock(), &ramp));
  reads.seconds = config.seconds;
  reads.seed = seed + 1;
  const SpaceSample first = probe.Take();
  turn->latency = {};
  ENGINE_RACE_RETURN_IF_ERROR(
      RunPacedReads(records, reads, GetFrom(store.get()), SteadyClock(), &turn->latency));
  const SpaceSample last = probe.Take();
  turn->write_rate = WriteRate(first, last);
  turn->moved_bytes_per_second =
      static_cast<double>(last.moved_bytes - first.moved_bytes) / (last.seconds - first.seconds);
  turn->disk_bytes = last.disk_bytes;
  return writers.Stop();
}

void NoteTurn(const std::string& name, const SpaceConfig& config, const ReadTurn& turn,
              ClaimRounds* rounds) {
  const auto note_us = [&](const char* what, double fraction) {
    rounds->Note(name + what, static_cast<double>(turn.latency.PercentileNs(fraction)) * 1e-3);
  };
  note_us(", read p50, us", 0.5);
  note_us(", read p99, us", 0.99);
  note_us(", read p99.9, us", 0.999);
  // Below 1 the writers could not keep their rate, and the sides are not alike.
  rounds->Note(name + ", writes over their rate", turn.write_rate / config.write_rate);
  rounds->Note(name + ", moved by reclaim, MB/s", turn.moved_bytes_per_second * 1e-6);
  rounds->Note(name + ", space amplification",
               SpaceAmplification(turn.disk_bytes, config.record_count()));
}

}  // namespace

Status MeasureReads(const SpaceConfig& config, SpaceReport* report) {
  const SpaceRecords records(config.record_count(), config.seed);
  const ScratchStore with(config.dir + "/with_reclaim");
  const ScratchStore without(config.dir + "/without_reclaim");
  const KvStoreKind kind = EngineStoreKind(SpaceOptions(config, Reclaim::kBackground));
  double rate = 0;
  ENGINE_RACE_RETURN_IF_ERROR(FillNew(config, records, kind, {.dir = with.dir()}, &rate));
  ENGINE_RACE_RETURN_IF_ERROR(FillNew(config, records,
                                      EngineStoreKind(SpaceOptions(config, Reclaim::kOff)),
                                      {.dir = without.dir()}, &rate));
  // Reclaim then has as much to do as in the long run.
  ENGINE_RACE_RETURN_IF_ERROR(
      Precondition(config, "read, before the turns", records, kind, {.dir = with.dir()}));
  ReadTurn with_turn;
  ReadTurn without_turn;
  uint32_t round_number = 0;
  const Turn read_with = [&] {
    return ReadFor(config, records, with.dir(), Reclaim::kBackground, round_number, &with_turn);
  };
  const Turn read_without = [&] {
    return ReadFor(config, records, without.dir(), Reclaim::kOff, round_number, &without_turn);
  };
  return AlternatingRounds(config.round_count, {read_with, read_without}, [&](uint32_t round) {
    round_number = round + 1;
    report->rounds->NoteRatio("read_p99_under_reclaim",
                              static_cast<double>(with_turn.latency.PercentileNs(0.99)),
                              static_cast<double>(without_turn.latency.PercentileNs(0.99)));
    NoteTurn("with reclaim", config, with_turn, report->rounds);
    NoteTurn("without reclaim", config, without_turn, report->rounds);
  });
}

}  // namespace harness
