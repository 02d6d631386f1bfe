// The classes below BucketLog, over one open store, without their front page.
#ifndef TEST_LOG_LOG_PARTS_TEST_UTIL_H_
#define TEST_LOG_LOG_PARTS_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/memory_limit.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_reader.h"
#include "engine_race/log/log_writer.h"
#include "engine_race/log/recovery.h"
#include "test/faults/call_watch.h"
#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {

inline StoreFiles OpenedFiles(const Options& options, const std::string& dir) {
  StoreFiles files;
  const Status opened = OpenStoreFiles(options, dir, &files);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  return files;
}

// Open and recovered; without a journal.
struct LogParts {
  LogParts(const Options& options, const std::string& dir)
      : context(options, OpenedFiles(options, dir), numa::StorePlacement()),
        writer(&context),
        groups(&context, &writer),
        reader(&context) {
    context.staging.Start(options.staging_mode, kNoMemoryLimit, options.log,
                          context.placement.memory());
    const Status recovered = Recovery(&context, &writer, &groups).Run();
    EXPECT_TRUE(recovered.ok()) << recovered.ToString();
  }

  Status Append(uint32_t bucket, uint64_t key) {
    ENGINE_RACE_RETURN_IF_ERROR(groups.BeginAppend(bucket));
    const std::string value = ValueOf(key, 1, context.geometry().value_bytes());
    return groups.Append(bucket, key, value.data(), /*journal=*/nullptr);
  }
  // Keys [begin, end) of bucket 0.
  void AppendKeys(uint64_t begin, uint64_t end) {
    for (uint64_t key = begin; key < end; ++key) {
      const Status appended = Append(0, key);
      ASSERT_TRUE(appended.ok()) << key << ": " << appended.ToString();
    }
  }
  // The value of a slot of bucket 0; empty when it cannot be read.
  std::string Read(uint64_t slot) const {
    const uint32_t bytes = context.geometry().slot_bytes();
    Region buffer;
    if (!Region::Allocate(bytes, /*huge_pages=*/false, &buffer).ok()) return {};
    if (!reader.ReadValue(0, slot, buffer.data(), bytes).ok()) return {};
    return std::string(buffer.data(), context.geometry().value_bytes());
  }
  // The counts of bucket 0 as the next opening would find them.
  BucketState Counts() const {
    std::vector<BucketState> states;
    EXPECT_TRUE(context.staging.ReadCounts(&states).ok());
    return states.empty() ? BucketState() : states.front();
  }

  LogContext context;
  LogWriter writer;
  GroupWriter groups;
  LogReader reader;
};

// Fails calls of one kind on files whose path ends in `name`, while it is on.
class FailingCalls : public SystemCallHook {
 public:
  FailingCalls(CallKind kind, std::string name, int error)
      : kind_(kind), name_(std::move(name)), error_(error) {}
  long OnCall(SystemCall* call) override {
    if (!on || call->kind != kind_ || !PathOf(*call).ends_with(name_)) return call->Proceed();
    ++count;
    errno = error_;
    return -1;
  }

  bool on = true;
  int count = 0;

 private:
  const CallKind kind_;
  const std::string name_;
  const int error_;
};

// The calls that change or flush files, in order, with their files. Neighbours of one kind are one.
class ChangeOrder : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (call->kind == CallKind::kPwrite || call->kind == CallKind::kFallocate) Add("write ", *call);
    if (call->kind == CallKind::kFdatasync || call->kind == CallKind::kFsync) Add("flush ", *call);
    return call->Proceed();
  }
  // Where `change` comes first, or how many there are.
  size_t First(const std::string& change) const {
    return static_cast<size_t>(std::find(changes.begin(), changes.end(), change) - changes.begin());
  }

  std::vector<std::string> changes;

 private:
  void Add(const std::string& kind, const SystemCall& call) {
    const std::string path = PathOf(call);
    const std::string change = kind + path.substr(path.rfind('/') + 1);
    if (changes.empty() || changes.back() != change) changes.push_back(change);
  }

  std::mutex mutex_;
};

}  // namespace engine_race::test

#endif  // TEST_LOG_LOG_PARTS_TEST_UTIL_H_
