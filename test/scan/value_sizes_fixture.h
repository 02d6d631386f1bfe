// Stores with values of each of kValueSizes, for tests of reading ranges.
#ifndef TEST_SCAN_VALUE_SIZES_FIXTURE_H_
#define TEST_SCAN_VALUE_SIZES_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "engine_race/scan/scan_context.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {

class ValueSizesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static uint32_t size() { return GetParam(); }
  // Some MiB, of a few values at least.
  static uint64_t RecordCount(uint64_t most = 4000) {
    return std::clamp<uint64_t>(12 * kMiB / size(), 14, most);
  }
  void Open(uint32_t bucket_count) {
    store_ = std::make_unique<ScanStore>(bucket_count, FastParent(), size());
  }
  void MakeContext(IoBackend backend = IoBackend::kPsync) {
    if (store_->reader == nullptr) store_->OpenReader();
    Options options = store_->options;
    options.io_backend = backend;
    context_ = std::make_unique<ScanContext>(*store_->log, *store_->index, options, RangeTuning());
  }
  ModelVisitor Visitor(uint64_t first = 0, uint64_t last = ~uint64_t{0}) const {
    return ModelVisitor(store_->model, first, last, size());
  }
  // All there is in random ranges.
  void ExpectRanges(int count) {
    std::mt19937_64 random(size());
    for (int i = 0; i < count; ++i) {
      const uint64_t first = random();
      const uint64_t width = random() >> (random() % 10);
      ExpectScanMatches(*store_, first,
                        first <= ~uint64_t{0} - width ? first + width : ~uint64_t{0});
    }
  }

  std::unique_ptr<ScanStore> store_;
  std::unique_ptr<ScanContext> context_;
};

inline std::string SizeName(const ::testing::TestParamInfo<uint32_t>& info) {
  return std::to_string(info.param);
}

}  // namespace engine_race::test

#endif  // TEST_SCAN_VALUE_SIZES_FIXTURE_H_
