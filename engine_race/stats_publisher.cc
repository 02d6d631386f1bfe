#include "engine_race/stats_publisher.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/thread_name.h"

namespace engine_race {

std::unique_ptr<StatsPublisher> StatsPublisher::Start(const Options& options, int directory_fd,
                                                      TakeFn take) noexcept {
  std::unique_ptr<StatsPublisher> publisher;
  const Status started =
      Guarded([&] { return Make(options, directory_fd, std::move(take), &publisher); });
  if (started.ok()) return publisher;
  // Memory may be refused for the warning's text as well.
  (void)Guarded([&] {
    Log(options.log, LogLevel::kWarning,
        "the store does not offer its stats: " + started.ToString());
    return Status::Ok();
  });
  return nullptr;
}

StatsPublisher::~StatsPublisher() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status StatsPublisher::Make(const Options& options, int directory_fd, TakeFn take,
                            std::unique_ptr<StatsPublisher>* publisher) {
  publisher->reset(new StatsPublisher(options, std::move(take)));
  StatsPublisher* const made = publisher->get();
  ENGINE_RACE_RETURN_IF_ERROR(made->MakeFile(directory_fd));
  made->thread_ = StartThread("er-stats", [made] { made->Run(); });
  return Status::Ok();
}

Status StatsPublisher::MakeFile(int directory_fd) {
  UniqueFd directory;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Duplicate(directory_fd, &directory));
  return StatsFile::Create(std::move(directory), options_.file_mode, Take(), &file_);
}

PublishedStats StatsPublisher::Take() {
  PublishedStats published = take_();
  published.sequence = ++sequence_;
  published.interval_ms = options_.stats_interval_ms;
  published.taken_at_ms = BootTimeMs();
  published.process_id = static_cast<uint64_t>(::getpid());
  return published;
}

void StatsPublisher::Run() noexcept {
  bool has_failed = false;
  std::unique_lock lock(mutex_);
  const std::chrono::milliseconds interval(options_.stats_interval_ms);
  auto next = std::chrono::steady_clock::now();
  while (true) {
    // The next multiple of the interval. Multiples that passed during a long write are skipped.
    const auto now = std::chrono::steady_clock::now();
    next += ((now - next) / interval + 1) * interval;
    if (stopping_.wait_until(lock, next, [this] { return is_stopping_; })) return;
    lock.unlock();
    const Status written = Guarded([this] { return file_.Write(Take()); });
    // Of failures in a row only the first is reported.
    if (!written.ok() && !has_failed) {
      (void)Guarded([&] {
        Log(options_.log, LogLevel::kWarning, "the stats were not written: " + written.ToString());
        return Status::Ok();
      });
    }
    has_failed = !written.ok();
    lock.lock();
  }
}

}  // namespace engine_race
