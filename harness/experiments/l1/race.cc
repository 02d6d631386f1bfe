#include "harness/experiments/l1/race.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/experiments/l1/index_race.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

using lab::Encoding;

namespace {

constexpr char kBatched[] = "swizzled, batched";
constexpr char kShards[] = "sharing nothing";

double Over(double above, double below) { return below > 0 ? above / below : 0; }

}  // namespace

uint64_t L1StepBytes(const L1Records& records) {
  // A quarter more frames than blocks, or a cache entry for each block; both include page tables.
  return L1Files::BytesOf(records) * 5 / 4;
}

void L1Race::AddContenders(const char* name, const L1Tables& tables,
                           std::vector<L1Contender>* contenders) const {
  for (const uint32_t threads : config_.thread_counts) {
    contenders->push_back({L1Named(name, threads), lookups_.get(), threads, tables.Gets()});
    if (name != std::string_view(kSwizzledStep)) continue;
    contenders->push_back(
        {L1Named(kBatched, threads), groups_.get(), threads, tables.MultiGets(config_.batch_size)});
  }
}

Status L1Race::MeasureSteps() {
  std::vector<std::unique_ptr<L1Tables>> opened;
  std::vector<L1Contender> contenders;
  std::optional<Encoding> last;
  for (const L1Step& step : L1Steps(L1Use::kRace)) {
    if (!step.available()) continue;
    if (Interrupted()) return Status::Ok();
    if (!config_.alternates) {
      ENGINE_RACE_RETURN_IF_ERROR(RunL1Rounds(config_.rounds, contenders, {}, &rates_));
      contenders.clear();
      opened.clear();
      if (last && *last != step.encoding) files_->Remove(*last);
      last = step.encoding;
    }
    ENGINE_RACE_RETURN_IF_ERROR(files_->Build(step.encoding));
    ENGINE_RACE_RETURN_IF_ERROR(L1Tables::Open(*files_, step, &opened.emplace_back()));
    AddContenders(step.name, *opened.back(), &contenders);
    ENGINE_RACE_RETURN_IF_ERROR(CountHere(step.name, *opened.back()));
  }
  return RunL1Rounds(config_.rounds, contenders, {}, &rates_);
}

// Measured alone, because each number of workers has tables of its own.
Status L1Race::MeasureShards() {
  for (const uint32_t threads : config_.thread_counts) {
    if (Interrupted() || 2 * L1StepBytes(config_.records) > FreeMemoryBytes()) break;
    L1Shards shards({config_.rounds, threads}, files_.get(), &rates_);
    ENGINE_RACE_RETURN_IF_ERROR(shards.Prepare());
    const auto run = [&](const L1RunShape& shape, TimedPoint* point) {
      return shards.RunWorkers(*lookups_, shape, point);
    };
    ENGINE_RACE_RETURN_IF_ERROR(RunL1Rounds(
        config_.rounds, {{L1Named(kShards, threads), lookups_.get(), threads, nullptr, run}}, {},
        &rates_));
  }
  return Status::Ok();
}

Status L1Race::CountHere(const char* name, const L1Tables& tables) {
  std::optional<CpuCounters> counters = CpuCounters::Open();
  if (!counters) return Status::Ok();
  counted_by_ = "the processor's own counters, one thread";
  TimedPoint point;
  counters->Start();
  const Status status =
      RunLookups(*lookups_, {1, config_.rounds.seconds, 0, 0}, tables.Gets(), &point);
  const CpuCounts counts = counters->Stop();
  const auto count = static_cast<double>(point.request_count);
  counts_[name] = {{"l1d_misses", Over(static_cast<double>(counts.l1d_misses), count)},
                   {"instructions", Over(static_cast<double>(counts.instructions), count)},
                   {"instructions_per_cycle", Over(static_cast<double>(counts.instructions),
                                                   static_cast<double>(counts.cycles))}};
  return status;
}

