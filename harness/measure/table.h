// A table of text with its columns lined up, the formats of the numbers in it, and files of
// results.
#ifndef HARNESS_MEASURE_TABLE_H_
#define HARNESS_MEASURE_TABLE_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace engine_race::harness {

class Table {
 public:
  explicit Table(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  // Must have as many cells as there are heads.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Aligns the first column to the left and the others to the right, with a rule below the heads.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "1234.57" with `digits` = 2.
std::string Fixed(double value, int digits);
// Nanoseconds as "812 ns", "12.3 us", "4.56 ms" or "1.20 s".
std::string Duration(double ns);

// The whole file; nothing when it cannot be read.
std::optional<std::string> LoadText(const std::string& path);
// The JSON in a file; null when there is none.
nlohmann::json LoadJson(const std::string& path);

// Writes a result where the user asked for it, or to standard output.

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

#endif  // HARNESS_MEASURE_TABLE_H_
