#include "harness/measure/table.h"

#include <algorithm>
#include <cstdio>

namespace engine_race::harness {

std::string Table::ToString() const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string& cell = rows_[r][i];
      const std::string space(widths[i] - cell.size(), ' ');
      if (i == 0) {
        text.append(cell).append(space);
      } else {
        text.append(2, ' ').append(space).append(cell);
      }
    }
    text += '\n';
    if (r != 0) continue;
    size_t width = 2 * (widths.size() - 1);
    for (const size_t column : widths) width += column;
    text += std::string(width, '-') + '\n';
  }
  return text;
}

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string Duration(double ns) {
  if (ns < 1e3) return Fixed(ns, 0) + " ns";
  if (ns < 1e6) return Fixed(ns * 1e-3, 1) + " us";
  if (ns < 1e9) return Fixed(ns * 1e-6, 2) + " ms";
  return Fixed(ns * 1e-9, 2) + " s";
}

}  // namespace engine_race::harness
