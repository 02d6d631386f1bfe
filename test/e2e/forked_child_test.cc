// A store belongs to the process that opened it, whatever its forked children do.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine_race/store.h"
#include "test/e2e/forked_child.h"

namespace engine_race::test {
namespace {

// A parent that returns from main after it has forked, as daemons do, closes the store.
TEST_F(ForkedChildTest, WritesNothingBesideTheNextOpener) {
  std::unique_ptr<Store> store = Open();
  Write(store.get(), 0, 300);
  const pid_t child = Fork([&] {
    std::string value;
    const bool refused = store->Write(KeyOf(7), ValueOf(7, 9)).code() == Code::kInvalidArgument &&
                         store->Delete(KeyOf(8)).code() == Code::kInvalidArgument &&
                         store->Sync().code() == Code::kInvalidArgument;
    store.reset();
    return refused;
  });
  store.reset();
  store = Open();
  ASSERT_NE(store, nullptr);
  Write(store.get(), 300, 700);
  LetGo(child);
  ExpectRecords(store.get(), 700);
  store.reset();
  store = Open();
  ExpectRecords(store.get(), 700);
}

// One that it opens itself is its own.
TEST_F(ForkedChildTest, OpensTheStoreAfterItsParent) {
  std::unique_ptr<Store> store = Open();
  Write(store.get(), 0, 10);
  const pid_t child = Fork([&] {
    std::unique_ptr<Store> own;
    if (!Store::Open(AsRun(TinyOptions()), dir_.path(), &own).ok()) return false;
    return own->Write(KeyOf(10), ValueOf(10, 1)).ok();
  });
  store.reset();
  LetGo(child);
  store = Open();
  ExpectRecords(store.get(), 11);
}

}  // namespace
}  // namespace engine_race::test
