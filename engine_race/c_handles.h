// The handles of the C API, and the answers of its calls. For the sources of the C API alone.
//
// Thread safety: see include/engine_race_c.h.
#ifndef ENGINE_RACE_C_HANDLES_H_
#define ENGINE_RACE_C_HANDLES_H_

#include <cstddef>
#include <memory>
#include <string>

#include "engine_race/base/log_queue.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "include/engine_race_c.h"

struct engine_race_store {
  engine_race_store() : living(std::make_shared<engine_race::Store*>(nullptr)) {}
  engine_race_store(const engine_race_store&) = delete;
  engine_race_store& operator=(const engine_race_store&) = delete;
  // Reads that were started may use snapshots until the last one is done.
  ~engine_race_store() {
    store.reset();
    *living = nullptr;
  }

  std::unique_ptr<engine_race::Store> store;
  // Shared with snapshots: the store, or null once it is closed. Without a lock, because no
  // snapshot is in use while a store closes.
  std::shared_ptr<engine_race::Store*> living;
};
struct engine_race_options {
  engine_race::Options options;
};
// Shared with the stores that log into it.
struct engine_race_log_queue {
  std::shared_ptr<engine_race::LogQueue> queue;
};
struct engine_race_snapshot {
  engine_race::Snapshot snapshot;
  std::shared_ptr<engine_race::Store*> living;
};
struct engine_race_iterator {
  engine_race::Iterator iterator;
};

namespace engine_race::c_api {

// The code of a call. Keeps the message of a failure for the calling thread.
int Answer(const Status& status);
int BadArgument(const char* why);
int NullArgument();

// Copies a text into memory of malloc, which callers of C free.
Status CopyText(const std::string& text, char** copy);

// Whether a caller's structure can be used: it is no shorter than in version 0.9, which had
// `first_bytes`, and not absurdly long.
bool IsStructSize(size_t struct_bytes, size_t first_bytes);

}  // namespace engine_race::c_api

#endif  // ENGINE_RACE_C_HANDLES_H_
