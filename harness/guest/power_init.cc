#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "harness/guest/power_plan.h"
#include "harness/guest/system.h"

namespace engine_race::powercut {
namespace {

using guest::Argument;
using guest::End;
using guest::EndWith;
using guest::Number;
using guest::ResetAfter;
using guest::Say;
using guest::WriteText;

constexpr char kDevice[] = "/dev/nvme0n1";
constexpr char kMountPoint[] = "/mnt";
constexpr char kStoreDir[] = "/mnt/store";
// The guest ends itself after this time, in case the host does not.
constexpr uint64_t kLifeMs = 300'000;

void MountStore() {
  if (const uint64_t centiseconds = Number("pc_writeback"); centiseconds > 0) {
    WriteText("/proc/sys/vm/dirty_writeback_centisecs", std::to_string(centiseconds));
    WriteText("/proc/sys/vm/dirty_expire_centisecs", std::to_string(centiseconds));
  }
  const Status mounted = guest::Mount(kDevice, kMountPoint, "ext4");
  if (!mounted.ok()) EndWith("POWERCUT BROKEN " + mounted.ToString());
}

SyncMode ModeNamed(const std::string& name) {
  if (name == "group") return SyncMode::kGroup;
  return name == "every" ? SyncMode::kEveryWrite : SyncMode::kNone;
}

LoadPlan LoadFromArguments() {
  LoadPlan load;
  load.sync_mode = ModeNamed(Argument("pc_mode"));
  load.sync_every_ms = static_cast<uint32_t>(Number("pc_sync_ms"));
  load.pace_us = static_cast<uint32_t>(Number("pc_pace_us"));
  load.operation_count = static_cast<uint32_t>(Number("pc_operations"));
  return load;
}

void CheckStatus(const std::string& verdict, const std::string& call, const Status& status) {
  if (!status.ok()) EndWith("POWERCUT " + verdict + " " + call + ": " + status.ToString());
}

uint64_t Sum(const Acked& acked) {
  uint64_t sum = 0;
  for (const uint32_t count : acked) sum += count;
  return sum;
}

// If there is a store, first verifies it closed. Compares the count of records with that of Open,
// unless slots were used again: then Open also counts records whose space was given back.
std::unique_ptr<Store> OpenStore(const Plan& plan, SyncMode sync_mode, bool exists) {
  Options options = plan.StoreOptions();
  options.sync_mode = sync_mode;
  options.log = [](LogLevel, std::string_view message) { Say("log: " + std::string(message)); };
  VerifyReport report;
  if (exists) {
    const auto on_bad = [](const BadRecord& bad) { Say("bad: " + bad.file + ": " + bad.what); };
    CheckStatus("VIOLATION", "Verify", Store::Verify(options, kStoreDir, &report, on_bad));
  }
  std::unique_ptr<Store> store;
  CheckStatus("VIOLATION", "Open", Store::Open(options, kStoreDir, &store));
  const uint64_t record_count = store->Stats().record_count;
  struct stat rows {};
  const std::string rows_path = std::string(kStoreDir) + "/" + format::kRowsName;
  const bool has_rows = ::stat(rows_path.c_str(), &rows) == 0;
  if (exists && !has_rows && record_count != report.record_count) {
    EndWith("POWERCUT VIOLATION Verify finds " + std::to_string(report.record_count) +
            " records, Open " + std::to_string(record_count));
  }
  return store;
}

}  // namespace

[[noreturn]] void Run() {
  MountStore();
  ResetAfter(kLifeMs);
  const Plan plan(Number("pc_seed"));
  LoadPlan load = LoadFromArguments();
  Ledger ledger;
  CheckStatus("BROKEN", "ledger", ledger.Open(kDevice, Number("pc_ledger")));
  std::vector<Kept> kept;
  uint32_t cycle_count = 0;
  CheckStatus("BROKEN", "ledger", ledger.ReadHistory(plan, &kept, &cycle_count));
  Acked acked;
  CheckStatus("BROKEN", "ledger", ledger.ReadAcked(plan, cycle_count, &acked));
  Say("MOUNTED");
  const uint64_t reset_ms = Number("pc_reset_ms");
  if (Argument("pc_reset_from") == "mount") ResetAfter(reset_ms);

  const auto store = OpenStore(plan, load.sync_mode, /*exists=*/cycle_count > 0);
  const std::string violation = Verify(plan, store.get(), acked, cycle_count, &kept);
  if (!violation.empty()) EndWith("POWERCUT VIOLATION " + violation);
  // The records found must survive from here on, whatever the opening has made durable.
  CheckStatus("VIOLATION", "Sync", store->Sync());
  Say("POWERCUT OK cycle " + std::to_string(cycle_count) + ", acknowledged " +
      std::to_string(Sum(acked)) + ", records " + std::to_string(store->Stats().record_count));
  if (Number("pc_load") == 0) End();

  CheckStatus("BROKEN", "ledger", ledger.WriteHistory(plan, kept));
  load.cycle = static_cast<uint32_t>(kept.size()) + 1;
  Say("LOADING");
  if (Argument("pc_reset_from") == "load") ResetAfter(reset_ms);
  EndWith("POWERCUT VIOLATION " + RunLoad(plan, load, store.get(), &ledger));
}

}  // namespace engine_race::powercut