// The children have small tables of their own.
Status L1Race::CountInChildren() {
  L1Records records = config_.records;
  records.records_per_table =
      std::min<uint64_t>(records.records_per_table,
                         std::max<uint64_t>(1, config_.counted_records / records.table_count));
  std::unique_ptr<L1Files> files;
  ENGINE_RACE_RETURN_IF_ERROR(L1Files::Open(config_.dir, records, &files));
  for (const L1Step& step : L1Steps(L1Use::kRace)) {
    if (!step.available()) continue;
    if (Interrupted()) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(files->Build(step.encoding));
    L1Counts counts;
    const Status counted =
        CountL1Step({config_.dir, records, step.name, config_.counted_lookups, 1}, &counts);
    // Valgrind knows fewer instructions than the processor.
    if (counted.code() == Code::kNotSupported) continue;
    ENGINE_RACE_RETURN_IF_ERROR(counted);
    counts_[step.name] = {{"l1d_misses", counts.l1d_misses}, {"instructions", counts.instructions}};
  }
  for (const Encoding encoding : {Encoding::kRestart, Encoding::kSquare, Encoding::kTree}) {
    if (records.records_per_table != config_.records.records_per_table) files->Remove(encoding);
  }
  counted_by_ = counts_.empty() ? ""
                                : "cachegrind, simulated, " +
                                      std::to_string(records.record_count()) + " records";
  return Status::Ok();
}

Status L1Race::Steps(Experiments* tables) {
  lookups_ = std::make_unique<L1Lookups>(config_.records, L1Draw{config_.lookup_count});
  groups_ = std::make_unique<L1Lookups>(config_.records,
                                        L1Draw{config_.lookup_count, config_.batch_size});
  ENGINE_RACE_RETURN_IF_ERROR(L1Files::Open(config_.dir, config_.records, &files_));
  ENGINE_RACE_RETURN_IF_ERROR(MeasureSteps());
  ENGINE_RACE_RETURN_IF_ERROR(MeasureShards());
  if (counts_.empty() && config_.has_children) ENGINE_RACE_RETURN_IF_ERROR(CountInChildren());
  if (Interrupted()) return Status::Ok();
  tables->push_back(StepTable());
  tables->push_back(Breakdown());
  tables->push_back(CacheShare());
  return Status::Ok();
}

double L1Race::RateOf(const std::string& name, uint32_t threads) const {
  return rates_.Median(L1Figure(L1Named(name, threads)));
}

namespace {

Experiment Begin(int number, const char* name, const char* question, const L1Records& records) {
  const TableShape& shape = records.shape;
  return {.number = number,
          .name = name,
          .question = question,
          .unit = "a lookup of a key of " + std::to_string(shape.key_bytes) + " bytes",
          .medium = "memory",
          .notes = {std::to_string(records.record_count()) + " records in " +
                    std::to_string(records.table_count) + " tables, payloads of " +
                    std::to_string(shape.payload_bytes) + " bytes"}};
}

}  // namespace

Experiment L1Race::StepTable() const {
  Experiment table =
      Begin(1, "steps", "What does each step gain, all before it included?", config_.records);
  table.plot = {"steps", "step", {"threads"}, {"over_baseline", "l1d_misses"}};
  const bool has_cycles =
      !counts_.empty() && counts_.begin()->second.contains("instructions_per_cycle");
  table.plot.y.emplace_back(has_cycles ? "instructions_per_cycle" : "instructions");
  table.notes.emplace_back(config_.alternates
                               ? "steps alternate in rounds"
                               : "steps one after another: they do not fit together");
  table.notes.emplace_back(counted_by_.empty()
                               ? "no counts: no counters of the processor here, and no valgrind"
                               : "counts of a lookup by " + counted_by_);
  std::vector<std::string> names;
  for (const L1Step& step : L1Steps(L1Use::kRace)) names.emplace_back(step.name);
  names.insert(names.end(), {kShards, kBatched});
  for (const std::string& name : names) {
    for (const uint32_t threads : config_.thread_counts) {
      if (RateOf(name, threads) <= 0) {
        const char* const why =
            name == kShards ? "too little memory" : "this CPU lacks what it needs";
        table.rows.push_back({{"step", name}, {"threads", threads}, {"unavailable", why}});
        continue;
      }
      table.rows.push_back(L1StepRow(rates_, name, kBaselineStep, threads));
      const auto counts = counts_.find(name);
      if (threads == config_.thread_counts[0] && counts != counts_.end()) {
        table.rows.back().update(counts->second);
      }
    }
  }
  return table;
}

// Replaces the cache by pointers level by level. The only possible order is from the root down.
Experiment L1Race::Breakdown() const {
  Experiment table =
      Begin(2, "breakdown", "What does it gain to reach each thing by pointer?", config_.records);
  table.plot = {"bar", "by_pointer", {"threads"}, {"gain_percent"}};
  table.notes.emplace_back("gain_percent: of the throughput with all three through the cache");
  constexpr std::pair<const char*, const char*> kParts[] = {{"extent metadata", kExtentsStep},
                                                            {"index block", kIndexesStep},
                                                            {"data block", kSwizzledStep}};
  for (const uint32_t threads : config_.thread_counts) {
    const double all = RateOf(kEncodingStep, threads);
    double before = all;
    for (const auto& [what, name] : kParts) {
      const double rate = RateOf(name, threads);
      table.rows.push_back({{"by_pointer", what},
                            {"threads", threads},
                            {"lookups_per_second", rate},
                            {"over_the_one_before", Over(rate, before)},
                            {"gain_percent", 100 * Over(rate - before, all)}});
      before = rate;
    }
  }
  return table;
}

