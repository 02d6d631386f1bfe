// The state of a store that a snapshot pins, as the registry of views names it.
//
// Plain data: its holder must release it. engine_race/index/views.h takes, renews and releases it.
#ifndef ENGINE_RACE_BASE_PINNED_VIEW_H_
#define ENGINE_RACE_BASE_PINNED_VIEW_H_

#include <cstdint>

namespace engine_race {

class ViewRegistry;

// Pins nothing when default-made.
struct PinnedView {
  ViewRegistry* registry = nullptr;
  uint64_t version = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PINNED_VIEW_H_
