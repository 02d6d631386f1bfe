// A view of bytes that somebody else owns: a pointer and a size, as the contest defines it.
//
// Copying copies the view, never the bytes; the bytes must outlive every view of them. Not
// synchronised. C++11, because judging programs include it.
#ifndef INCLUDE_POLAR_STRING_H_
#define INCLUDE_POLAR_STRING_H_

#include <cstddef>
#include <cstring>
#include <string>

namespace polar_race {

class PolarString {
 public:
  PolarString() : data_(""), size_(0) {}
  PolarString(const char* data, size_t size) : data_(data), size_(size) {}
  // Implicit on purpose: the contest's programs pass both where a PolarString is asked for.
  PolarString(const std::string& s) : data_(s.data()), size_(s.size()) {}             // NOLINT
  PolarString(const char* s) : data_(s), size_(s == nullptr ? 0 : std::strlen(s)) {}  // NOLINT

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // n < size().
  char operator[](size_t n) const { return data_[n]; }

  void clear() {
    data_ = "";
    size_ = 0;
  }

  std::string ToString() const { return empty() ? std::string() : std::string(data_, size_); }

  // Below zero, zero or above zero as *this sorts before, with or after b, bytes being unsigned.
  int compare(const PolarString& b) const {
    const size_t common = size_ < b.size_ ? size_ : b.size_;
    const int order = common == 0 ? 0 : std::memcmp(data_, b.data_, common);
    if (order != 0) return order;
    return size_ == b.size_ ? 0 : (size_ < b.size_ ? -1 : 1);
  }

  bool starts_with(const PolarString& x) const {
    return size_ >= x.size_ && (x.size_ == 0 || std::memcmp(data_, x.data_, x.size_) == 0);
  }

  bool ends_with(const PolarString& x) const {
    return size_ >= x.size_ &&
           (x.size_ == 0 || std::memcmp(data_ + size_ - x.size_, x.data_, x.size_) == 0);
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(const PolarString& a, const PolarString& b) {
  return a.size() == b.size() && a.compare(b) == 0;
}

inline bool operator!=(const PolarString& a, const PolarString& b) { return !(a == b); }

}  // namespace polar_race

#endif  // INCLUDE_POLAR_STRING_H_
