#include "test/power/crash_bias.h"

#include <algorithm>
#include <iterator>

namespace engine_race::test {

CrashBias CrashBias::KeepNone() {
  CrashBias bias;
  bias.keep = bias.keep_name = bias.mapped_last = 0;
  bias.mapped_synced = 1;
  return bias;
}

CrashBias CrashBias::Draw(Random* random, uint64_t end_id) {
  CrashBias bias;
  constexpr Shape kShapes[] = {Shape::kEach,       Shape::kEach,   Shape::kEach,  Shape::kAllButOne,
                               Shape::kOnlyNewest, Shape::kBefore, Shape::kBefore};
  bias.shape = kShapes[Below(random, std::size(kShapes))];
  constexpr double kChances[] = {0, 0.05, 0.5, 0.5, 0.95, 1};
  const auto chance = [&] { return kChances[Below(random, std::size(kChances))]; };
  bias.keep = chance();
  // The last few changes are where a history is cut in the most telling way.
  const uint64_t reach = Chance(random, 0.5) ? 8 : 200;
  bias.cut_id = end_id - std::min(end_id, Below(random, reach));
  bias.tear = Chance(random, 0.5) ? 0 : chance();
  bias.keep_name = chance();
  bias.mapped_last = chance();
  bias.mapped_synced = chance();
  bias.allocate_zeros = Chance(random, 0.25);
  return bias;
}

}  // namespace engine_race::test
