// The init of NVMe guests, and its checks of a store whose values lie on raw disks.

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/guest/system.h"

namespace engine_race::guest {

namespace {

constexpr uint64_t kSeed = 11;
constexpr uint64_t kKeyCount = 5000;
constexpr uint32_t kBucketCount = 16;
constexpr char kMemoryDir[] = "/memory";
constexpr char kMountPoint[] = "/files";
constexpr char kStoreDir[] = "/files/store";

Options StoreOptions() {
  Options options;
  options.bucket_count = kBucketCount;
  options.file_count = 2;
  options.value_group_bytes = 64 * 1024;
  options.memory_budget_bytes = uint64_t{64} << 20;
  return options;
}

std::string Failed(const std::string& call, const Status& status) {
  return call + ": " + status.ToString();
}

KeyBytes KeyOf(uint64_t number) { return KeyBytes(harness::MixAt(kSeed, number)); }

// Opens a store that must be refused. Returns what is wrong when it is not, or when the error is
// another one.
std::string ExpectRefusal(const std::string& device, bool overwrite, Code code,
                          const std::string& word) {
  Options options = StoreOptions();
  options.paths = {device};
  options.overwrite_devices = overwrite;
  std::unique_ptr<Store> store;
  const Status status = Store::Open(options, std::string(kMemoryDir) + "/store", &store);
  if (status.code() == code && status.message().find(word) != std::string::npos) return {};
  return Failed("Open over " + device, status);
}

std::string MountFiles(const std::string& device) {
  ::mkdir(kMountPoint, 0755);
  if (::mount(device.c_str(), kMountPoint, "ext4", 0, nullptr) == 0) return {};
  return "mount: " + std::string(std::strerror(errno));
}

// A store under test, and the records that it must have.
class StoreCheck {
 public:
  explicit StoreCheck(const Options& options) : options_(options), values_(kSeed) {}

  std::string Open() {
    store_.reset();
    const Status status = Store::Open(options_, kStoreDir, &store_);
    return status.ok() ? "" : Failed("Open", status);
  }

  std::string WriteAll() {
    std::string value(kValueBytes, '\0');
    for (uint64_t i = 0; i < kKeyCount; ++i) {
      values_.Fill(i, /*version=*/1, value.data());
      const Status status = store_->Write(KeyOf(i).view(), value);
      if (!status.ok()) return Failed("Write", status);
    }
    const Status status = store_->Sync();
    return status.ok() ? "" : Failed("Sync", status);
  }

  std::string ReadAll() {
    std::string value;
    for (uint64_t i = 0; i < kKeyCount; ++i) {
      const Status status = store_->Read(KeyOf(i).view(), &value);
      if (!status.ok()) return Failed("Read", status);
      uint64_t version = 0;
      if (!values_.CheckAll(i, value.data(), &version)) return "Read gives another value";
    }
    return {};
  }

  std::string RangeAll() {
    uint64_t count = 0;
    std::string last;
    bool ascending = true;
    const Status status = store_->Range({}, {}, [&](std::string_view key, std::string_view) {
      ascending = ascending && (count == 0 || key > last);
      last = key;
      ++count;
    });
    if (!status.ok()) return Failed("Range", status);
    if (!ascending) return "Range is not ascending";
    return count == kKeyCount ? "" : "Range visits " + std::to_string(count) + " records";
  }

  std::string VerifyAll() {
    store_.reset();
    VerifyReport report;
    const Status status = Store::Verify(options_, kStoreDir, &report, {});
    if (!status.ok()) return Failed("Verify", status);
    return report.record_count == kKeyCount ? "" : "Verify finds other records";
  }

 private:
  const Options options_;
  const harness::ValueMaker values_;
  std::unique_ptr<Store> store_;
};

}  // namespace

std::string CheckRefusals(const Disks& disks) {
  ::mkdir(kMemoryDir, 0755);
  if (::mount("none", kMemoryDir, "tmpfs", 0, nullptr) != 0) return "no file system in memory";
  // One device holds the pattern of the earlier checks, the other a file system.
  std::string wrong = ExpectRefusal(disks.first, false, Code::kInvalidArgument, "not empty");
  if (wrong.empty()) {
    wrong = ExpectRefusal(disks.files, false, Code::kInvalidArgument, "not empty");
  }
  // The file system is unharmed if it mounts.
  if (wrong.empty()) wrong = MountFiles(disks.files);
  if (wrong.empty()) wrong = ExpectRefusal(disks.files, true, Code::kIOError, "mounted or in use");
  return wrong;
}

std::string CheckStore(const Disks& disks) {
  Options options = StoreOptions();
  options.paths = {disks.first, disks.second};
  options.overwrite_devices = true;
  options.log = [](LogLevel, std::string_view message) { Say("log: " + std::string(message)); };
  StoreCheck check(options);
  std::string wrong = check.Open();
  if (wrong.empty()) wrong = check.WriteAll();
  if (wrong.empty()) wrong = check.ReadAll();
  if (wrong.empty()) wrong = check.RangeAll();
  if (wrong.empty()) wrong = check.Open();
  if (wrong.empty()) wrong = check.ReadAll();
  if (wrong.empty()) wrong = check.RangeAll();
  if (wrong.empty()) wrong = check.VerifyAll();
  return wrong;
}

namespace {

// The guest ends itself after this time, in case the host does not.
constexpr uint64_t kLifeMs = 120'000;

// Finds disks by serial number: the kernel numbers controllers in any order.
std::string FindDisks(Disks* disks) {
  std::map<std::string, std::string> by_serial;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    std::string serial;
    std::ifstream(entry.path() / "device/serial") >> serial;
    by_serial[serial] = "/dev/" + entry.path().filename().string();
  }
  *disks = {by_serial["files"], by_serial["first"], by_serial["second"]};
  return disks->files.empty() || disks->first.empty() || disks->second.empty() ? "a disk is missing"
                                                                               : "";
}

void Report(const std::string& what, const std::string& violation) {
  Say(violation.empty() ? "PASS " + what : "FAIL " + what + ": " + violation);
}

}  // namespace

[[noreturn]] void RunNvmeTest() {
  ResetAfter(kLifeMs);
  Disks disks;
  const std::string missing = FindDisks(&disks);
  Report("three disks", missing);
  if (!missing.empty()) EndWith("DONE");
  Report("passthrough reads", CheckPassthrough(disks));
  CompareBackends(disks);
  Report("devices that hold something are refused", CheckRefusals(disks));
  Report("a store over raw devices", CheckStore(disks));
  const std::string no_raid = CompareWithRaid(disks);
  if (!no_raid.empty()) Say("INFO not compared with md RAID-0: " + no_raid);
  EndWith("DONE");
}

}  // namespace engine_race::guest
