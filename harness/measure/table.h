// A table of text with its columns lined up, and the formats of the numbers in it.
//
// Not thread-safe.
#ifndef HARNESS_MEASURE_TABLE_H_
#define HARNESS_MEASURE_TABLE_H_

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

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_TABLE_H_
