// Writes a result where the user asked for it, or to standard output.
//
// Stateless, thread-safe.
#ifndef HARNESS_MEASURE_RESULT_FILE_H_
#define HARNESS_MEASURE_RESULT_FILE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace engine_race::harness {

// Both replace the file `path` and make its folder when it is missing. An empty path writes nothing
// and succeeds. False when the file cannot be written.
bool SaveText(const std::string& text, const std::string& path);
bool SaveJson(const nlohmann::json& json, const std::string& path);

// Whether SaveText could write the file now. Makes its folder, and changes no file. A pipe, a
// device and a symlink that leads nowhere are taken on trust.
bool CanSave(const std::string& path);

// Prints to standard output and flushes it. False, with the reason in errno, for a full disk or a
// pipe that is not read any more.
bool PrintAll(const std::string& text);

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_RESULT_FILE_H_
