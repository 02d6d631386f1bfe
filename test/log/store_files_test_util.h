// A store's files in a directory of the test's own, opened and closed again without a log.
#ifndef TEST_LOG_STORE_FILES_TEST_UTIL_H_
#define TEST_LOG_STORE_FILES_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <string>

#include "engine_race/log/store_files.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {

class StoreFilesFixture : public testing::Test {
 protected:
  // Opens the store and closes it again.
  Status Open(const Options& options) {
    StoreFiles files;
    return OpenStoreFiles(options, Dir(), &files);
  }
  Status OpenToRead() {
    StoreFiles files;
    return OpenStoreFilesToRead(Dir(), &files);
  }
  // Makes the store, or opens the one that is there.
  void Make(const Options& options = TinyLogOptions()) {
    const Status made = Open(options);
    ASSERT_TRUE(made.ok()) << made.ToString();
  }
  // Values on two paths, "a" and "b" beside the store.
  Options Striped() const {
    Options options = TinyLogOptions();
    options.paths = {dir_.Join("a"), dir_.Join("b")};
    return options;
  }
  std::string Dir() const { return dir_.Join("store"); }
  std::string Join(const std::string& name) const { return Dir() + "/" + name; }

  TempDir dir_;
};

}  // namespace engine_race::test

#endif  // TEST_LOG_STORE_FILES_TEST_UTIL_H_
