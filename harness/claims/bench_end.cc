#include "harness/claims/bench_end.h"

#include <cstdio>

#include "harness/measure/result_file.h"
#include "harness/system/child_process.h"
#include "harness/system/exit_codes.h"

namespace engine_race::harness {

int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path) {
  // Before the table: a closed pipe may end the process that prints.
  const bool saved = SaveJson(json, json_path);
  std::printf("%s", table.c_str());
  for (const std::string& what : errors) std::printf("FAILED: %s\n", what.c_str());
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!saved) return Refuse(program, "cannot write " + json_path);
  if (Interrupted()) return kExitInterrupted;
  if (!printed) std::fprintf(stderr, "%s: cannot print to standard output\n", program);
  return errors.empty() && printed ? kExitDone : kExitFailure;
}

}  // namespace engine_race::harness
