#include "harness/race_range.h"

#include <barrier>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine_race/base/key.h"
#include "harness/process_stats.h"

namespace harness {
namespace {

constexpr uint64_t kProgressStep = 1024;

// Leaves the range at once; RunWorkers turns it into a failure.
[[noreturn]] void Fail(uint64_t key, const char* what) {
  throw std::runtime_error("range: " + KeyFailure(key, what));
}

// How closely a visitor looks at values.
enum class Checks { kNothing, kEnds, kEverything };

// What one visitor has seen so far in its pass.
class Visitor {
 public:
  Visitor(const KeySource& keys, const ValueMaker& values, Checks checks)
      : keys_(keys), values_(values), checks_(checks) {}

  void Visit(std::string_view key_bytes, std::string_view value) {
    if (key_bytes.size() != sizeof(uint64_t)) Fail(0, "a key of another size");
    const uint64_t key = engine_race::DecodeKey(key_bytes.data());
    if (value.size() != kValueSize) Fail(key, "a value of another size");
    if (count_ != 0 && key <= last_key_) Fail(key, "not ascending");
    if (!ValueIsRight(key, value.data())) Fail(key, "wrong bytes");
    last_key_ = key;
    key_sum_ += key;
    ++count_;
  }

  uint64_t count() const { return count_; }
  uint64_t key_sum() const { return key_sum_; }

 private:
  bool ValueIsRight(uint64_t key, const char* value) const {
    uint64_t version = 0;
    if (checks_ == Checks::kNothing) return true;
    if (checks_ == Checks::kEnds) return values_.CheckEnds(key, value, &version);
    return values_.CheckAll(key, value, &version) && version < keys_.record_count() &&
           keys_.KeyAt(version) == key;
  }

  const KeySource& keys_;
  const ValueMaker& values_;
  const Checks checks_;
  uint64_t last_key_ = 0;
  uint64_t count_ = 0;
  uint64_t key_sum_ = 0;
};

}  // namespace

RangeRun::RangeRun(const KeySource& keys, const ValueMaker& values, const KeySummary& expected,
                   engine_race::Store* store, Failures* failures, Progress* progress,
                   uint32_t thread_count, bool checks_values)
    : keys_(keys),
      values_(values),
      expected_(expected),
      store_(store),
      failures_(failures),
      progress_(progress),
      thread_count_(thread_count),
      checks_values_(checks_values) {}

void RangeRun::Pass(uint32_t thread, uint32_t pass) {
  // Another thread in each pass checks every byte.
  const Checks checks = !checks_values_                  ? Checks::kNothing
                        : thread == pass % thread_count_ ? Checks::kEverything
                                                         : Checks::kEnds;
  Visitor visitor(keys_, values_, checks);
  const engine_race::Status status =
      store_->Range({}, {}, [&](std::string_view key, std::string_view value) {
        visitor.Visit(key, value);
        if (visitor.count() % kProgressStep == 0) progress_->Add(thread, kProgressStep);
      });
  if (!status.ok()) return failures_->Note("range: " + status.ToString());
  if (visitor.count() != expected_.distinct_count) {
    return failures_->Note("range: visited " + std::to_string(visitor.count()) + " of " +
                           std::to_string(expected_.distinct_count) + " keys");
  }
  if (visitor.key_sum() != expected_.key_sum) failures_->Note("range: other keys than written");
}

void RangeRun::Run(uint64_t start_ns, std::array<double, kRangePasses>* pass_seconds) {
  uint32_t passes_done = 0;
  uint64_t pass_start_ns = start_ns;
  std::barrier pass_end(thread_count_, [&]() noexcept {
    (*pass_seconds)[passes_done++] = SecondsSince(pass_start_ns);
    pass_start_ns = NowNs();
  });
  RunWorkers(thread_count_, failures_, [&](uint32_t thread) {
    for (uint32_t pass = 0; pass < kRangePasses; ++pass) {
      try {
        if (!failures_->any()) Pass(thread, pass);
      } catch (const std::exception& error) {
        // The others wait at the barrier, so this thread comes there too.
        failures_->Note(error.what());
      }
      pass_end.arrive_and_wait();
    }
  });
}

}  // namespace harness
