// Finds the name that a mistyped word was meant to be.
//
// Stateless. May throw std::bad_alloc.
#ifndef ENGINE_RACE_BASE_NEAREST_NAME_H_
#define ENGINE_RACE_BASE_NEAREST_NAME_H_

#include <span>
#include <string>
#include <string_view>

namespace engine_race {

// The name with the fewest typing errors in `word`; the first one of several. A typing error is a
// character too many, too few or wrong, or two neighbours exchanged. Also the only name that
// begins with `word`. Empty when there is more than one error, and more than one for three
// characters of `word`.
std::string_view NearestName(std::string_view word, std::span<const std::string_view> names);

// "; did you mean NAME?", or nothing when no name is near.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> names);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_NEAREST_NAME_H_
