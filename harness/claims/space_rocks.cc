// Overwriting beside RocksDB, both in their steady states.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/claims/space_measurements.h"
#include "harness/claims/space_runs.h"
#include "harness/kv/engine_store.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/opponents/peers.h"

namespace harness {
namespace {

using engine_race::Reclaim;
using engine_race::Status;

struct Side {
  KvStoreKind kind;
  std::string name;  // begins its figures
  KvOptions options;
  SpaceTurn turn;
};

// RocksDB, if this was built with it.
std::vector<KvStoreKind> RocksKind() {
  std::vector<KvStoreKind> kinds = Peers();
  std::erase_if(kinds, [](const KvStoreKind& peer) { return peer.name != "rocksdb"; });
  return kinds;
}

Status Prepare(const SpaceConfig& config, const SpaceRecords& records, const Side& side,
               SpaceReport* report) {
  double rate = 0;
  ENGINE_RACE_RETURN_IF_ERROR(FillNew(config, records, side.kind, side.options, &rate));
  report->rounds->Note(side.name + ", fill, MB/s", Megabytes(rate));
  return Precondition(config, side.name + ", before the turns", records, side.kind, side.options);
}

// Its settings with their reasons.
Status Describe(const Side& side, nlohmann::json* description) {
  std::unique_ptr<KvStore> store;
  ENGINE_RACE_RETURN_IF_ERROR(side.kind.open(side.options, &store));
  *description = store->Describe();
  return store->Close();
}

void NoteSide(const Side& side, uint64_t live_count, ClaimRounds* rounds) {
  const SpaceTurn& turn = side.turn;
  rounds->Note(side.name + ", overwriting, MB/s", Megabytes(turn.rate));
  rounds->Note(side.name + ", space amplification",
               SpaceAmplification(turn.disk_bytes, live_count));
  rounds->Note(side.name + ", most space amplification",
               SpaceAmplification(turn.peak_disk_bytes, live_count));
  if (turn.device_amplification > 0) {
    rounds->Note(side.name + ", write amplification by the device's count",
                 turn.device_amplification);
  }
}

// Whether both sides have held the bound at the ends of their turns, by their medians.
nlohmann::json BoundOf(const std::vector<const Side*>& sides, const ClaimRounds& rounds) {
  nlohmann::json bound = {{"space_bound", kSpaceBound}};
  for (const Side* side : sides) {
    const double taken = rounds.Median(side->name + ", space amplification");
    bound[side->name] = {{"space_amplification", taken}, {"within_bound", taken <= kSpaceBound}};
    if (taken <= kSpaceBound) continue;
    std::fprintf(stderr, "%s does not hold the space bound: %.2f\n", side->name.c_str(), taken);
  }
  return bound;
}

}  // namespace

bool HasRocks() { return !RocksKind().empty(); }

Status MeasureRocks(const SpaceConfig& config, SpaceReport* report) {
  const std::vector<KvStoreKind> rocks_kind = RocksKind();
  if (rocks_kind.empty()) return Status(engine_race::Code::kNotSupported, "no RocksDB");
  const SpaceRecords records(config.record_count(), config.seed);
  const ScratchStore engine_dir(config.dir + "/engine");
  const ScratchStore rocks_dir(config.dir + "/rocksdb");
  const auto options_of = [&](const ScratchStore& scratch) {
    return KvOptions{.dir = scratch.dir(),
                     .memory_budget_bytes = config.memory_budget_bytes,
                     .thread_count = config.thread_count,
                     .record_count = config.record_count(),
                     .gives_back_space = true};
  };
  Side engine = {EngineStoreKind(SpaceOptions(config, Reclaim::kBackground)),
                 "engine",
                 options_of(engine_dir),
                 {}};
  Side rocks = {rocks_kind.front(), "RocksDB", options_of(rocks_dir), {}};
  ENGINE_RACE_RETURN_IF_ERROR(Prepare(config, records, engine, report));
  ENGINE_RACE_RETURN_IF_ERROR(Prepare(config, records, rocks, report));
  uint32_t round_number = 0;
  const auto turn_of = [&](Side* side) -> Turn {
    return [&, side] {
      return OverwriteTurn(config, records, side->kind, side->options, round_number, &side->turn);
    };
  };
  ENGINE_RACE_RETURN_IF_ERROR(AlternatingRounds(
      config.round_count, {turn_of(&engine), turn_of(&rocks)}, [&](uint32_t round) {
        round_number = round + 1;
        report->rounds->NoteRatio("vs_rocksdb_overwrite", Megabytes(engine.turn.rate),
                                  Megabytes(rocks.turn.rate));
        NoteSide(engine, records.count(), report->rounds);
        NoteSide(rocks, records.count(), report->rounds);
      }));
  nlohmann::json about = BoundOf({&engine, &rocks}, *report->rounds);
  ENGINE_RACE_RETURN_IF_ERROR(Describe(rocks, &about["RocksDB"]["settings"]));
  (*report->about)["vs_rocksdb_overwrite"] = std::move(about);
  return Status::Ok();
}

}  // namespace harness
