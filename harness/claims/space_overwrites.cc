// A store that is overwritten: its disk space, the bytes that it writes, and its rate.
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/claims/space_measurements.h"
#include "harness/claims/space_runs.h"
#include "harness/kv/engine_store.h"
#include "harness/measure/alternating_rounds.h"

namespace harness {
namespace {

using engine_race::Reclaim;
using engine_race::Status;
using engine_race::Store;

nlohmann::json JsonOf(const SpaceSamples& samples) {
  nlohmann::json rows = nlohmann::json::array();
  for (const SpaceSample& sample : samples) {
    rows.push_back({{"seconds", sample.seconds},
                    {"writes", sample.write_count},
                    {"disk_bytes", sample.disk_bytes},
                    {"log_bytes", sample.log_bytes},
                    {"index_bytes", sample.index_bytes},
                    {"moved_bytes", sample.moved_bytes},
                    {"device_bytes", sample.device_bytes}});
  }
  return rows;
}

// Notes what a run of overwriting took and wrote. The figures' names begin with `name`.
void NoteRun(const std::string& name, const SpaceSamples& samples, uint64_t live_count,
             ClaimRounds* rounds) {
  const SpaceSample& first = samples.front();
  const SpaceSample& half = samples[SecondHalf(samples)];
  const SpaceSample& last = samples.back();
  const uint64_t write_count = last.write_count - first.write_count;
  const auto written = [&](uint64_t SpaceSample::*bytes) {
    return WriteAmplification(last.*bytes - first.*bytes, write_count);
  };
  rounds->Note(name + "_space_amplification", SpaceAmplification(last.disk_bytes, live_count));
  rounds->Note(name + ", most space amplification of the second half",
               SpaceAmplification(PeakDiskBytes(samples), live_count));
  rounds->Note(name + "_write_amplification", written(&SpaceSample::log_bytes));
  rounds->Note(
      name + ", write amplification of the second half",
      WriteAmplification(last.log_bytes - half.log_bytes, last.write_count - half.write_count));
  rounds->Note(name + ", moved by reclaim over written", written(&SpaceSample::moved_bytes));
  rounds->Note(name + ", written to the index over written", written(&SpaceSample::index_bytes));
  if (last.device_bytes > 0) {
    rounds->Note(name + ", write amplification by the device's count",
                 written(&SpaceSample::device_bytes));
  }
  rounds->Note(name + ", MB/s", Megabytes(WriteRate(first, last)));
  rounds->Note(name + ", MB/s of the second half", Megabytes(WriteRate(half, last)));
}

// Fills a store and overwrites it in one go, with background reclaim.
Status FillAndOverwrite(const SpaceConfig& config, const std::string& name, DrawShape draw,
                        const SpaceRecords& records, const std::string& dir, SpaceReport* report) {
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(SpaceOptions(config, Reclaim::kBackground), dir, &store));
  double fill_rate = 0;
  ENGINE_RACE_RETURN_IF_ERROR(
      FillRecords(records, config.thread_count, PutInto(store.get()), &fill_rate));
  report->rounds->Note(name + ", fill before, MB/s", Megabytes(fill_rate));
  SpaceSamples samples;
  Status watched;
  {
    Overwriters writers(records,
                        {.thread_count = config.thread_count, .draw = draw, .seed = config.seed},
                        PutInto(store.get()));
    const SpaceProbe probe(dir, store.get(), writers);
    watched = Watch(config, name, writers, probe,
                    {.write_count = records.count() * config.pass_count}, &samples);
    const Status stopped = writers.Stop();
    if (!stopped.ok()) watched = stopped;
  }
  (*report->about)[name]["samples"] = JsonOf(samples);
  ENGINE_RACE_RETURN_IF_ERROR(watched);
  NoteRun(name, samples, records.count(), report->rounds);
  return Status::Ok();
}

// Turns of overwriting, each beside a turn that fills a new store.
Status CompareWithFills(const SpaceConfig& config, const SpaceRecords& records,
                        const std::string& dir, ClaimRounds* rounds) {
  const KvStoreKind kind = EngineStoreKind(SpaceOptions(config, Reclaim::kBackground));
  const ScratchStore fresh(config.dir + "/fresh");
  SpaceTurn turn;
  double fill_rate = 0;
  uint32_t round_number = 0;
  const Turn overwrite = [&] {
    return OverwriteTurn(config, records, kind, {.dir = dir}, round_number, &turn);
  };
  const Turn fill = [&] {
    const Status filled = FillNew(config, records, kind, {.dir = fresh.dir()}, &fill_rate);
    fresh.Remove();
    return filled;
  };
  return AlternatingRounds(config.round_count, {overwrite, fill}, [&](uint32_t round) {
    round_number = round + 1;
    rounds->NoteRatio("overwrite_vs_fresh", Megabytes(turn.rate), Megabytes(fill_rate));
    rounds->Note("overwrite turns, MB/s", Megabytes(turn.rate));
    rounds->Note("overwrite turns, fill of a new store, MB/s", Megabytes(fill_rate));
    rounds->Note("overwrite turns, most space amplification",
                 SpaceAmplification(turn.peak_disk_bytes, records.count()));
  });
}

}  // namespace

Status MeasureOverwrites(const SpaceConfig& config, SpaceReport* report) {
  const SpaceRecords records(config.record_count(), config.seed);
  const ScratchStore scratch(config.dir + "/overwritten");
  ENGINE_RACE_RETURN_IF_ERROR(
      FillAndOverwrite(config, "overwrite", DrawShape::kUniform, records, scratch.dir(), report));
  return CompareWithFills(config, records, scratch.dir(), report->rounds);
}

Status MeasureZipf(const SpaceConfig& config, SpaceReport* report) {
  const SpaceRecords records(config.record_count(), config.seed);
  const ScratchStore scratch(config.dir + "/zipf");
  return FillAndOverwrite(config, "zipf", DrawShape::kZipfian, records, scratch.dir(), report);
}

}  // namespace harness
