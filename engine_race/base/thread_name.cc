#include "engine_race/base/thread_name.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace engine_race {
namespace {

constexpr size_t kMaxNameBytes = 15;
using Name = std::array<char, kMaxNameBytes + 1>;

// Copies what fits, and returns the end.
char* CopyName(const char* name, Name* copy) noexcept {
  return std::copy_n(name, std::min(std::strlen(name), kMaxNameBytes), copy->data());
}

}  // namespace

void NameThread(const char* name) noexcept {
  Name copy = {};
  CopyName(name, &copy);
  // A thread without its name works as well.
  static_cast<void>(::pthread_setname_np(::pthread_self(), copy.data()));
}

void NameThread(const char* name, uint32_t number) noexcept {
  Name copy = {};
  char* end = CopyName(name, &copy);
  char* const limit = copy.data() + kMaxNameBytes;
  if (end < limit) *end++ = '-';
  std::array<char, 16> digits;
  const auto printed = std::to_chars(digits.begin(), digits.end(), number);
  std::copy_n(digits.begin(), std::min(printed.ptr - digits.data(), limit - end), end);
  NameThread(copy.data());
}

}  // namespace engine_race
