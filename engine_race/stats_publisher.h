// Writes a store's stats to its stats file, again and again, on a thread of its own.
//
// Thread safety: made and destroyed by one thread. The destructor waits for the thread and removes
// the file.
#ifndef ENGINE_RACE_STATS_PUBLISHER_H_
#define ENGINE_RACE_STATS_PUBLISHER_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/stats_file.h"

namespace engine_race {

class StatsPublisher {
 public:
  // Copies the store's stats. Start calls it once, and then the publisher's thread.
  using TakeFn = std::function<PublishedStats()>;

  // Makes the file in the store's open directory and starts the thread. Null, with a warning in the
  // log, where that fails; refused memory, too. `options` outlive the publisher.
  static std::unique_ptr<StatsPublisher> Start(const Options& options, int directory_fd,
                                               TakeFn take) noexcept;
  ~StatsPublisher();

 private:
  StatsPublisher(const Options& options, TakeFn take) : options_(options), take_(std::move(take)) {}

  // Throws where memory or a thread is refused.
  static Status Make(const Options& options, int directory_fd, TakeFn take,
                     std::unique_ptr<StatsPublisher>* publisher);
  Status MakeFile(int directory_fd);
  PublishedStats Take();
  void Run() noexcept;

  const Options& options_;
  const TakeFn take_;
  StatsFile file_;
  uint64_t sequence_ = 0;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_STATS_PUBLISHER_H_
