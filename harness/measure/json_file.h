// Writes a result where the user asked for it.
//
// Stateless, thread-safe.
#ifndef HARNESS_MEASURE_JSON_FILE_H_
#define HARNESS_MEASURE_JSON_FILE_H_

#include <nlohmann/json.hpp>
#include <string>

namespace harness {

// Replaces the file `path`, its folder made when missing. An empty path writes nothing and
// succeeds; false when it cannot be written.
bool SaveJson(const nlohmann::json& json, const std::string& path);

}  // namespace harness

#endif  // HARNESS_MEASURE_JSON_FILE_H_
