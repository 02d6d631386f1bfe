#include "harness/experiments/io/lab.h"

#include "harness/measure/progress.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {

std::vector<uint32_t> IoLab::Powers(uint32_t first, uint32_t last) const {
  if (config_.smoke && first < last) return {first, last};
  std::vector<uint32_t> powers;
  for (uint64_t power = first; power <= last; power *= 2) {
    powers.push_back(static_cast<uint32_t>(power));
  }
  return powers;
}

std::vector<uint32_t> IoLab::PathCounts() const {
  const auto all = static_cast<uint32_t>(space_->paths().size());
  std::vector<uint32_t> counts = Powers(1, all);
  if (counts.back() != all) counts.push_back(all);
  return counts;
}

Experiment IoLab::OverFiles(Experiment experiment, const FillFn& fill) const {
  std::span<const RawFile> files;
  {
    const StatusLine line("files of noise to read ...");
    if (!Check(space_->RawFiles(&files), {}, &experiment)) return experiment;
  }
  for (const RawFile& file : files) {
    if (file.direct) continue;
    experiment.notes.push_back(file.name + " takes no direct I/O: the page cache is measured");
  }
  fill(files, &experiment);
  return experiment;
}

std::unique_ptr<IoStore> IoLab::OpenStore(uint32_t path_count, const ResultRow& row,
                                          Experiment* experiment) const {
  auto store = std::make_unique<IoStore>(*space_, config_.record_count, path_count);
  TimedPoint filling;
  if (!Check(store->Fill(&filling), row, experiment)) return nullptr;
  if (!Check(store->Open(), row, experiment)) return nullptr;
  return store;
}

Experiment IoLab::Begin(int number, const std::string& name, const std::string& question,
                        const std::string& unit, const ExperimentPlot& plot) const {
  return {.number = number,
          .name = name,
          .question = question,
          .unit = unit,
          .medium = space_->medium(),
          .plot = plot};
}

void IoLab::NoteStandIns(Experiment* experiment) const {
  if (!space_->has_stand_ins()) return;
  experiment->notes.push_back(std::to_string(space_->paths().size()) +
                              " directories of one file system stand in for paths; --paths names "
                              "real ones, best on devices of their own");
}

void IoLab::Measure(Experiment* experiment, ResultRow row,
                    const std::function<Status(TimedPoint*)>& take) const {
  if (Interrupted()) return;
  const StatusLine line(std::to_string(experiment->number) + ". " + experiment->name + ", " +
                        experiment->medium + ": " + row.dump() + " ...");
  TimedPoint point;
  const Status status = take(&point);
  if (status.code() == Code::kIncomplete) return;
  AddOutcome(status, point, &row);
  experiment->rows.push_back(std::move(row));
}

void IoLab::MeasureRaw(Experiment* experiment, ResultRow row, const RawLoad& load) const {
  Measure(experiment, std::move(row),
          [&load](TimedPoint* point) { return RunRawReads(load, point); });
}

void IoLab::MeasureBlocking(Experiment* experiment, ResultRow row, const BlockingLoad& load) const {
  Measure(experiment, std::move(row),
          [&load](TimedPoint* point) { return RunBlocking(load, point); });
}

bool IoLab::Works(const RawBackend& backend, const RawFile& file, ResultRow row,
                  Experiment* experiment) const {
  return Check(ProbeRawBackend(backend, file), std::move(row), experiment);
}

bool IoLab::Check(const Status& status, ResultRow row, Experiment* experiment) const {
  if (status.ok()) return true;
  // An interrupt is not a failure.
  if (status.code() == Code::kIncomplete) return false;
  AddOutcome(status, TimedPoint(), &row);
  experiment->rows.push_back(std::move(row));
  return false;
}

Experiments RunIoExperiment(int number, const IoLab& lab) {
  using Run = Experiments (*)(const IoLab&);
  constexpr Run kRuns[] = {BareScaling,    PageSizes,        RequestsInFlight, BackEnds, IoModels,
                           TasksPerWorker, ThreadsOverCores, GrowingData,      Ablation};
  static_assert(std::size(kRuns) == kIoExperimentCount);
  Experiments tables = kRuns[number - 1](lab);
  if (number == 1) {
    for (Experiment& table : EngineScaling(lab)) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace engine_race::harness
