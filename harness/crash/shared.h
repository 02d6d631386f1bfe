// Memory shared with child processes, and the reports that they write into it.
//
// Mapped before the fork, owned by the parent, and intact whenever a child dies.
#ifndef HARNESS_CRASH_SHARED_H_
#define HARNESS_CRASH_SHARED_H_

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace engine_race::crash {

// Zeroed anonymous shared memory seen as an array. Elements must be fine as all zeroes. Not copied.
template <typename T>
class SharedArray {
 public:
  explicit SharedArray(size_t count) : count_(count) {
    void* data = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    data_ = static_cast<T*>(data);
  }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;
  ~SharedArray() { ::munmap(data_, count_ * sizeof(T)); }

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return count_; }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

// How far a child has come. A child passes through them in this order.
enum class Phase : uint32_t { kStart, kOpen, kWrite, kFirstRead, kVerify, kClose, kDone };
inline constexpr size_t kPhaseCount = 7;
inline const char* PhaseName(Phase phase) {
  constexpr const char* kNames[kPhaseCount] = {"start",  "open",  "write", "first read",
                                               "verify", "close", "done"};
  return kNames[static_cast<size_t>(phase)];
}

// The children's reports. Lines have a fixed length and are kept up to a fixed number; later ones
// are only counted.
class Report {
 public:
  Report() : body_(1) {}

  void SetPhase(Phase phase) { body_[0].phase.store(phase); }
  Phase phase() const { return body_[0].phase.load(); }

  // From any thread of any process.
  void AddViolation(std::string_view text) { body_[0].violations.Add(text); }
  uint32_t violation_count() const { return body_[0].violations.count.load(); }
  std::vector<std::string> Violations() const { return body_[0].violations.Lines(); }

  // A line from the engine's log callback.
  void AddLog(std::string_view text) { body_[0].log.Add(text); }
  std::vector<std::string> LogLines() const { return body_[0].log.Lines(); }

  // Counts records that verifications compared, by Read or by a visit of Range.
  void CountChecked(uint64_t count) { body_[0].checked.fetch_add(count); }
  uint64_t checked_count() const { return body_[0].checked.load(); }

  // Before each cycle. Keeps checked_count.
  void Clear();

 private:
  static constexpr size_t kLineBytes = 320;
  static constexpr uint32_t kLineCount = 64;
  struct LineList {
    void Add(std::string_view text);
    std::vector<std::string> Lines() const;
    void Clear();

    std::atomic<uint32_t> count;
    struct Line {
      std::atomic<uint32_t> size;
      char text[kLineBytes];
    } lines[kLineCount];
  };
  struct Body {
    std::atomic<Phase> phase;
    std::atomic<uint64_t> checked;
    LineList violations;
    LineList log;
  };
  SharedArray<Body> body_;
};

}  // namespace engine_race::crash

#endif  // HARNESS_CRASH_SHARED_H_
