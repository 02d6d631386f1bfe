// The contest's phases over an open store: many threads write, read, mix both, or range over
// everything pass by pass. Every key and value that they get is checked.
//
// `Calls` is how a thread calls the store. Each thread has a copy of its own, with
//   Status Write(uint64_t key, const char* value);     // of the size that the store's values have
//   Status Read(uint64_t key, const char** value);  // good until the next call
//   Status Range(visit);                            // visit(std::string_view, std::string_view)
//   static constexpr uint64_t kVisitsPerLook;       // visits between two looks at the clock
//
// Each thread does at least one operation, however short the time. A phase returns the first
// failure: the store's, kCorruption for what is wrong, or kIncomplete when the user interrupts. The
// point counts the operations and their latencies also then. One phase at a time; it has threads.
#ifndef HARNESS_LOAD_CONTEST_PHASES_H_
#define HARNESS_LOAD_CONTEST_PHASES_H_

#include <barrier>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "engine_race/base/status.h"
#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/measure/progress.h"
#include "harness/measure/timed.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

inline constexpr uint32_t kRangePasses = 2;

struct ContestShape {
  uint32_t thread_count = 1;
  uint64_t seed = 1;             // of the records that are drawn
  uint64_t operations_each = 0;  // of a thread that draws records
  uint64_t readable_count = 0;   // records 0 to this are in the store
  double limit_seconds = kNoLimitSeconds;
};

template <typename Calls>
class ContestPhases {
 public:
  // All references outlive this. The version in a value is the number of its record in `keys`.
  ContestPhases(const ContestShape& shape, const KeySource& keys, const ValueMaker& values,
                const Calls& calls, Progress* progress)
      : shape_(shape), keys_(keys), values_(values), calls_(calls), progress_(progress) {}

  // A thread writes the records that next(thread, i) gives for i = 0, 1, ... until std::nullopt.
  template <typename Next>
  Status Write(const Next& next, TimedPoint* point) {
    return Run(point, [&](Thread* t) {
      do {
        const auto index = next(t->number, t->self->tally.request_count);
        if (!index) return Status::Ok();
        ENGINE_RACE_RETURN_IF_ERROR(WriteOne(*index, t));
      } while (t->self->Running(t->now_ns));
      return Status::Ok();
    });
  }

  // Reads records at random.
  Status Read(TimedPoint* point) { return Draw(kReadStream, /*mixes=*/false, point); }
  // Reads and overwrites, as many of each. An overwrite writes its record's own value, so that
  // later phases can check it.
  Status Mix(TimedPoint* point) { return Draw(kMixedStream, /*mixes=*/true, point); }

  // Every thread ranges over everything, kRangePasses times in lockstep. Each pass must find
  // `expected`; an operation is a record visited. Calls after_pass(pass), which may not throw,
  // while all threads wait at the end of the pass.
  template <typename AfterPass>
  Status Range(const KeySummary& expected, bool checks_values, const AfterPass& after_pass,
               TimedPoint* point) {
    uint32_t passes_done = 0;
    std::barrier pass_end(static_cast<ptrdiff_t>(shape_.thread_count),
                          [&]() noexcept { after_pass(passes_done++); });
    return Run(point, [&](Thread* t) {
      for (uint32_t pass = 0;; ++pass) {
        const Status status = Pass(expected, checks_values, pass, t);
        if (!status.ok() || pass + 1 == kRangePasses || !t->self->Running()) {
          // Others may still come to the barrier.
          pass_end.arrive_and_drop();
          return status;
        }
        pass_end.arrive_and_wait();
      }
    });
  }

 private:
  static constexpr uint64_t kMixedStream = 0x6d697865;

  // Leaves a range when the time is up.
  struct TimeIsUp {};

  struct Thread {
    const uint32_t number;
    TimedThread* const self;
    Calls calls;
    uint64_t now_ns = 0;  // when its last call returned
    const ValueBuffer value;
  };

