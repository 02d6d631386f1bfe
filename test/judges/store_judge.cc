// A C++20 program on the archive's other public interface, engine_race/store.h. It is also built
// without exceptions and RTTI, as programs are that embed the engine where neither is allowed.
#include "engine_race/store.h"

#include <errno.h>
#include <sys/stat.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "test/judges/judge.h"

namespace {

using engine_race::Code;
using engine_race::Options;
using engine_race::Status;
using engine_race::Store;
using judge::Key;
using judge::Spread;
using judge::Value;

std::unique_ptr<Store> Open(const Options& options, const std::string& dir) {
  std::unique_ptr<Store> store;
  const Status status = Store::Open(options, dir, &store);
  if (!status.ok()) {
    std::printf("%s\n", status.ToString().c_str());
    std::exit(1);
  }
  return store;
}

void AllCalls(const judge::Directory& dir) {
  Options options;
  options.bucket_count = 64;
  options.file_count = 8;
  std::unique_ptr<Store> store = Open(options, dir.Store("store"));
  for (uint64_t i = 0; i < 1000; ++i) {
    JUDGE_CHECK(store->Write(Key(Spread(i)), Value(i, 1)).ok());
  }
  JUDGE_CHECK(store->Delete(Key(Spread(3))).ok());

  std::string value = "as it was";
  JUDGE_CHECK(store->Read(Key(Spread(3)), &value).code() == Code::kNotFound);
  JUDGE_CHECK(value == "as it was");
  JUDGE_CHECK(store->Read(Key(Spread(4)), &value).ok() && value == Value(4, 1));

  uint64_t visits = 0;
  JUDGE_CHECK(store->Range("", "", [&](std::string_view, std::string_view) { ++visits; }).ok());
  JUDGE_CHECK(visits == 999);
  JUDGE_CHECK(store->Stats().bucket_count == 64);
  JUDGE_CHECK(store->Stats().record_count == 1001);
  JUDGE_CHECK(store->Compact().ok());
  std::vector<engine_race::BucketSpace> buckets;
  JUDGE_CHECK(store->SpaceByBucket(&buckets).ok() && buckets.size() == 64);
}

void Batches(const judge::Directory& dir) {
  std::unique_ptr<Store> store = Open(Options(), dir.Store("store"));
  engine_race::WriteBatch batch;
  JUDGE_CHECK(batch.Reserve(3, 1).ok() && batch.empty());
  JUDGE_CHECK(batch.Put(Key(1), Value(1, 1)).ok());
  const std::vector<uint64_t> keys = {2, 3};
  JUDGE_CHECK(batch.PutMany(keys, (Value(2, 1) + Value(3, 1)).data()).ok());
  JUDGE_CHECK(batch.Delete(Key(1)).ok());
  JUDGE_CHECK(batch.size() == 4 && batch.put_count() == 3 && batch.bytes() > 0);
  engine_race::WriteBatch moved(std::move(batch));
  JUDGE_CHECK(store->Write(moved).ok());
  batch = std::move(moved);
  batch.Clear();
  std::string value;
  JUDGE_CHECK(store->Read(Key(1), &value).code() == Code::kNotFound);
  JUDGE_CHECK(store->Read(Key(2), &value).ok() && value == Value(2, 1));
  JUDGE_CHECK(store->Read(Key(3), &value).ok() && value == Value(3, 1));
}

void OtherSizes(const judge::Directory& dir) {
  Options options;
  options.value_bytes = 512;
  options.memory_budget_bytes = engine_race::LeastMemoryBudgetBytes(options.value_bytes);
  std::unique_ptr<Store> store = Open(options, dir.Store("store"));
  JUDGE_CHECK(store->value_bytes() == 512);
  const std::string wanted(512, 'v');
  JUDGE_CHECK(store->Write(Key(1), wanted).ok());
  JUDGE_CHECK(store->Write(Key(1), wanted + 'v').code() == Code::kInvalidArgument);
  engine_race::WriteBatch batch(store->value_bytes());
  JUDGE_CHECK(batch.Put(Key(2), wanted).ok() && store->Write(batch).ok());
  JUDGE_CHECK(store->Write(engine_race::WriteBatch()).code() == Code::kInvalidArgument);
  std::string value;
  JUDGE_CHECK(store->Read(Key(1), &value).ok() && value == wanted);
  JUDGE_CHECK(store->Read(Key(2), &value).ok() && value == wanted);
}

void SnapshotsAndIterators(const judge::Directory& dir) {
  std::unique_ptr<Store> store = Open(Options(), dir.Store("store"));
  for (uint64_t i = 0; i < 100; ++i) JUDGE_CHECK(store->Write(Key(i), Value(i, 1)).ok());
  engine_race::Snapshot snapshot;
  JUDGE_CHECK(store->GetSnapshot(&snapshot).ok());
  engine_race::IteratorOptions options;
  options.snapshot = &snapshot;
  engine_race::Iterator iterator;
  JUDGE_CHECK(store->NewIterator(options, &iterator).ok());
  JUDGE_CHECK(store->Write(Key(50), Value(50, 2)).ok());
  JUDGE_CHECK(store->Delete(Key(51)).ok());
  uint64_t count = 0;
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    JUDGE_CHECK(iterator.key() == Key(count) && iterator.value() == Value(count, 1));
    ++count;
  }
  JUDGE_CHECK(iterator.status().ok() && count == 100);
  for (iterator.SeekToLast(); iterator.Valid(); iterator.Prev()) --count;
  JUDGE_CHECK(count == 0);
  iterator.Seek(Key(50));
  JUDGE_CHECK(iterator.RefreshKeepPosition().ok() && iterator.value() == Value(50, 2));
  iterator.Next();
  JUDGE_CHECK(iterator.key() == Key(52));
  iterator.SeekForPrev(Key(51));
  JUDGE_CHECK(iterator.key() == Key(50));
  JUDGE_CHECK(iterator.RefreshKeepPosition(snapshot).ok() && iterator.value() == Value(50, 1));
  JUDGE_CHECK(iterator.Refresh(snapshot).ok() && iterator.Refresh().ok() && !iterator.Valid());
  std::string value;
  JUDGE_CHECK(store->Read(snapshot, Key(51), &value).ok() && value == Value(51, 1));
  const auto visit = [&count](std::string_view, std::string_view) { ++count; };
  JUDGE_CHECK(store->Range(snapshot, "", "", visit).ok() && count == 100);
  store.reset();
  iterator.SeekToFirst();
  JUDGE_CHECK(!iterator.Valid() && iterator.status().code() == Code::kInvalidArgument);
}

