#include "engine_race/base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace engine_race {
namespace {

// The optimal string alignment distance. Words are short: the work is the product of their lengths.
size_t TypingErrors(std::string_view word, std::string_view name) {
  // Row i has the distances of the first i characters of `word` from each start of `name`.
  std::vector<std::vector<size_t>> rows(word.size() + 1, std::vector<size_t>(name.size() + 1));
  for (size_t j = 0; j <= name.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= word.size(); ++i) {
    rows[i][0] = i;
    for (size_t j = 1; j <= name.size(); ++j) {
      const size_t wrong = word[i - 1] == name[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + wrong});
      if (i > 1 && j > 1 && word[i - 1] == name[j - 2] && word[i - 2] == name[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[word.size()][name.size()];
}

}  // namespace

std::string_view NearestName(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) return {};
  std::string_view nearest;
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string_view name : names) {
    const size_t errors = TypingErrors(word, name);
    // A name of one character is near every other one.
    if (errors >= least || errors >= name.size()) continue;
    least = errors;
    nearest = name;
  }
  if (!nearest.empty()) return nearest;
  for (const std::string_view name : names) {
    if (!name.starts_with(word)) continue;
    if (!nearest.empty()) return {};
    nearest = name;
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view nearest = NearestName(word, names);
  return nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace engine_race
