// Log queues of the C API.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "engine_race/base/guarded.h"
#include "engine_race/base/log_queue.h"
#include "engine_race/c_handles.h"
#include "include/engine_race_c.h"

using engine_race::Guarded;
using engine_race::LogLevel;
using engine_race::LogQueue;
using engine_race::Status;
using engine_race::c_api::Answer;
using engine_race::c_api::BadArgument;
using engine_race::c_api::IsStructSize;
using engine_race::c_api::NullArgument;

namespace {

// As of version 0.9; no padding.
constexpr size_t kLogMessageBytes = 3 * sizeof(uint64_t) + ENGINE_RACE_LOG_TEXT_BYTES;
static_assert(sizeof(engine_race_log_message) == kLogMessageBytes);

// Callers read the number as one of their own.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace

extern "C" {

int engine_race_log_queue_create(size_t max_count, engine_race_log_queue** queue) {
  if (queue == nullptr) return NullArgument();
  *queue = nullptr;
  return Answer(Guarded([&] {
    auto made = std::make_unique<engine_race_log_queue>();
    ENGINE_RACE_RETURN_IF_ERROR(LogQueue::Make(max_count, &made->queue));
    *queue = made.release();
    return Status::Ok();
  }));
}

void engine_race_log_queue_destroy(engine_race_log_queue* queue) { delete queue; }

int engine_race_options_set_log_queue(engine_race_options* options, engine_race_log_queue* queue) {
  if (options == nullptr) return NullArgument();
  return Answer(Guarded([&] {
    options->options.log = nullptr;
    if (queue == nullptr) return Status::Ok();
    options->options.log = [kept = queue->queue](LogLevel level, std::string_view message) {
      kept->Put(level, message);
    };
    return Status::Ok();
  }));
}

const volatile uint32_t* engine_race_log_queue_waiting(const engine_race_log_queue* queue) {
  if (queue == nullptr) return nullptr;
  return reinterpret_cast<const volatile uint32_t*>(&queue->queue->waiting_count());
}

int engine_race_log_queue_take(engine_race_log_queue* queue, engine_race_log_message* message) {
  if (queue == nullptr || message == nullptr) return NullArgument();
  if (!IsStructSize(message->struct_bytes, kLogMessageBytes)) {
    return BadArgument("struct_bytes of the message is not its size");
  }
  LogQueue::Message taken;
  // Not an error, so that the message of the thread's last failure stays.
  if (!queue->queue->Take(&taken)) return ENGINE_RACE_NOT_FOUND;
  const size_t struct_bytes = message->struct_bytes;
  // Members that a newer header has are 0.
  std::memset(message, 0, struct_bytes);
  message->struct_bytes = struct_bytes;
  message->level = static_cast<uint64_t>(taken.level);
  message->time_ns = taken.time_ns;
  std::memcpy(message->text, taken.text.data(),
              std::min<size_t>(taken.text.size(), ENGINE_RACE_LOG_TEXT_BYTES - 1));
  return ENGINE_RACE_OK;
}

}  // extern "C"
