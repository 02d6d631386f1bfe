#include "engine_race/scan/bounds.h"

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

Status ParseBounds(std::string_view lower, std::string_view upper, const KeyRange& keys,
                   KeyRange* range) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckBound(lower));
  ENGINE_RACE_RETURN_IF_ERROR(CheckBound(upper));
  KeyRange wanted;
  if (!lower.empty()) wanted.first = DecodeKey(lower.data());
  const uint64_t end = upper.empty() ? 0 : DecodeKey(upper.data());
  if (!upper.empty() && end <= wanted.first) {
    *range = {1, 0};
    return Status::Ok();
  }
  if (!upper.empty()) wanted.last = end - 1;
  *range = wanted.ClippedTo(keys);
  if (range->empty()) *range = {1, 0};
  return Status::Ok();
}

}  // namespace engine_race
