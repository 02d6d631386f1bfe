#include "harness/claims/bench_end.h"

#include <cstdio>

#include "harness/measure/result_file.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"

namespace harness {

int RefuseBench(const char* program, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program, why.c_str());
  return kExitRefused;
}

std::string WhyNoRoom(const std::string& dir, uint64_t needed_bytes) {
  const uint64_t free_bytes = FreeBytes(dir);
  if (needed_bytes <= free_bytes) return {};
  return std::to_string(needed_bytes) + " bytes of disk needed, " + std::to_string(free_bytes) +
         " free in " + dir;
}

int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path) {
  // Before the table: a closed pipe may end the process that prints.
  const bool saved = SaveJson(json, json_path);
  std::printf("%s", table.c_str());
  for (const std::string& what : errors) std::printf("FAILED: %s\n", what.c_str());
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!saved) return RefuseBench(program, "cannot write " + json_path);
  if (Interrupted()) return kExitInterrupted;
  if (!printed) std::fprintf(stderr, "%s: cannot print to standard output\n", program);
  return errors.empty() && printed ? kExitDone : kExitFailure;
}

}  // namespace harness
