// All encodings of blocks, for tests that are run with each of them.
//
// Header only, stateless.
#ifndef TEST_HARNESS_LAB_ENCODINGS_H_
#define TEST_HARNESS_LAB_ENCODINGS_H_

#include <array>

#include "harness/lab/encoding.h"

namespace engine_race::test {

inline constexpr std::array kEncodings = {lab::Encoding::kRestart, lab::Encoding::kSquare,
                                          lab::Encoding::kTree};

}  // namespace engine_race::test

#endif  // TEST_HARNESS_LAB_ENCODINGS_H_
