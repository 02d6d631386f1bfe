#include "harness/experiments/io/lab.h"

#include <algorithm>
#include <bit>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/measure/progress.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr uint32_t kFillThreads = 16;
constexpr uint64_t kRecordsPerBucket = 1024;
constexpr uint32_t kMaxBuckets = 1024;
constexpr uint32_t kMaxFiles = 32;

}  // namespace

IoStore::IoStore(const IoSpace& space, uint64_t record_count, uint32_t path_count)
    : shape_{space.dir() + "/store", "", record_count}, runs_(shape_), options_(QuietOptions()) {
  // A bucket's last group of values is still staged, in memory. With many groups in a bucket that
  // is a small part.
  const uint64_t wanted = std::bit_floor(std::max<uint64_t>(record_count / kRecordsPerBucket, 1));
  options_.bucket_count = static_cast<uint32_t>(std::min<uint64_t>(wanted, kMaxBuckets));
  options_.file_count = std::min(options_.bucket_count, kMaxFiles);
  for (uint32_t i = 0; i < path_count; ++i) {
    options_.paths.push_back(space.paths()[i] + "/values");
  }
}

IoStore::~IoStore() {
  reads_.reset();
  runs_.Remove(options_);
}

Status IoStore::Fill(TimedPoint* point) {
  reads_.reset();
  runs_.Remove(options_);
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options_, shape_.dir, &store));
  const Status filled =
      WriteRecords(PutInto(store.get()), shape_.keys(), runs_.values(), kFillThreads, point);
  // Writes that the file system still has to make must not fall into the next measurement.
  if (filled.ok()) ENGINE_RACE_RETURN_IF_ERROR(store->Sync());
  store.reset();
  DropPageCache(shape_.dir);
  return filled;
}

Status IoStore::Open() {
  reads_.reset();
  return DrawnReads::Open(shape_, options_, &reads_);
}

Status IoStore::MultiReads(uint32_t thread_count, double seconds, TimedPoint* point) {
  const RecordDraw draw(DrawShape::kUniform, shape_.record_count);
  return reads_->Run(draw, {thread_count, kKeysPerCall, seconds}, /*seed=*/2, point);
}

Status IoStore::MixThread(uint32_t thread, uint32_t write_percent, TimedThread* self) {
  Store* const store = reads_->store();
  std::string found;
  std::string value(kValueSize, '\0');
  self->Start();
  for (uint64_t i = 0; self->Running(); ++i) {
    const uint64_t word = reads_->KeyAt(AsBelow(MixAt(thread + 100, i), shape_.record_count));
    const bool is_write = AsBelow(MixAt(thread + 10000, i), 100) < write_percent;
    const KeyBytes key(word);
    if (is_write) {
      // Relaxed: a count that orders nothing.
      if (writes_left_.fetch_sub(1, std::memory_order_relaxed) <= 0) break;
      runs_.values().Fill(word, i + 2, value.data());
    }
    const uint64_t begin_ns = NowNs();
    const Status status =
        is_write ? store->Write(key.view(), value) : store->Read(key.view(), &found);
    (is_write ? self->tally.write_latency : self->tally.latency).Add(NowNs() - begin_ns);
    ENGINE_RACE_RETURN_IF_ERROR(
        CheckRead(status, runs_.values(), word, found, /*looks=*/!is_write));
    ++self->tally.request_count;
    self->tally.byte_count += kValueSize;
  }
  return Status::Ok();
}

Status IoStore::Mix(uint32_t thread_count, uint32_t write_percent, double seconds,
                    TimedPoint* point) {
  writes_left_ = static_cast<int64_t>(shape_.record_count);
  return RunTimed(
      thread_count, seconds,
      [this, write_percent](uint32_t thread, TimedThread* self) {
        return MixThread(thread, write_percent, self);
      },
      point);
}

Status IoStore::Ranges(double seconds, TimedPoint* point) {
  *point = TimedPoint();
  // At least once: half a range is not a measurement.
  do {
    TimedPoint once;
    ENGINE_RACE_RETURN_IF_ERROR(reads_->RangeOnce(1, &once));
    point->seconds += once.seconds;
    point->cpu_seconds += once.cpu_seconds;
    point->request_count += once.request_count;
    point->byte_count += once.byte_count;
  } while (point->seconds < seconds);
  return Status::Ok();
}

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
