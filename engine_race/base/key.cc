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

}  // namespace engine_race
