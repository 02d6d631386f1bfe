// How far a key file and its value file have grown.
//
// Thread safety: `is_open` and `room` are read by any thread. They are changed by an opening's
// thread, or under the mutex.
#ifndef ENGINE_RACE_LOG_FILE_GROWTH_H_
#define ENGINE_RACE_LOG_FILE_GROWTH_H_

#include <atomic>
#include <cstdint>
#include <mutex>

namespace engine_race {

struct FileGrowth {
  // Each file has one: ftruncate waits for the writes to the file that are under way.
  std::mutex mutex;
  std::atomic<bool> is_open{false};
  std::atomic<uint64_t> room{0};  // for so many places; 0 before they are open
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_FILE_GROWTH_H_
