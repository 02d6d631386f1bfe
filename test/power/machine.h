// A store on a simulated disk, and the fixture of tests that take its power at chosen moments.
//
// One thread, apart from the store's own and those that a test starts.
#ifndef TEST_POWER_MACHINE_H_
#define TEST_POWER_MACHINE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/power/key_prefix.h"
#include "test/power/power_disk.h"
#include "test/power/state_directory.h"

namespace engine_race::test {

inline Options OneBucket() {
  Options options;
  options.bucket_count = 1;
  options.file_count = 1;
  options.bucket_capacity_records = 4096;
  options.value_group_bytes = 4 * kValueBytes;
  options.memory_budget_bytes = kMinMemoryBudgetBytes;
  options.build_thread_count = 1;
  options.io_backend = IoBackend::kPsync;
  options.journal_bytes = kMinJournalBytes;
  return options;
}

// A store on a disk of its own, from one boot of the machine to the next.
class Machine {
 public:
  Machine(std::string dir, std::string boot_id_path, uint64_t mount_number = 0)
      : dir_(std::move(dir)), disk_(dir_) {
    disk_.boot_id_path = std::move(boot_id_path);
    disk_.mount_number = mount_number;
    hook_ = std::make_unique<ScopedHook>(&disk_);
  }
  // Events of the closing go to nobody: a test may be resetting the pointer by which it sees this.
  ~Machine() {
    disk_.on_event = nullptr;
    store_.reset();
  }

  void Open(const Options& options) { store_ = OpenStore(dir_, options); }
  void Close() { store_.reset(); }
  Store* store() { return store_.get(); }
  PowerDisk* disk() { return &disk_; }
  const std::string& dir() const { return dir_; }
  const std::string& boot_id_path() const { return disk_.boot_id_path; }
  uint64_t mount_number() const { return disk_.mount_number; }

  void WriteKeys(uint64_t begin, uint64_t end) { WriteKeysTo(store_.get(), begin, end); }
  void Sync() {
    const Status status = store_->Sync();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

 private:
  const std::string dir_;
  PowerDisk disk_;
  std::unique_ptr<ScopedHook> hook_;
  std::unique_ptr<Store> store_;
};

class PowerCasesTest : public testing::Test {
 protected:
  std::unique_ptr<Machine> Boot(const std::string& dir) {
    return std::make_unique<Machine>(dir, NewBootId(&states_, &random_));
  }
  // The machine goes on, and so does what its kernel tells of the mount unless `remounted`.
  std::unique_ptr<Machine> GoOn(const std::string& dir, const Machine& former, bool remounted) {
    return std::make_unique<Machine>(dir, former.boot_id_path(),
                                     former.mount_number() + (remounted ? 1 : 0));
  }
  std::unique_ptr<Machine> NewMachine() { return Boot(states_.NewDirectory()); }

  // The machine after a loss of power; the former one must be gone before another is used.
  std::string StateOf(Machine* machine, const CrashBias& bias) {
    std::string to = states_.NewDirectory();
    machine->disk()->Crash(bias, &random_, to);
    return to;
  }
  std::string AnyStateOf(Machine* machine) {
    std::string to = states_.NewDirectory();
    machine->disk()->Crash(&random_, to);
    return to;
  }

  // Opens the store in `dir` after a loss of power and expects keys 1 to n. Returns n, which must
  // be from `least` to `most`.
  uint64_t ExpectPrefix(const std::string& dir, uint64_t least, uint64_t most) {
    const std::unique_ptr<Machine> machine = Boot(dir);
    machine->Open(OneBucket());
    return PrefixOf(machine.get(), least, most);
  }
  static uint64_t PrefixOf(Machine* machine, uint64_t least, uint64_t most) {
    return ExpectPrefixOf(machine->store(), least, most);
  }
  void Drop(const std::string& dir) { std::filesystem::remove_all(dir); }

  StateDirectory states_;
  Random random_{11};
};

}  // namespace engine_race::test

#endif  // TEST_POWER_MACHINE_H_
