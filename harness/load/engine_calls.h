// How a thread of the contest's phases calls this engine; see contest_phases.h.
//
// For one thread at a time; copies are for others.
#ifndef HARNESS_LOAD_ENGINE_CALLS_H_
#define HARNESS_LOAD_ENGINE_CALLS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/key.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"

namespace engine_race::harness {

class EngineCalls {
 public:
  static constexpr uint64_t kVisitsPerLook = 1024;

  explicit EngineCalls(Store* store) : store_(store), value_bytes_(store->value_bytes()) {}

  Status Write(uint64_t key, const char* value) {
    return store_->Write(KeyBytes(key).view(), {value, value_bytes_});
  }
  Status Read(uint64_t key, const char** value) {
    ENGINE_RACE_RETURN_IF_ERROR(store_->Read(KeyBytes(key).view(), &value_));
    *value = value_.data();
    if (value_.size() == value_bytes_) return Status::Ok();
    return Status::Corruption("a value of " + std::to_string(value_.size()) + " bytes");
  }
  template <typename Visit>
  Status Range(const Visit& visit) {
    return store_->Range({}, {}, visit);
  }

 private:
  Store* const store_;
  const uint32_t value_bytes_;
  std::string value_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_ENGINE_CALLS_H_
