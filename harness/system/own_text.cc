// Each mapping is copied to anonymous memory, which then takes the mapping's place by one mremap.
//
// That call may replace the very page that makes it: the kernel returns to the same address, where
// the same bytes now lie in another page. So no code has to be kept out of the way. A huge page can
// move as a whole only if its old and its new address are both multiples of its size, so the copy
// begins at the same distance from such an address as the mapping does.
#include "harness/system/own_text.h"

#include <errno.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace harness {
namespace {

using engine_race::Code;
using engine_race::Status;

constexpr uintptr_t kHugePageBytes = uintptr_t{2} << 20;

struct TextRange {
  uintptr_t start;
  uintptr_t end;
  std::string path;
  // Of the mapping behind it.
  uintptr_t next_start = ~uintptr_t{0};

  size_t size() const { return end - start; }
  // What the copy takes: up to the end of the last huge page, where nothing lies behind the text. A
  // program that is linked for it has no text on small pages then.
  size_t copy_size() const {
    const uintptr_t rounded = (end + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    const bool has_whole_pages = start % kHugePageBytes == 0 && rounded <= next_start;
    return has_whole_pages ? rounded - start : size();
  }
};

Status ListTexts(std::vector<TextRange>* texts) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                             &std::fclose);
  if (maps == nullptr) return Status::FromErrno("open /proc/self/maps", errno);
  char line[8192];
  bool is_behind_text = false;
  while (std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    unsigned long start = 0;
    unsigned long end = 0;
    unsigned long inode = 0;
    char may[8] = {};
    int path_at = 0;
    const int fields =
        std::sscanf(line, "%lx-%lx %7s %*s %*s %lu %n", &start, &end, may, &inode, &path_at);
    if (fields < 4) continue;
    if (is_behind_text) texts->back().next_start = start;
    is_behind_text = may[2] == 'x' && inode != 0;
    if (!is_behind_text) continue;
    line[std::strcspn(line, "\n")] = '\0';
    texts->push_back({.start = start, .end = end, .path = line + path_at});
    // The copy cannot be written to, and a program with such text may do so.
    if (may[1] == 'w') return Status::NotSupported(texts->back().path + " is writable");
    if (may[0] != 'r') return Status::NotSupported(texts->back().path + " cannot be read");
  }
  return Status::Ok();
}

// Address space that was reserved for a copy; what is still there is given back.
class Reserve {
 public:
  explicit Reserve(size_t size_bytes)
      : size_(size_bytes),
        base_(::mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0)) {}
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;
  ~Reserve() {
    if (valid()) ::munmap(base_, size_);
  }

  bool valid() const { return base_ != MAP_FAILED; }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(base_); }

 private:
  const size_t size_;
  void* const base_;
};

Status Refused(const char* call, const TextRange& text) {
  const int error = errno;
  const std::string what = std::string(call) + " for the text of " + text.path;
  const bool forbidden = error == EACCES || error == EPERM;
  return forbidden ? Status::NotSupported(what + ": " + std::strerror(error))
                   : Status::FromErrno(what, error);
}

Status MoveText(const TextRange& text) {
  const size_t size = text.copy_size();
  const Reserve reserve(size + 2 * kHugePageBytes);
  if (!reserve.valid()) return Refused("mmap", text);
  const uintptr_t offset = text.start % kHugePageBytes;
  const uintptr_t from =
      (reserve.address() + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes + offset;
  void* const copy = reinterpret_cast<void*>(from);
  void* const place = reinterpret_cast<void*>(text.start);
  if (::mprotect(copy, size, PROT_READ | PROT_WRITE) != 0) return Refused("mprotect", text);
  // Advice: a system without transparent huge pages takes small ones.
  ::madvise(copy, size, MADV_HUGEPAGE);
  std::memcpy(copy, place, text.size());
  if (::mprotect(copy, size, PROT_READ | PROT_EXEC) != 0) return Refused("mprotect", text);
  if (::mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place) {
    return Refused("mremap", text);
  }
  return Status::Ok();
}

}  // namespace

Status MoveTextToOwnMemory() {
  std::vector<TextRange> texts;
  ENGINE_RACE_RETURN_IF_ERROR(ListTexts(&texts));
  for (const TextRange& text : texts) ENGINE_RACE_RETURN_IF_ERROR(MoveText(text));
  return Status::Ok();
}

}  // namespace harness
