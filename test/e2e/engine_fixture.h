// Shared by the end-to-end tests: an engine behind the contest's interface, small geometries, whole
// stores read back and compared, and work done in another process.
//
// Stateless. InChild forks, so no engine with threads of its own may be open in the test's process
// when it is called.
#ifndef TEST_E2E_ENGINE_FIXTURE_H_
#define TEST_E2E_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/engine_race.h"
#include "engine_race/store.h"
#include "include/engine.h"
#include "test/log_lines.h"
#include "test/test_util.h"

namespace engine_race::test {

using polar_race::Engine;
using polar_race::PolarString;
using polar_race::RetCode;

inline std::unique_ptr<Store> OpenStore(const std::string& dir, const Options& options = {}) {
  std::unique_ptr<Store> store;
  const Status status = Store::Open(AsRun(options), dir, &store);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return store;
}

// Null, with a failed expectation, when the engine does not open.
inline std::unique_ptr<Engine> OpenEngine(const std::string& dir) {
  if (IsPagedRun()) {
    // The contest's interface takes no options.
    Options options;
    options.create_among_files = true;
    std::unique_ptr<Store> store = OpenStore(dir, options);
    if (store == nullptr) return nullptr;
    return std::make_unique<polar_race::EngineRace>(store.release());
  }
  Engine* engine = nullptr;
  EXPECT_EQ(Engine::Open(dir, &engine), polar_race::kSucc) << dir;
  return std::unique_ptr<Engine>(engine);
}

inline uint64_t NthKey(uint64_t i) { return (i + 1) * 0x9e3779b97f4a7c15; }

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

// A user without rights.
inline constexpr uid_t kNobody = 65534;

// Gives up root's rights. False if that fails.
inline bool DropRights() {
  return ::geteuid() != 0 || (::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
}

// Four buckets and groups of two values: halves turn over with every few records.
inline Options TinyOptions() {
  Options options;
  options.bucket_count = 4;
  options.file_count = 2;
  options.value_group_bytes = 8192;
  options.memory_budget_bytes = 64 << 20;
  return options;
}

// A visitor made of a function.
class FnVisitor : public polar_race::Visitor {
 public:
  using Fn = std::function<void(const PolarString& key, const PolarString& value)>;
  explicit FnVisitor(Fn fn) : fn_(std::move(fn)) {}
  void Visit(const PolarString& key, const PolarString& value) override { fn_(key, value); }

 private:
  Fn fn_;
};

// Keys and their versions, in the order visited; order and every byte are checked on the way.
using Versions = std::vector<std::pair<uint64_t, uint64_t>>;

inline void AddVisit(std::string_view key, std::string_view value, Versions* seen) {
  ASSERT_EQ(key.size(), kKeyBytes);
  const uint64_t number = DecodeKey(key.data());
  uint64_t version = 0;
  ASSERT_TRUE(ParseValue(number, value, &version)) << "wrong bytes under key " << number;
  if (!seen->empty()) {
    ASSERT_LT(seen->back().first, number) << "not ascending";
  }
  seen->emplace_back(number, version);
}

inline Versions RangeOf(Engine* engine, const std::string& lower, const std::string& upper) {
  Versions seen;
  if (engine == nullptr) return seen;  // a failed open has been reported
  FnVisitor visitor([&](const PolarString& key, const PolarString& value) {
    AddVisit({key.data(), key.size()}, {value.data(), value.size()}, &seen);
  });
  EXPECT_EQ(engine->Range(lower, upper, visitor), polar_race::kSucc);
  return seen;
}

inline Versions RangeOf(Store* store, const std::string& lower, const std::string& upper) {
  Versions seen;
  const Status status = store->Range(
      lower, upper,
      [&](std::string_view key, std::string_view value) { AddVisit(key, value, &seen); });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return seen;
}

// The version found under `key`; 0 for kNotFound, and a failed expectation for anything else.
inline uint64_t VersionOf(Engine* engine, uint64_t key) {
  if (engine == nullptr) return 0;
  std::string value;
  const RetCode code = engine->Read(KeyOf(key), &value);
  if (code == polar_race::kNotFound) return 0;
  EXPECT_EQ(code, polar_race::kSucc) << "key " << key;
  uint64_t version = 0;
  EXPECT_TRUE(ParseValue(key, value, &version)) << "wrong bytes under key " << key;
  return version;
}

inline uint64_t VersionOf(Store* store, uint64_t key) {
  if (store == nullptr) return 0;
  std::string value;
  const Status status = store->Read(KeyOf(key), &value);
  if (status.code() == Code::kNotFound) return 0;
  EXPECT_TRUE(status.ok()) << "key " << key << ": " << status.ToString();
  uint64_t version = 0;
  EXPECT_TRUE(ParseValue(key, value, &version)) << "wrong bytes under key " << key;
  return version;
}

inline void RunThreads(uint32_t count, const std::function<void(uint32_t)>& run) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < count; ++t) threads.emplace_back(run, t);
  for (std::thread& thread : threads) thread.join();
}

// Expects the store to hold exactly these keys with these versions, by Range and by Read.
template <typename AnyEngine>
void ExpectHolds(AnyEngine* engine, const std::map<uint64_t, uint64_t>& expected) {
  const Versions seen = RangeOf(engine, "", "");
  const Versions wanted(expected.begin(), expected.end());
  // Compared in one go: a mismatch of many thousands would drown the report.
  EXPECT_EQ(seen.size(), wanted.size());
  EXPECT_TRUE(wanted == seen) << "Range differs";
  const uint32_t reader_count = wanted.size() < 100 ? 1 : 16;
  RunThreads(reader_count, [&](uint32_t t) {
    for (size_t i = t; i < wanted.size(); i += reader_count) {
      ASSERT_EQ(VersionOf(engine, wanted[i].first), wanted[i].second) << "key " << wanted[i].first;
    }
  });
}

// The exit code of `run` in a forked child; -1 - signal when the child was killed by one. The child
// leaves without any library's exit code: a sanitizer would turn a finding of the parent's into it.
inline int InChild(const std::function<int()>& run) {
  const pid_t pid = ::fork();
  if (pid == 0) ::syscall(SYS_exit_group, run());
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
}

inline constexpr int kMayNotMount = 100;

// InChild with `dir` mounted read-only; kMayNotMount without the right to mount.
inline int OnReadOnlyMount(const std::string& dir, const std::function<int()>& run) {
  return InChild([&] {
    // Mounts of the child's own, gone with it.
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(dir.c_str(), dir.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(nullptr, dir.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
      return kMayNotMount;
    }
    return run();
  });
}

}  // namespace engine_race::test

#endif  // TEST_E2E_ENGINE_FIXTURE_H_
