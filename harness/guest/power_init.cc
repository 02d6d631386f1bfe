// The first and only process of a power-cut guest: it verifies what the last cut has left of the
// store on /dev/nvme0n1, then loads it until the power goes.
//
// scripts/powercut.py boots it and reads its lines on the serial console. The kernel passes its
// command line's unknown names on as environment variables:
//   pc_seed         of the plan
//   pc_ledger       where on the device the ledger begins, bytes
//   pc_load         1: load after the verification; otherwise the guest powers off
//   pc_mode         none, group or every
//   pc_sync_ms, pc_pace_us, pc_operations   the load, see LoadPlan
//   pc_writeback    of the kernel, in centiseconds: how soon it writes dirty pages by itself
//   pc_reset_from   mount or load: resets the machine pc_reset_ms after that
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "engine_race/store.h"
#include "harness/guest/power_ledger.h"
#include "harness/guest/power_load.h"
#include "harness/guest/power_plan.h"
#include "harness/guest/power_verify.h"

namespace engine_race::powercut {
namespace {

constexpr char kDevice[] = "/dev/nvme0n1";
constexpr char kMountPoint[] = "/mnt";
constexpr char kStoreDir[] = "/mnt/store";
// A guest whose host has forgotten it ends by itself.
constexpr uint64_t kLifeMs = 300'000;

std::string Argument(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t Number(const char* name) { return std::strtoull(Argument(name).c_str(), nullptr, 10); }

void Say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) return;
}

// Nothing is unmounted or closed: the last boot of a store, too, ends like a cut.
[[noreturn]] void End() {
  ::tcdrain(STDOUT_FILENO);
  ::reboot(RB_AUTOBOOT);
  std::abort();
}

[[noreturn]] void EndWith(const std::string& line) {
  Say(line);
  End();
}

void WriteText(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, text.data(), text.size()) < 0) Say(std::string("cannot write ") + path);
  ::close(fd);
}

void ResetAfter(uint64_t ms) {
  std::thread([ms] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    WriteText("/proc/sysrq-trigger", "b");
  }).detach();
}

void MountAll() {
  for (const char* dir : {"/proc", "/sys", "/dev", kMountPoint}) ::mkdir(dir, 0755);
  ::mount("proc", "/proc", "proc", 0, nullptr);
  ::mount("sysfs", "/sys", "sysfs", 0, nullptr);
  ::mount("devtmpfs", "/dev", "devtmpfs", 0, nullptr);
  const int console = ::open("/dev/ttyS0", O_RDWR | O_NOCTTY);
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::dup2(console, fd);
  if (const uint64_t centiseconds = Number("pc_writeback"); centiseconds > 0) {
    WriteText("/proc/sys/vm/dirty_writeback_centisecs", std::to_string(centiseconds));
    WriteText("/proc/sys/vm/dirty_expire_centisecs", std::to_string(centiseconds));
  }
  if (::mount(kDevice, kMountPoint, "ext4", 0, nullptr) != 0) {
    std::perror("mount");
    EndWith("POWERCUT BROKEN the file system does not mount");
  }
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

// Verifies the closed store first, when there is one, and compares what that says with what Open
// makes of it.
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
  if (exists && record_count != report.record_count) {
    EndWith("POWERCUT VIOLATION Verify finds " + std::to_string(report.record_count) +
            " records, Open " + std::to_string(record_count));
  }
  return store;
}

[[noreturn]] void Run() {
  MountAll();
  ResetAfter(kLifeMs);
  const Plan plan(Number("pc_seed"));
  LoadPlan load = LoadFromArguments();
  Ledger ledger;
  CheckStatus("BROKEN", "ledger", ledger.Open(kDevice, Number("pc_ledger")));
  std::vector<Kept> kept;
  uint32_t epoch_count = 0;
  CheckStatus("BROKEN", "ledger", ledger.ReadHistory(plan, &kept, &epoch_count));
  Acked acked;
  CheckStatus("BROKEN", "ledger", ledger.ReadAcked(plan, epoch_count, &acked));
  Say("MOUNTED");
  const uint64_t reset_ms = Number("pc_reset_ms");
  if (Argument("pc_reset_from") == "mount") ResetAfter(reset_ms);

  const auto store = OpenStore(plan, load.sync_mode, /*exists=*/epoch_count > 0);
  const std::string violation = Verify(plan, store.get(), acked, epoch_count, &kept);
  if (!violation.empty()) EndWith("POWERCUT VIOLATION " + violation);
  // What was found is promised from here on, whatever the opening has promised.
  CheckStatus("VIOLATION", "Sync", store->Sync());
  Say("POWERCUT OK epoch " + std::to_string(epoch_count) + ", acknowledged " +
      std::to_string(Sum(acked)) + ", records " + std::to_string(store->Stats().record_count));
  if (Number("pc_load") == 0) End();

  CheckStatus("BROKEN", "ledger", ledger.WriteHistory(plan, kept));
  load.epoch = static_cast<uint32_t>(kept.size()) + 1;
  Say("LOADING");
  if (Argument("pc_reset_from") == "load") ResetAfter(reset_ms);
  EndWith("POWERCUT VIOLATION " + RunLoad(plan, load, store.get(), &ledger));
}

}  // namespace
}  // namespace engine_race::powercut

int main() { engine_race::powercut::Run(); }
