#include "engine_race/scan/key_range.h"

#include <string>

#include "engine_race/base/key.h"

namespace engine_race {
namespace {

Status CheckBound(std::string_view bound) {
  if (bound.empty() || IsKey(bound)) return Status::Ok();
  return Status::InvalidArgument("a bound is empty or has " + std::to_string(kKeyBytes) +
                                 " bytes, not " + std::to_string(bound.size()));
}

}  // namespace

Status ParseBounds(std::string_view lower, std::string_view upper, KeyRange* range) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckBound(lower));
  ENGINE_RACE_RETURN_IF_ERROR(CheckBound(upper));
  *range = KeyRange();
  if (!lower.empty()) range->first = DecodeKey(lower.data());
  if (upper.empty()) return Status::Ok();
  const uint64_t end = DecodeKey(upper.data());
  if (end > range->first) {
    range->last = end - 1;
  } else {
    *range = {1, 0};
  }
  return Status::Ok();
}

}  // namespace engine_race
