// Where a read puts the bytes of a value: a string, or memory of the caller. A value.
#ifndef ENGINE_RACE_BASE_VALUE_SINK_H_
#define ENGINE_RACE_BASE_VALUE_SINK_H_

#include <cstddef>
#include <cstring>
#include <string>

#include "engine_race/base/assert.h"

namespace engine_race {

class ValueSink {
 public:
  ValueSink() = default;                             // not set
  ValueSink(std::string* value) : string_(value) {}  // NOLINT(google-explicit-constructor)
  explicit ValueSink(char* value) : bytes_(value) {}

  bool is_set() const { return bytes_ != nullptr || string_ != nullptr; }
  // Copies the value. A string may throw std::bad_alloc.
  void Put(const char* value, size_t size) const {
    ENGINE_RACE_ASSERT(is_set());
    if (bytes_ != nullptr) {
      std::memcpy(bytes_, value, size);
    } else {
      string_->assign(value, size);
    }
  }

 private:
  char* bytes_ = nullptr;
  std::string* string_ = nullptr;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_VALUE_SINK_H_
