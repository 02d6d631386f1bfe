#include "engine_race/io/failed_backends.h"

#include <string>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/io/read_queue.h"

namespace engine_race::io {
namespace {

// kAuto begins with io_uring.
IoBackend FirstOf(IoBackend wanted) {
  return wanted == IoBackend::kAuto ? IoBackend::kIoUring : wanted;
}

}  // namespace

IoBackend FailedBackends::InPlaceOf(IoBackend wanted) const {
  IoBackend backend = wanted;
  // Relaxed: a queue of a failed back end fails again, and is replaced then. psync never fails.
  while (has_failed_[static_cast<size_t>(FirstOf(backend))].load(std::memory_order_relaxed)) {
    backend = ReadQueue::NextBest(FirstOf(backend));
  }
  return backend;
}

void FailedBackends::Note(IoBackend backend, bool has_read, const Status& why) noexcept {
  ENGINE_RACE_ASSERT(backend != IoBackend::kAuto && backend != IoBackend::kPsync);
  const bool is_refused = why.code() == Code::kNotSupported;
  const auto number = static_cast<size_t>(backend);
  bool is_for_good = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    History& history = histories_[number];
    history.failed_queue_count = has_read ? 0 : history.failed_queue_count + 1;
    is_for_good = is_refused || history.failed_queue_count == kMaxFailedQueues;
    // Relaxed, here and below: as above.
    if (has_failed_[number].load(std::memory_order_relaxed)) return;
    if (is_for_good) has_failed_[number].store(true, std::memory_order_relaxed);
    if (!is_for_good && history.is_reported) return;
    history.is_reported = true;
  }
  // Without memory for the message nothing is reported.
  (void)Guarded([&] {
    const std::string name = BackendName(backend);
    std::string text;
    if (!is_for_good) {
      text = "a queue of " + name + " has failed, its reads are done again: ";
    } else {
      text = is_refused ? "the system refuses " + name
                        : std::to_string(kMaxFailedQueues) + " queues of " + name +
                              " in a row have failed";
      text +=
          ": reads go through " + std::string(BackendName(InPlaceOf(backend))) + " from now on: ";
    }
    Log(log_, LogLevel::kWarning, text + why.ToString());
    return Status::Ok();
  });
}

}  // namespace engine_race::io
