#include "engine_race/scan/snapshot.h"

#include "engine_race/index/views.h"

namespace engine_race {

void Snapshot::ReleaseView() noexcept { ViewRegistry::Release(&view_); }

}  // namespace engine_race
