// The encodings that blocks are compared in: the engine's tree, and those that it is better than.
//
// Pure functions; thread-safe.
#ifndef HARNESS_LAB_ENCODING_H_
#define HARNESS_LAB_ENCODING_H_

#include <cstdint>

#include "harness/lab/engine_names.h"

namespace lab {

// Numbers of files on disk.
enum class Encoding : uint8_t {
  kRestart = 1,  // prefix compression with restart points: the baseline
  kSquare = 2,   // a tree of two levels, as wide as the square root of its run heads
  kTree = engine_race::l1::kTreeEncoding.number,
};

const BlockEncoding& BlocksIn(Encoding encoding);
// The encoding of a file; kNotSupported for a number that is none of these.
Status EncodingOf(const ExtentFile& file, Encoding* encoding);

}  // namespace lab

#endif  // HARNESS_LAB_ENCODING_H_
