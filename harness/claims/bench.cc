#include "harness/claims/bench.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "harness/bench/report.h"
#include "harness/load/store_runs.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
#include "harness/system/fio_runner.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

void Setting::Set(double number) const {
  std::visit(
      [number](auto* target) {
        using Value = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_arithmetic_v<Value>) *target = static_cast<Value>(number);
      },
      value);
}

std::vector<ClaimTarget> Bench::targets() {
  std::vector<ClaimTarget> targets;
  for (const BenchPart& part : Parts()) {
    targets.insert(targets.end(), part.claims.begin(), part.claims.end());
  }
  return targets;
}

std::vector<std::string> Bench::Choices() {
  std::vector<std::string> names;
  for (const ClaimTarget& target : targets()) names.emplace_back(target.name);
  for (const BenchPart& part : Parts()) names.emplace_back(part.name);
  return names;
}

void Bench::ChooseWanted(const std::vector<BenchPart>& parts) {
  const auto is_asked = [this](const std::string& name) {
    return std::find(order_.only.begin(), order_.only.end(), name) != order_.only.end();
  };
  wanted_.clear();
  for (const BenchPart& part : parts) {
    const bool is_whole = order_.only.empty() ? part.needs.why_not.empty() : is_asked(part.name);
    if (order_.only.empty() && !is_whole) {
      std::fprintf(stderr, "%s: %s is left out: %s\n", name_, part.name,
                   part.needs.why_not.c_str());
    }
    for (const ClaimTarget& claim : part.claims) {
      if (is_whole || is_asked(claim.name)) wanted_.insert(claim.name);
    }
  }
}

std::string Bench::Refusal(const BenchOrder& order) {
  order_ = order;
  const std::vector<std::string> names = Choices();
  for (const std::string& name : order.only) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return name + " is no claim or part of " + name_;
    }
  }
  std::string why = WhyNot();
  if (!why.empty()) return why;
  const std::vector<BenchPart> parts = Parts();
  ChooseWanted(parts);
  uint64_t needed_bytes = 0;
  for (const BenchPart& part : parts) {
    if (IsWanted(part)) needed_bytes = std::max(needed_bytes, part.needs.disk_bytes);
  }
  std::fprintf(stderr, "%s: at most %.1f GB of disk are needed, %.1f GB are free in %s\n", name_,
               static_cast<double>(needed_bytes) * 1e-9,
               static_cast<double>(FreeBytes(order.parent)) * 1e-9, order.parent.c_str());
  why = WhyNoRoom({{order.parent, needed_bytes}});
  if (!why.empty()) return why;
  disk_.emplace(order.parent, 0);
  if (disk_->path().empty()) return "cannot work in " + order.parent;
  tmpfs_.emplace(order.tmpfs, TmpfsBytes());
  dir_ = disk_->path() + "/part";
  tmpfs_dir_ = tmpfs_->path().empty() ? "" : tmpfs_->path() + "/part";
  return {};
}

bool Bench::IsWanted(const BenchPart& part) const {
  return std::any_of(part.claims.begin(), part.claims.end(),
                     [this](const ClaimTarget& claim) { return Wants(claim.name); });
}

Status Bench::IsPossible(const BenchPart& part) const {
  if (!part.needs.why_not.empty()) return Status(Code::kNotSupported, part.needs.why_not);
  if (part.needs.wants_tmpfs && tmpfs_dir_.empty())
    return Status::Full("no room on " + order_.tmpfs);
  const std::string no_room = WhyNoRoom({{disk_->path(), part.needs.disk_bytes}});
  return no_room.empty() ? Status::Ok() : Status::Full(no_room);
}

void Bench::StartDirs() const {
  std::error_code ignored;
  for (const std::string* dir : {&dir_, &tmpfs_dir_}) {
    if (!dir->empty()) std::filesystem::create_directory(*dir, ignored);
  }
}

void Bench::RemoveDirs() const {
  std::error_code ignored;
  for (const std::string* dir : {&dir_, &tmpfs_dir_}) {
    if (!dir->empty()) std::filesystem::remove_all(*dir, ignored);
  }
  // The next part does not pay for it.
  SyncFileSystem(disk_->path());
}

bool Bench::Measure() {
  rounds_.SetTargets(targets());
  for (const BenchPart& part : Parts()) {
    if (!IsWanted(part) || Interrupted()) continue;
    std::fprintf(stderr, "%s: %s ...\n", name_, part.name);
    const uint64_t began_ns = NowNs();
    const Status possible = IsPossible(part);
    StartDirs();
    const Status status = possible.ok() ? part.measure() : possible;
    RemoveDirs();
    notes_["seconds"][part.name] = SecondsSince(began_ns);
    if (!status.ok() && !Interrupted()) {
      errors_.push_back(std::string(part.name) + ": " + status.ToString());
    }
    SaveJson(ToJson(), order_.json_path);
  }
  if (Interrupted()) errors_.emplace_back("interrupted");
  const std::map<std::string, double> measured = rounds_.Claims();
  for (const std::string& name : wanted_) {
    if (!measured.contains(name)) Complain("not measured: " + name);
  }
  return errors_.empty();
}

Status Bench::Missed(const Status& status) const {
  if (!is_smoke()) return status;
  std::fprintf(stderr, "left out: %s\n", status.ToString().c_str());
  return Status::Ok();
}

void Bench::NoteDevice(uint64_t bytes) {
  nlohmann::json& device = more_json_["machine"]["device"];
  const Status status = MeasureFloor(dir_, bytes, &device);
  if (!status.ok()) device = {{"error", status.ToString()}};
}

Status Bench::NoteFioReads(const std::string& store_dir, uint64_t record_count,
                           const std::string& engine, double seconds,
                           const std::string& rate_figure, const std::string& cpu_figure) {
  const FioResult fio = FioRunner(store_dir).RandomReadOf(
      DenseStoreFileNames(), DenseStoreFileBytes(record_count), engine, seconds);
  if (!fio.ok) return Missed(Status::IOError("fio, " + engine + ": " + fio.error));
  rounds_.Note(rate_figure, fio.ops_per_second);
  rounds_.Note(cpu_figure, fio.cpu_ns_per_op);
  return Status::Ok();
}

int Bench::Run(const BenchOrder& order) {
  const std::string program = std::string("claims ") + name_;
  const std::string why = Refusal(order);
  if (!why.empty()) return Refuse(program, why);
  CatchInterrupts();
  Measure();
  return EndBench(program.c_str(), rounds_.ToTable(), errors_, ToJson(), order.json_path);
}

nlohmann::json Bench::ToJson() {
  nlohmann::json json = rounds_.ToJson();
  for (const ClaimTarget& target : rounds_.targets()) {
    if (*target.what != '\0') json["what"][target.name] = target.what;
  }
  for (const Setting& setting : settings_) {
    if (setting.name.empty()) continue;
    std::visit([&](const auto* value) { json["config"][setting.name] = *value; }, setting.value);
  }
  json["config"]["smoke"] = is_smoke();
  json["about"] = notes_;
  json["machine"] = DescribeMachine(disk_->path());
  json["errors"] = errors_;
  json.update(more_json_, /*merge_objects=*/true);
  return json;
}

}  // namespace engine_race::harness
