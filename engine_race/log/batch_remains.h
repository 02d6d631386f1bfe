// The part of a large batch that is left to be appended when its appends were interrupted.
//
// A batch holds its buckets from its commit on. So the last records of a bucket are the first ones
// of its part, as far as an earlier opening came. They need no room a second time.
//
// Thread safety: while no other thread knows the log.
#ifndef ENGINE_RACE_LOG_BATCH_REMAINS_H_
#define ENGINE_RACE_LOG_BATCH_REMAINS_H_

#include "engine_race/base/status.h"
#include "engine_race/log/batch_plan.h"
#include "engine_race/log/log_context.h"

namespace engine_race {

// Takes out of the plan's parts the records that were appended. A part may be empty then.
Status LeaveOutAppended(LogContext* context, BatchPlan* plan);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BATCH_REMAINS_H_