  template <typename Body>
  Status Run(TimedPoint* point, const Body& body) {
    return RunTimed(
        shape_.thread_count, shape_.limit_seconds,
        [&](uint32_t number, TimedThread* self) {
          Thread thread = {number, self, calls_, 0, values_.MakeBuffer()};
          self->Start();
          return body(&thread);
        },
        point);
  }

  Status Draw(uint64_t stream, bool mixes, TimedPoint* point) {
    return Run(point, [&](Thread* t) {
      for (uint64_t i = 0; i < shape_.operations_each; ++i) {
        if (i > 0 && !t->self->Running(t->now_ns)) break;
        const uint64_t word = MixAt(shape_.seed ^ stream, i * shape_.thread_count + t->number);
        const uint64_t index = AsBelow(word, shape_.readable_count);
        // The high bits chose the record. The lowest bit chooses between read and write.
        const bool writes = mixes && word % 2 != 0;
        ENGINE_RACE_RETURN_IF_ERROR(writes ? WriteOne(index, t) : ReadOne(index, t));
      }
      return Status::Ok();
    });
  }

  Status WriteOne(uint64_t index, Thread* t) {
    const uint64_t key = keys_.KeyAt(index);
    values_.Fill(key, index, t->value.get());
    const uint64_t begin_ns = NowNs();
    const Status status = t->calls.Write(key, t->value.get());
    return Count(key, begin_ns, status, t);
  }

  Status ReadOne(uint64_t index, Thread* t) {
    const uint64_t key = keys_.KeyAt(index);
    const char* value = nullptr;
    const uint64_t begin_ns = NowNs();
    const Status status = t->calls.Read(key, &value);
    ENGINE_RACE_RETURN_IF_ERROR(Count(key, begin_ns, status, t));
    if (IsRecord(keys_, values_, key, value)) return Status::Ok();
    return Status::Corruption(KeyFailure(key, "wrong bytes"));
  }

  // Notes a call that has just returned.
  Status Count(uint64_t key, uint64_t begin_ns, const Status& status, Thread* t) {
    t->now_ns = NowNs();
    if (!status.ok()) return Status(status.code(), KeyFailure(key, status.ToString()));
    t->self->tally.latency.Add(t->now_ns - begin_ns);
    ++t->self->tally.request_count;
    progress_->Add(t->number, 1);
    return Status::Ok();
  }

  // Makes one range of one thread. OK also when the time was up.
  Status Pass(const KeySummary& expected, bool checks_values, uint32_t pass, Thread* t) {
    RangeVisitor visitor(
        keys_, values_,
        checks_values ? ChecksOf(t->number, pass, shape_.thread_count) : RangeChecks::kNothing);
    Status status;
    bool is_over = false;
    try {
      status = t->calls.Range([&](std::string_view key, std::string_view value) {
        visitor.Visit(key, value);
        if (visitor.count() % Calls::kVisitsPerLook != 0) return;
        progress_->Add(t->number, Calls::kVisitsPerLook);
        if (!t->self->Running()) throw TimeIsUp();
      });
      if (!status.ok()) status = Status(status.code(), "range: " + status.ToString());
    } catch (const TimeIsUp&) {
      is_over = true;
    } catch (const std::exception& error) {
      status = Status::Corruption(error.what());
    }
    t->self->tally.request_count += visitor.count();
    progress_->Add(t->number, visitor.count() % Calls::kVisitsPerLook);
    if (!status.ok() || is_over || visitor.Saw(expected)) return status;
    return Status::Corruption("range: visited " + std::to_string(visitor.count()) + " of " +
                              std::to_string(expected.distinct_count) +
                              " keys, or others than these");
  }

  const ContestShape shape_;
  const KeySource& keys_;
  const ValueMaker& values_;
  const Calls calls_;
  Progress* const progress_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_CONTEST_PHASES_H_
