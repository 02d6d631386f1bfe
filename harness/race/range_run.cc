#include "harness/race/range_run.h"

#include <barrier>
#include <string>
#include <string_view>

#include "harness/data/range_visitor.h"
#include "harness/race/phase.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

constexpr uint64_t kProgressStep = 1024;

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
  RangeVisitor visitor(
      keys_, values_,
      checks_values_ ? ChecksOf(thread, pass, thread_count_) : RangeChecks::kNothing);
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

void RangeRun::Run(uint64_t start_ns, const PassFn& after_pass) {
  uint32_t passes_done = 0;
  uint64_t pass_start_ns = start_ns;
  std::barrier pass_end(thread_count_, [&]() noexcept {
    after_pass(passes_done++, SecondsSince(pass_start_ns));
    pass_start_ns = NowNs();
  });
  RunWorkers(thread_count_, failures_, [&](uint32_t thread) {
    for (uint32_t pass = 0; pass < kRangePasses; ++pass) {
      try {
        if (!failures_->any()) Pass(thread, pass);
      } catch (const std::exception& error) {
        // Caught here: the others wait at the barrier, so this thread must reach it too.
        failures_->Note(error.what());
      }
      pass_end.arrive_and_wait();
    }
  });
}

}  // namespace harness
