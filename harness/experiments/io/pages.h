// The bytes written for an update when only whole pages can be written.
//
// Pure functions.
#ifndef HARNESS_EXPERIMENTS_IO_PAGES_H_
#define HARNESS_EXPERIMENTS_IO_PAGES_H_

#include <cstdint>

namespace harness {

// The pages that an update touches when it begins at the start of a page.
constexpr uint64_t PagesTouched(uint64_t update_bytes, uint64_t page_bytes) {
  return (update_bytes + page_bytes - 1) / page_bytes;
}

// Bytes written for each changed byte.
constexpr double WriteAmplification(uint64_t update_bytes, uint64_t page_bytes) {
  return static_cast<double>(PagesTouched(update_bytes, page_bytes) * page_bytes) /
         static_cast<double>(update_bytes);
}

}  // namespace harness

#endif  // HARNESS_EXPERIMENTS_IO_PAGES_H_
