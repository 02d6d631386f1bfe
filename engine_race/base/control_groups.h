// The control groups of this process, as the files of the kernel describe them.
//
// Thread-safe. A pure function of the files that it is given.
#ifndef ENGINE_RACE_BASE_CONTROL_GROUPS_H_
#define ENGINE_RACE_BASE_CONTROL_GROUPS_H_

#include <functional>
#include <string>
#include <string_view>

#include "engine_race/base/function_ref.h"

namespace engine_race {

// The contents of a file; empty when it cannot be read.
using FileReaderFn = std::function<std::string(const std::string& path)>;
// Gets the directory of a group, and whether its hierarchy is cgroup v2's.
using GroupFn = FunctionRef<void(const std::string& directory, bool unified)>;

// Visits the process's groups in cgroup v2 and in v1's hierarchy of `controller`, such as "cpu",
// and all visible groups above them. Reads "/proc/self/cgroup" and "/proc/self/mountinfo".
void VisitControlGroups(const FileReaderFn& read, std::string_view controller, GroupFn visit);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_CONTROL_GROUPS_H_
