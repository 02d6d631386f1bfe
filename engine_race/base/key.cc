#include "engine_race/base/key.h"

#include <string>

#include "engine_race/base/guarded.h"

namespace engine_race {

Status CheckKey(std::string_view key) noexcept {
  if (IsKey(key)) [[likely]] {
    return Status::Ok();
  }
  return GuardedAs(Code::kInvalidArgument, [key] {
    return Status::InvalidArgument("a key has " + std::to_string(kKeyBytes) + " bytes, not " +
                                   std::to_string(key.size()));
  });
}

Status CheckKeyOf(const KeyRange& keys, std::string_view key) noexcept {
  if (IsKey(key) && keys.Contains(DecodeKey(key.data()))) [[likely]] {
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key));
  return GuardedAs(Code::kInvalidArgument, [&] {
    return Status::InvalidArgument("the key " + std::to_string(DecodeKey(key.data())) +
                                   " is outside of the store's key_range, " + ToString(keys));
  });
}

std::string ToString(const KeyRange& keys) {
  return std::to_string(keys.first) + "-" + std::to_string(keys.last);
}

}  // namespace engine_race
