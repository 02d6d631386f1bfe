// A table of text with its columns lined up, and the formats of the numbers in it.
//
// Plain values; not synchronised.
#ifndef HARNESS_MEASURE_TABLE_H_
#define HARNESS_MEASURE_TABLE_H_

#include <string>
#include <vector>

namespace harness {

class Table {
 public:
  explicit Table(std::vector<std::string> heads) : rows_{std::move(heads)} {}
  // As many cells as there are heads.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // The first column to the left, the others to the right, a rule below the heads.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "1234.57" with `digits` = 2.
std::string Fixed(double value, int digits);
// Nanoseconds as "812 ns", "12.3 us", "4.56 ms" or "1.20 s".
std::string Duration(double ns);

}  // namespace harness

#endif  // HARNESS_MEASURE_TABLE_H_
