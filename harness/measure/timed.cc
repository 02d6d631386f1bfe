#include "harness/measure/timed.h"

#include <barrier>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

class TimedTeam {
 public:
  TimedTeam(uint32_t thread_count, double seconds)
      : seconds_(seconds),
        start_(static_cast<ptrdiff_t>(thread_count), OnStart{this}),
        under_way_(thread_count) {}

  void Arrive() { start_.arrive_and_wait(); }
  void GiveUp() { start_.arrive_and_drop(); }

  bool Running(uint64_t now_ns) const {
    // Relaxed: only asks threads to end soon; joining them orders the rest.
    return now_ns < end_ns_ && !failed_.load(std::memory_order_relaxed) && !Interrupted();
  }

  void Stop() {
    // The last thread's readings end the point; joining the threads orders them before Finish.
    if (--under_way_ > 0) return;
    end_cpu_seconds_ = CpuSeconds();
    stopped_ns_ = NowNs();
  }

  void Fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (first_.ok()) first_ = std::move(status);
    failed_.store(true, std::memory_order_relaxed);  // Relaxed: as in Running.
  }

  // Called after every thread has ended.
  Status Finish(TimedPoint* point) const {
    point->seconds = static_cast<double>(stopped_ns_ - begin_ns_) * 1e-9;
    point->cpu_seconds = end_cpu_seconds_ - begin_cpu_seconds_;
    if (!first_.ok()) return first_;
    if (Interrupted()) return InterruptedStatus();
    return Status::Ok();
  }

 private:
  struct OnStart {
    TimedTeam* team;
    void operator()() const noexcept { team->Begin(); }
  };

  void Begin() {
    begin_cpu_seconds_ = CpuSeconds();
    begin_ns_ = NowNs();
    end_ns_ = begin_ns_ + static_cast<uint64_t>(seconds_ * 1e9);
  }

  const double seconds_;
  std::barrier<OnStart> start_;
  // Written before the barrier lets its threads go.
  double begin_cpu_seconds_ = 0;
  uint64_t begin_ns_ = 0;
  uint64_t end_ns_ = 0;
  std::atomic<uint32_t> under_way_;
  double end_cpu_seconds_ = 0;
  uint64_t stopped_ns_ = 0;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status first_;
};

void TimedThread::Start() {
  started_ = true;
  team_->Arrive();
}

bool TimedThread::Running() const { return team_->Running(NowNs()); }

bool TimedThread::Running(uint64_t now_ns) const { return team_->Running(now_ns); }

void TimedThread::Stop() {
  if (!std::exchange(stopped_, true)) team_->Stop();
}

void TimedThread::End() {
  if (!started_) team_->GiveUp();
  Stop();
}

namespace {

void RunBody(const TimedBody& body, uint32_t number, TimedTeam* team, TimedThread* self) {
  try {
    Status status = body(number, self);
    if (!status.ok()) team->Fail(std::move(status));
  } catch (const std::exception& error) {
    team->Fail(Status::IOError(error.what()));
  }
  self->End();
}

}  // namespace

double TimedPoint::RequestsPerSecond() const {
  return seconds > 0 ? static_cast<double>(request_count) / seconds : 0;
}

double TimedPoint::CpuNsPerRequest() const {
  return request_count > 0 ? cpu_seconds * 1e9 / static_cast<double>(request_count) : 0;
}

Status RunTimed(uint32_t thread_count, double seconds, const TimedBody& body, TimedPoint* point) {
  TimedPoint unused;
  if (point == nullptr) point = &unused;
  *point = TimedPoint();
  TimedTeam team(thread_count, seconds);
  std::deque<TimedThread> selves;
  for (uint32_t i = 0; i < thread_count; ++i) selves.emplace_back(&team);
  {
    std::vector<std::jthread> threads;
    threads.reserve(thread_count);
    try {
      while (threads.size() < thread_count) {
        const auto number = static_cast<uint32_t>(threads.size());
        threads.emplace_back([&, number] { RunBody(body, number, &team, &selves[number]); });
      }
    } catch (const std::exception& error) {
      // The threads that have started wait for those that have not.
      for (size_t i = threads.size(); i < thread_count; ++i) {
        team.Fail(Status::IOError(std::string("cannot start a thread: ") + error.what()));
        selves[i].End();
      }
    }
  }
  const Status status = team.Finish(point);
  for (const TimedThread& self : selves) {
    point->request_count += self.tally.request_count;
    point->byte_count += self.tally.byte_count;
    point->latency.Merge(self.tally.latency);
    point->write_latency.Merge(self.tally.write_latency);
  }
  return status;
}

}  // namespace engine_race::harness