Experiment L1Race::CacheShare() {
  Experiment table = Begin(3, "share of the cache",
                           "How much of the baseline's time goes into the cache?", config_.records);
  table.plot = {"bar", "told_by", {}, {"share_percent"}};
  const uint32_t threads = config_.thread_counts[0];
  const double gone =
      1 - Over(RateOf(kBaselineStep, threads), RateOf(kRestartPointerStep, threads));
  table.rows.push_back(
      {{"told_by", "the time that goes when the same blocks are reached by pointer"},
       {"share_percent", 100 * gone}});
  if (!config_.has_children) return table;
  ResultRow row = {
      {"told_by", "perf's samples in the cache's functions and locks, software clock"}};
  double share = 0;
  Status status = files_->Build(Encoding::kRestart);
  if (status.ok()) {
    status = SampleL1Cache(
        {config_.dir, config_.records, kBaselineStep, config_.sampled_lookups, 1}, &share);
  }
  if (status.ok()) {
    row["share_percent"] = 100 * share;
  } else {
    row["unavailable"] = status.ToString();
  }
  table.rows.push_back(std::move(row));
  return table;
}

Status L1Race::SweepOne(const L1Records& records, ResultRow* row) const {
  std::unique_ptr<L1Files> files;
  ENGINE_RACE_RETURN_IF_ERROR(L1Files::Open(config_.dir, records, &files));
  const L1Lookups lookups(records, {std::min(config_.lookup_count, records.record_count())});
  std::vector<std::unique_ptr<L1Tables>> opened;
  std::vector<L1Contender> contenders;
  for (const char* name : {kBaselineStep, kEncodingStep, kSwizzledStep}) {
    const L1Step& step = L1StepNamed(name);
    ENGINE_RACE_RETURN_IF_ERROR(files->Build(step.encoding));
    ENGINE_RACE_RETURN_IF_ERROR(L1Tables::Open(*files, step, &opened.emplace_back()));
    contenders.push_back({name, &lookups, 1, opened.back()->Gets()});
  }
  ClaimRounds rates({});
  const Status status = RunL1Rounds(config_.rounds, contenders, {}, &rates);
  for (const Encoding encoding : {Encoding::kRestart, Encoding::kTree}) files->Remove(encoding);
  const double baseline = rates.Median(L1Figure(kBaselineStep));
  (*row)["baseline_lookups_per_second"] = baseline;
  (*row)["encoding_gain"] = Over(rates.Median(L1Figure(kEncodingStep)), baseline);
  (*row)["swizzle_gain"] = Over(rates.Median(L1Figure(kSwizzledStep)), baseline);
  return status;
}

Status L1Race::Sweep(Experiments* tables) {
  Experiment table =
      Begin(4, "lengths of records", "How do the gains move with the records?", config_.records);
  table.unit = "a lookup by one thread";
  table.notes = {"gains over the baseline: the tree with its best search, then all by pointer",
                 "as many records as make " + ByteText(config_.swept_bytes) + ", at most"};
  table.plot = {"line", "payload_bytes", {"key_bytes"}, {"encoding_gain", "swizzle_gain"}};
  for (const uint32_t key_bytes : config_.swept_key_bytes) {
    for (const uint32_t payload_bytes : config_.swept_payload_bytes) {
      if (Interrupted()) return Status::Ok();
      L1Records records = config_.records;
      records.shape = {key_bytes, payload_bytes};
      const uint64_t most =
          config_.swept_bytes / records.shape.record_bytes() / records.table_count;
      records.records_per_table = std::clamp<uint64_t>(most, 1, config_.records.records_per_table);
      ResultRow row = {{"key_bytes", key_bytes}, {"payload_bytes", payload_bytes}};
      ENGINE_RACE_RETURN_IF_ERROR(SweepOne(records, &row));
      table.rows.push_back(std::move(row));
    }
  }
  tables->push_back(std::move(table));
  return Status::Ok();
}

}  // namespace engine_race::harness
