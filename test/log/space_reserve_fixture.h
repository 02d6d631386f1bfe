// A log in a directory of its own, and its reserve of space.
#ifndef TEST_LOG_SPACE_RESERVE_FIXTURE_H_
#define TEST_LOG_SPACE_RESERVE_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/log/format.h"
#include "engine_race/log/space_reserve.h"
#include "test/faults/call_watch.h"
#include "test/log/log_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {

class SpaceReserveTest : public ::testing::Test {
 protected:
  void Open() {
    log_.reset();
    log_ = OpenLog(TinyLogOptions(), dir_.path());
  }
  // Ten records, and a machine that was restarted since.
  void FillAndRestart() {
    Open();
    const uint64_t store_id = log_->store_id();
    AppendMany(log_.get(), 0, 10);
    log_.reset();
    Restart(dir_.path(), store_id);
  }
  std::string Path() const { return dir_.Join(format::kReserveName); }
  uint64_t AllocatedBytes() const {
    struct stat info {};
    return ::stat(Path().c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
  }
  SpaceReserve& reserve() { return log_->reserve(); }
  bool MayLogValues() { return reserve().CheckForValues(log_->slots().value_file(0)).ok(); }
  // As writes do that leave so much, on a disk that stays full.
  void UseUpTo(uint64_t left_bytes) {
    const auto never = [] { return Status::Full("no space"); };
    EXPECT_EQ(reserve().Write(never, left_bytes).code(), Code::kFull);
  }

  const TempDir dir_{FastParent()};
  std::unique_ptr<BucketLog> log_;
};

// A call that reserves space for the file.
inline bool Reserves(const SystemCall& call) {
  return call.kind == CallKind::kFallocate && PathOfFd(call.fd).ends_with(format::kReserveName);
}

}  // namespace engine_race::test

#endif  // TEST_LOG_SPACE_RESERVE_FIXTURE_H_
