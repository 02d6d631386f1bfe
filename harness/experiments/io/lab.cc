#include "harness/experiments/io/lab.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <set>
#include <sstream>
#include <system_error>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/load/store_basics.h"
#include "harness/measure/progress.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
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

Status IoStore::Fill(TimedPoint* point) {
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

Status IoStore::MultiReads(uint32_t thread_count, double seconds, TimedPoint* point) {
  const RecordDraw draw(DrawShape::kUniform, shape_.record_count);
  return runs_.ReadDrawn(draw, {thread_count, kKeysPerCall, seconds}, /*seed=*/2, point);
}

Status IoStore::MixThread(uint32_t thread, uint32_t write_percent, TimedThread* self) {
  Store* const store = runs_.store();
  std::string found;
  std::string value(kValueSize, '\0');
  self->Start();
  for (uint64_t i = 0; self->Running(); ++i) {
    const uint64_t word = runs_.KeyAt(AsBelow(MixAt(thread + 100, i), shape_.record_count));
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
    ENGINE_RACE_RETURN_IF_ERROR(runs_.RangeOnce(1, &once));
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

namespace {

constexpr char kProgram[] = "lab io";

constexpr char kMemoryDir[] = "/dev/shm";
constexpr uint64_t kSmokeRecords = 4096;
constexpr double kSmokeSeconds = 0.01;

bool ParseNumber(const std::string& text, int* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end && *number >= 1 && *number <= kIoExperimentCount;
}

IoSpaceOptions SpaceOptions(const IoFlags& flags, const std::string& medium) {
  const bool is_disk = medium != "tmpfs";
  return {.medium = medium,
          .parent = is_disk ? flags.dir : kMemoryDir,
          .paths = is_disk ? flags.paths : std::vector<std::string>(),
          .stand_in_count = flags.config.smoke ? 2u : IoSpaceOptions().stand_in_count,
          .raw_bytes = flags.config.record_count * kValueSize};
}

// At most two stores at once, of which one is overwritten once, and the noise.
uint64_t NeededBytes(const IoFlags& flags) {
  return StoreBytes(6 * flags.config.record_count) + (uint64_t{256} << 20);
}

// Fails when the medium cannot be used.
Status RunMedium(const IoFlags& flags, const std::vector<int>& numbers, const std::string& medium,
                 Experiments* results) {
  IoSpace space(SpaceOptions(flags, medium));
  ENGINE_RACE_RETURN_IF_ERROR(space.Prepare());
  const std::string no_room = WhyNoRoom({{space.dir(), NeededBytes(flags)}});
  if (!no_room.empty()) {
    return Status::Full(medium + ": " + no_room + ": choose another --dir or fewer --records");
  }
  const IoLab lab(flags.config, &space);
  for (const int number : numbers) {
    if (Interrupted()) break;
    for (Experiment& experiment : RunIoExperiment(number, lab)) {
      if (experiment.rows.empty() && Interrupted()) continue;
      std::printf("%s", ExperimentText(experiment).c_str());
      std::fflush(stdout);
      results->push_back(std::move(experiment));
    }
  }
  return Status::Ok();
}

nlohmann::json Describe(const IoFlags& flags, const Experiments& results, bool ok) {
  return {{"ok", ok},
          {"interrupted", Interrupted()},
          {"machine", DescribeMachine(flags.dir)},
          {"config",
           {{"records", flags.config.record_count},
            {"seconds", flags.config.seconds},
            {"smoke", flags.config.smoke},
            {"dir", flags.dir},
            {"paths", flags.paths}}},
          {"experiments", results}};
}

}  // namespace

bool ParseExperiments(const std::string& text, std::vector<int>* numbers) {
  std::set<int> chosen;
  if (text == "all") {
    for (int i = 1; i <= kIoExperimentCount; ++i) chosen.insert(i);
  }
  std::istringstream parts(text == "all" ? "" : text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    int first = 0;
    int last = 0;
    if (!ParseNumber(part.substr(0, dash), &first)) return false;
    last = first;
    if (dash != std::string::npos && !ParseNumber(part.substr(dash + 1), &last)) return false;
    for (int i = first; i <= last; ++i) chosen.insert(i);
  }
  numbers->assign(chosen.begin(), chosen.end());
  return !chosen.empty();
}

CLI::App* AddIoCommand(CLI::App* app, IoFlags* flags) {
  CLI::App* const io = app->add_subcommand(
      "io", "what the disks can do, and which way of asking them gets it: ten experiments");
  io->add_option("--experiment", flags->experiments, "which: all, or numbers as in 1,4-6");
  io->add_option("--dir", flags->dir, "works in a fresh directory in here, removed at the end");
  io->add_option("--paths", flags->paths, "directories, best each on a device of its own")
      ->delimiter(',');
  io->add_option("--device", flags->config.device,
                 "a raw device, say /dev/nvme0n1, only read: experiment 4 also without files");
  io->add_option("--records", flags->config.record_count, "of 4 KiB, in a store or a file")
      ->check(CLI::Range(uint64_t{1024}, uint64_t{1} << 40));
  io->add_option("--seconds", flags->config.seconds, "of each point")
      ->check(CLI::Range(0.001, 3600.0));
  io->add_option("--json", flags->json_path, "also write the results into this file");
  io->add_flag("--tmpfs", flags->has_tmpfs,
               "also against /dev/shm, where the device costs nothing");
  io->add_flag("--smoke", flags->config.smoke, "everything once, tiny: no figure means much");
  return io;
}

int RunIo(IoFlags flags) {
  std::vector<int> numbers;
  if (!ParseExperiments(flags.experiments, &numbers)) {
    return Refuse(kProgram, "--experiment takes all, or numbers from 1 to " +
                                std::to_string(kIoExperimentCount) + " as in 1,4-6");
  }
  if (flags.config.smoke) {
    flags.config.record_count = kSmokeRecords;
    flags.config.seconds = kSmokeSeconds;
  }
  CatchInterrupts();
  Experiments results;
  const Status on_disk = RunMedium(flags, numbers, "disk", &results);
  if (!on_disk.ok()) return Refuse(kProgram, on_disk.message());
  const Status on_tmpfs =
      flags.has_tmpfs ? RunMedium(flags, numbers, "tmpfs", &results) : Status::Ok();
  if (!on_tmpfs.ok()) std::printf("tmpfs: not measured: %s\n", on_tmpfs.message().c_str());
  const bool ok = std::all_of(results.begin(), results.end(), [](const Experiment& experiment) {
    return ErrorCount(experiment) == 0;
  });
  if (!SaveJson(Describe(flags, results, ok), flags.json_path)) {
    return Refuse(kProgram, "cannot write " + flags.json_path);
  }
  if (Interrupted()) return kExitInterrupted;
  return ok ? kExitDone : kExitFailure;
}

}  // namespace engine_race::harness
