// The init of NVMe guests, and its checks of a store whose values lie on raw disks.
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

KeyBytes KeyOf(uint64_t number) { return KeyBytes(harness::MixAt(kSeed, number)); }

// Opens a store that must be refused. An error when it is not, or when its error is another one.
Status ExpectRefusal(const std::string& device, bool overwrite, Code code,
                     const std::string& word) {
  Options options = StoreOptions();
  options.paths = {device};
  options.overwrite_devices = overwrite;
  std::unique_ptr<Store> store;
  const Status status = Store::Open(options, std::string(kMemoryDir) + "/store", &store);
  if (status.code() == code && status.message().find(word) != std::string::npos) return {};
  return Status::Corruption("Open over " + device + ": " + status.ToString());
}

// A store under test, and the records that it must have.
class StoreCheck {
 public:
  explicit StoreCheck(const Options& options) : options_(options), values_(kSeed) {}

  Status Open() {
    store_.reset();
    return Store::Open(options_, kStoreDir, &store_).Prefixed("Open: ");
  }

  Status WriteAll() {
    std::string value(kValueBytes, '\0');
    for (uint64_t i = 0; i < kKeyCount; ++i) {
      values_.Fill(i, /*version=*/1, value.data());
      ENGINE_RACE_RETURN_IF_ERROR(store_->Write(KeyOf(i).view(), value).Prefixed("Write: "));
    }
    return store_->Sync().Prefixed("Sync: ");
  }

  Status ReadAll() {
    std::string value;
    for (uint64_t i = 0; i < kKeyCount; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(store_->Read(KeyOf(i).view(), &value).Prefixed("Read: "));
      uint64_t version = 0;
      if (!values_.CheckAll(i, value.data(), &version)) {
        return Status::Corruption("Read gives another value");
      }
    }
    return {};
  }

  Status RangeAll() {
    uint64_t count = 0;
    std::string last;
    bool ascending = true;
    const Status status = store_->Range({}, {}, [&](std::string_view key, std::string_view) {
      ascending = ascending && (count == 0 || key > last);
      last = key;
      ++count;
    });
    ENGINE_RACE_RETURN_IF_ERROR(status.Prefixed("Range: "));
    if (!ascending) return Status::Corruption("Range is not ascending");
    if (count == kKeyCount) return {};
    return Status::Corruption("Range visits " + std::to_string(count) + " records");
  }

  Status VerifyAll() {
    store_.reset();
    VerifyReport report;
    ENGINE_RACE_RETURN_IF_ERROR(
        Store::Verify(options_, kStoreDir, &report, {}).Prefixed("Verify: "));
    if (report.record_count == kKeyCount) return {};
    return Status::Corruption("Verify finds other records");
  }

 private:
  const Options options_;
  const harness::ValueMaker values_;
  std::unique_ptr<Store> store_;
};

}  // namespace

Status CheckRefusals(const Disks& disks) {
  ENGINE_RACE_RETURN_IF_ERROR(Mount("none", kMemoryDir, "tmpfs"));
  // One device holds the pattern of the earlier checks, the other a file system.
  for (const std::string& disk : {disks.first, disks.files}) {
    ENGINE_RACE_RETURN_IF_ERROR(ExpectRefusal(disk, false, Code::kInvalidArgument, "not empty"));
  }
  // The file system is unharmed if it mounts.
  ENGINE_RACE_RETURN_IF_ERROR(Mount(disks.files, kMountPoint, "ext4"));
  return ExpectRefusal(disks.files, true, Code::kIOError, "mounted or in use");
}

Status CheckStore(const Disks& disks) {
  Options options = StoreOptions();
  options.paths = {disks.first, disks.second};
  options.overwrite_devices = true;
  options.log = [](LogLevel, std::string_view message) { Say("log: " + std::string(message)); };
  StoreCheck check(options);
  for (const auto step :
       {&StoreCheck::Open, &StoreCheck::WriteAll, &StoreCheck::ReadAll, &StoreCheck::RangeAll,
        &StoreCheck::Open, &StoreCheck::ReadAll, &StoreCheck::RangeAll, &StoreCheck::VerifyAll}) {
    ENGINE_RACE_RETURN_IF_ERROR((check.*step)());
  }
  return {};
}

namespace {

// The guest ends itself after this time, in case the host does not.
constexpr uint64_t kLifeMs = 120'000;

// Finds disks by serial number: the kernel numbers controllers in any order.
Status FindDisks(Disks* disks) {
  std::map<std::string, std::string> by_serial;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    std::string serial;
    std::ifstream(entry.path() / "device/serial") >> serial;
    by_serial[serial] = "/dev/" + entry.path().filename().string();
  }
  *disks = {by_serial["files"], by_serial["first"], by_serial["second"]};
  const bool is_missing = disks->files.empty() || disks->first.empty() || disks->second.empty();
  return is_missing ? Status::NotSupported("a disk is missing") : Status::Ok();
}

void Report(const std::string& what, const Status& status) {
  Say(status.ok() ? "PASS " + what : "FAIL " + what + ": " + status.ToString());
}

}  // namespace

[[noreturn]] void RunNvmeTest() {
  ResetAfter(kLifeMs);
  Disks disks;
  const Status found = FindDisks(&disks);
  Report("three disks", found);
  if (!found.ok()) EndWith("DONE");
  Report("passthrough reads", CheckPassthrough(disks));
  CompareBackends(disks);
  Report("devices that hold something are refused", CheckRefusals(disks));
  Report("a store over raw devices", CheckStore(disks));
  const Status compared = CompareWithRaid(disks);
  if (!compared.ok()) Say("INFO not compared with md RAID-0: " + compared.message());
  EndWith("DONE");
}

}  // namespace engine_race::guest