void ErrorsHaveMessages(const judge::Directory& dir) {
  Options options;
  options.bucket_count = 3;
  const Status invalid = engine_race::ValidateOptions(options);
  JUDGE_CHECK(invalid.code() == Code::kInvalidArgument);
  JUDGE_CHECK(invalid.message().find("bucket_count") != std::string::npos);
  JUDGE_CHECK(engine_race::CodeName(invalid.code()) == "kInvalidArgument");
  JUDGE_CHECK(invalid.error() == 0 && invalid.path().empty());

  std::unique_ptr<Store> store;
  JUDGE_CHECK(Store::Open(options, dir.Store("a"), &store).code() == Code::kInvalidArgument);
  options = Options();
  options.create_if_missing = false;
  JUDGE_CHECK(mkdir(dir.Store("b").c_str(), 0777) == 0);
  JUDGE_CHECK(Store::Open(options, dir.Store("b"), &store).code() == Code::kNotFound);
  JUDGE_CHECK(store == nullptr);
  const Status missing = Store::Open(options, dir.Store("none"), &store);
  JUDGE_CHECK(missing.error() == ENOENT && missing.path() == dir.Store("none"));
}

#ifdef __cpp_exceptions
void VisitorThrows(const judge::Directory& dir) {
  std::unique_ptr<Store> store = Open(Options(), dir.Store("store"));
  JUDGE_CHECK(store->Write(Key(1), Value(1, 1)).ok());
  bool caught = false;
  try {
    const Status status = store->Range("", "", [](std::string_view, std::string_view) {
      throw std::out_of_range("the visitor's own");
    });
    JUDGE_CHECK(status.ok());
  } catch (const std::out_of_range&) {
    caught = true;
  }
  JUDGE_CHECK(caught);
}
#endif

}  // namespace

int main() {
  bool held = true;
  held &= judge::RunCase("every call of Store", AllCalls);
  held &= judge::RunCase("batches", Batches);
  held &= judge::RunCase("values of another size", OtherSizes);
  held &= judge::RunCase("snapshots and iterators", SnapshotsAndIterators);
  held &= judge::RunCase("errors have messages", ErrorsHaveMessages);
#ifdef __cpp_exceptions
  held &= judge::RunCase("a visitor's exception leaves Store::Range", VisitorThrows);
#endif
  return held ? 0 : 1;
}
