// A thread of which a test can tell that it waits: that a call of it does not return.
//
// Not thread-safe: one thread has it.
#ifndef TEST_WATCHED_THREAD_H_
#define TEST_WATCHED_THREAD_H_

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "test/eventually.h"

namespace engine_race::test {

class WatchedThread {
 public:
  template <typename RunFn>
  explicit WatchedThread(RunFn run)
      : thread_([this, run = std::move(run)] {
          thread_id_ = ::gettid();
          run();
          has_ended_ = true;
        }) {}
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;
  ~WatchedThread() {
    if (thread_.joinable()) thread_.join();
  }

  // Waits until the thread sleeps. A thread that was woken sleeps no more, even before it runs. So
  // one that sleeps until the caller wakes it has done all it can. False if it ends instead, or
  // never sleeps.
  bool AwaitSleep() const {
    return Eventually([this] { return has_ended_ || Sleeps(); }) && !has_ended_;
  }
  void Join() { thread_.join(); }

 private:
  bool Sleeps() const {
    if (thread_id_ == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(thread_id_) + "/stat");
    std::string line;
    std::getline(file, line);
    // The state follows the name, which is in parentheses and may have some itself.
    const size_t name_end = line.rfind(") ");
    return name_end != std::string::npos && line[name_end + 2] == 'S';
  }

  std::atomic<pid_t> thread_id_ = 0;  // 0 before it runs
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace engine_race::test

#endif  // TEST_WATCHED_THREAD_H_
