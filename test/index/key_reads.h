// Hooks that count, fail and hold up reads of key entries.
//
// Thread-safe.
#ifndef TEST_INDEX_KEY_READS_H_
#define TEST_INDEX_KEY_READS_H_

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "engine_race/log/format.h"
#include "test/faults/system_calls.h"

namespace engine_race::test {

inline bool ReadsKeyLog(const SystemCall& call) {
  return call.kind == CallKind::kPread && PathOfFd(call.fd).find("/key_0") != std::string::npos;
}

inline bool ReadsKeys(const SystemCall& call) {
  return ReadsKeyLog(call) ||
         (call.kind == CallKind::kPread && PathOfFd(call.fd).ends_with(format::kStagingKeysName));
}

// Counts the reads of key entries, and fails them while it is told to.
class KeyReads : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (!ReadsKeys(*call)) return call->Proceed();
    ++count;
    if (!fails) return call->Proceed();
    errno = EIO;
    return -1;
  }
  std::atomic<uint64_t> count{0};
  std::atomic<bool> fails{false};
};

// Holds up the reads of key logs until it is told to go on.
class HeldKeyReads : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (!ReadsKeyLog(*call)) return call->Proceed();
    is_held = true;
    while (!goes_on) std::this_thread::yield();
    return call->Proceed();
  }
  std::atomic<bool> is_held{false};
  std::atomic<bool> goes_on{false};
};

// Holds up reads of key entries until two threads have begun one, for two minutes at most.
class PairsOfKeyReads : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (ReadsKeys(*call)) {
      std::unique_lock lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      came_.notify_all();
      gave_up_ = gave_up_ || !came_.wait_for(lock, std::chrono::minutes(2),
                                             [this] { return threads_.size() > 1; });
    }
    return call->Proceed();
  }
  size_t thread_count() {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::set<std::thread::id> threads_;
  bool gave_up_ = false;
};

}  // namespace engine_race::test

#endif  // TEST_INDEX_KEY_READS_H_
