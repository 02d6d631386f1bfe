// Threads of which a test can tell that they wait: that a call of theirs does not return.
//
// Not thread-safe: one thread has a watched one.
#ifndef TEST_WATCHED_THREAD_H_
#define TEST_WATCHED_THREAD_H_

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "test/eventually.h"

namespace engine_race::test {

// Whether a thread of this process sleeps. A thread that was woken sleeps no more, even before it
// runs.
inline bool ThreadSleeps(const std::string& thread_id) {
  std::ifstream file("/proc/self/task/" + thread_id + "/stat");
  std::string line;
  std::getline(file, line);
  // The state follows the name, which is in parentheses and may have some itself.
  const size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'S';
}

// Waits until the threads of this process with this name sleep, if there are any.
inline bool AwaitSleepOf(const std::string& name) {
  return Eventually([&name] {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string its_name;
      std::getline(std::ifstream(thread.path() / "comm"), its_name);
      if (its_name == name && !ThreadSleeps(thread.path().filename())) return false;
    }
    return true;
  });
}

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

  // Waits until the thread sleeps. One that sleeps until the caller wakes it has done all it can.
  // False if it ends instead, or never sleeps.
  bool AwaitSleep() const {
    return Eventually([this] { return has_ended_ || Sleeps(); }) && !has_ended_;
  }
  void Join() { thread_.join(); }

 private:
  bool Sleeps() const { return thread_id_ != 0 && ThreadSleeps(std::to_string(thread_id_)); }

  std::atomic<pid_t> thread_id_ = 0;  // 0 before it runs
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace engine_race::test

#endif  // TEST_WATCHED_THREAD_H_
