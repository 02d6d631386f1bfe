// The encodings of blocks that are compared: the engine's tree, and those that it is measured
// against.
//
// Pure functions; thread-safe.
#ifndef HARNESS_LAB_ENCODING_H_
#define HARNESS_LAB_ENCODING_H_

#include <cstdint>

#include "harness/lab/block_builder.h"
#include "harness/lab/engine_names.h"
#include "harness/lab/extent_file.h"
#include "harness/lab/tree_block.h"

namespace lab {

// The values are stored in files.
enum class Encoding : uint8_t {
  kRestart = 1,  // prefix compression with restart points: the baseline
  kSquare = 2,   // a tree of two levels, whose fanout is the square root of the number of runs
  kTree = lab::kTreeEncoding.number,
};

const BlockEncoding& BlocksIn(Encoding encoding);
// The encoding of a file; kNotSupported for an unknown number.
Status EncodingOf(const ExtentFile& file, Encoding* encoding);

}  // namespace lab

#endif  // HARNESS_LAB_ENCODING_H_
