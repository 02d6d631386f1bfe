// Files of rows as programs of others write them, for tests.
#ifndef TEST_HARNESS_TOOLS_ROW_FILES_H_
#define TEST_HARNESS_TOOLS_ROW_FILES_H_

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "test/test_util.h"

namespace engine_race::harness {

inline void WriteWhole(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The start of a file that numpy.save makes, up to the rows: 128 bytes of version 1.
inline std::string NpyStart(const std::string& type, const std::string& shape,
                            const std::string& is_fortran = "False") {
  using std::string_literals::operator""s;
  std::string start = "\x93NUMPY\1\0v\0"s + "{'descr': " + type +
                      ", 'fortran_order': " + is_fortran + ", 'shape': " + shape + ", }";
  start.resize(127, ' ');
  return start + "\n";
}

// Rows of so many bytes: ValueOf(row, version).
inline std::string NpyOfValues(uint64_t count, uint64_t version = 1,
                               uint32_t value_bytes = kValueBytes) {
  std::string bytes =
      NpyStart("'<f4'", "(" + std::to_string(count) + ", " + std::to_string(value_bytes / 4) + ")");
  for (uint64_t row = 0; row < count; ++row) bytes += test::ValueOf(row, version, value_bytes);
  return bytes;
}

inline std::string NpyOfKeys(const std::vector<uint64_t>& keys, const std::string& type = "'<u8'") {
  const auto* const words = reinterpret_cast<const char*>(keys.data());
  return NpyStart(type, "(" + std::to_string(keys.size()) + ",)") +
         std::string(words, keys.size() * sizeof(uint64_t));
}

// A record for each key, with ValueOf(its place, version).
inline std::string RecordsOf(const std::vector<uint64_t>& keys, uint64_t version = 1,
                             uint32_t value_bytes = kValueBytes) {
  std::string bytes;
  for (size_t i = 0; i < keys.size(); ++i)
    bytes += test::KeyOf(keys[i]) + test::ValueOf(i, version, value_bytes);
  return bytes;
}

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_TOOLS_ROW_FILES_H_
