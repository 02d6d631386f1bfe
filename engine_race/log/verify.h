// Reads a store from end to end and compares everything with its checksums, changing nothing.
#ifndef ENGINE_RACE_LOG_VERIFY_H_
#define ENGINE_RACE_LOG_VERIFY_H_

#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/verify_report.h"

namespace engine_race {

// Verifies the store in `dir`, which nobody may have open. `on_bad`, which may be empty, is called
// from several threads, one at a time. Ok, kCorruption when something is bad, or why the store
// could not be read.
// `paths` may say where its paths have moved to.
Status VerifyStore(const std::string& dir, VerifyReport* report, const BadRecordFn& on_bad,
                   const std::vector<std::string>& paths = {});

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_VERIFY_H_
