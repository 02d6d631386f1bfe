// Shared by the judging programs: cases that are counted, checks, keys, values, a directory.
//
// C++11, and nothing of the engine but the contest's headers. A failed check is printed and fails
// its case; checks may be made by any thread. Each program prints a line for every case, "ok" or
// "FAILED" and its name, which scripts/test_judges.sh counts.
#ifndef TEST_JUDGES_JUDGE_H_
#define TEST_JUDGES_JUDGE_H_

#include <stdint.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace judge {

static const size_t kKeyBytes = 8;
static const size_t kValueBytes = 4096;

inline std::atomic<int>& FailedChecks() {
  static std::atomic<int> count(0);
  return count;
}

inline bool Check(bool holds, const char* what, const char* file, int line) {
  // The first few say enough.
  if (!holds && FailedChecks()++ < 10) std::printf("%s:%d: not so: %s\n", file, line, what);
  return holds;
}

#define JUDGE_CHECK(expression) ::judge::Check((expression), #expression, __FILE__, __LINE__)

// Big-endian, so that keys sort as their numbers do.
inline std::string Key(uint64_t number) {
  std::string key(kKeyBytes, '\0');
  for (size_t i = 0; i < kKeyBytes; ++i) {
    key[i] = static_cast<char>(number >> (8 * (kKeyBytes - 1 - i)));
  }
  return key;
}

inline uint64_t Number(const char* key) {
  uint64_t number = 0;
  for (size_t i = 0; i < kKeyBytes; ++i) {
    number = (number << 8) | static_cast<unsigned char>(key[i]);
  }
  return number;
}

// A bijection, so that keys fall into every bucket.
inline uint64_t Spread(uint64_t number) { return number * 0x9e3779b97f4a7c15ull; }

// Every word tells key, version and its place.
inline std::string Value(uint64_t number, uint64_t version) {
  std::string value(kValueBytes, '\0');
  for (size_t i = 0; i < kValueBytes; i += sizeof(uint64_t)) {
    const uint64_t word = Spread(number + 1) ^ (version << 32) ^ i;
    std::memcpy(&value[i], &word, sizeof(word));
  }
  return value;
}

// Calls body(thread number) in `count` threads at once.
template <typename Body>
void InThreads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

// A directory for this program's stores, removed with them at the end.
class Directory {
 public:
  Directory() {
    const char* parent = std::getenv("TMPDIR");
    path_ = std::string(parent == nullptr ? "/tmp" : parent) + "/judge.XXXXXX";
    if (mkdtemp(&path_[0]) == nullptr) {
      std::perror(path_.c_str());
      std::exit(2);
    }
  }
  ~Directory() {
    if (std::system(("rm -rf '" + path_ + "'").c_str()) != 0) std::perror(path_.c_str());
  }
  std::string Store(const std::string& name) const { return path_ + "/" + name; }

 private:
  Directory(const Directory&);
  Directory& operator=(const Directory&);

  std::string path_;
};

// Runs one case in a directory of its own; true when every check in it held.
template <typename Body>
bool RunCase(const char* name, const Body& body) {
  FailedChecks() = 0;
#ifdef __cpp_exceptions
  try {
    Directory directory;
    body(directory);
  } catch (const std::exception& e) {
    std::printf("threw: %s\n", e.what());
    ++FailedChecks();
  }
#else
  Directory directory;
  body(directory);
#endif
  const bool held = FailedChecks() == 0;
  std::printf("%s %s\n", held ? "ok" : "FAILED", name);
  std::fflush(stdout);
  return held;
}

}  // namespace judge

#endif  // TEST_JUDGES_JUDGE_H_
