#include "engine_race/base/key.h"

#include <new>
#include <string>

namespace engine_race {

Status CheckKey(std::string_view key) noexcept {
  if (IsKey(key)) [[likely]] {
    return Status::Ok();
  }
  try {
    return Status::InvalidArgument("a key has " + std::to_string(kKeyBytes) + " bytes, not " +
                                   std::to_string(key.size()));
  } catch (const std::bad_alloc&) {
    return Status(Code::kInvalidArgument, {});
  }
}

Status CheckKeyOf(const KeyRange& keys, std::string_view key) noexcept {
  if (IsKey(key) && keys.Contains(DecodeKey(key.data()))) [[likely]] {
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key));
  try {
    return Status::InvalidArgument("the key " + HexKey(DecodeKey(key.data())) +
                                   " is outside of the store's keys, " + ToString(keys));
  } catch (const std::bad_alloc&) {
    return Status(Code::kInvalidArgument, {});
  }
}

std::string HexKey(uint64_t key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x0000000000000000";
  for (size_t i = text.size(); key != 0; key >>= 4) text[--i] = kDigits[key & 15];
  return text;
}

std::string ToString(const KeyRange& keys) {
  return "from " + HexKey(keys.first) + " to " + HexKey(keys.last);
}

}  // namespace engine_race
