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
#include <cstring>
#include <string>
#include <vector>

#include "engine_race/base/text_file.h"
#include "harness/system/memory_maps.h"

namespace engine_race::harness {
namespace {

constexpr uintptr_t kHugePageBytes = uintptr_t{2} << 20;

struct TextRange {
  uintptr_t start;
  uintptr_t end;
  std::string path;
  // Of the mapping behind it.
  uintptr_t next_start = ~uintptr_t{0};

  size_t size() const { return end - start; }
  // Rounded up to whole huge pages if the text begins at one and no mapping lies in the rest.
  size_t copy_size() const {
    const uintptr_t rounded = (end + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    const bool has_whole_pages = start % kHugePageBytes == 0 && rounded <= next_start;
    return has_whole_pages ? rounded - start : size();
  }
};

Status ListTexts(std::vector<TextRange>* texts) {
  constexpr char kMaps[] = "/proc/self/maps";
  const std::string text = ReadTextFile(kMaps);
  // Every process has mappings.
  if (text.empty()) return Status::IOError(std::string(kMaps) + " cannot be read");
  std::vector<Mapping> mappings;
  ENGINE_RACE_RETURN_IF_ERROR(ParseMaps(text, &mappings).Prefixed(std::string(kMaps) + ": "));
  for (size_t i = 0; i < mappings.size(); ++i) {
    const Mapping& mapping = mappings[i];
    if (!mapping.executable || !mapping.HasFile()) continue;
    // Moved text is read-only, so a program that writes to its text would crash.
    if (mapping.writable) return Status::NotSupported(mapping.path + " is writable");
    if (!mapping.readable) return Status::NotSupported(mapping.path + " cannot be read");
    texts->push_back({.start = mapping.start, .end = mapping.end, .path = mapping.path});
    if (i + 1 < mappings.size()) texts->back().next_start = mappings[i + 1].start;
  }
  return Status::Ok();
}

// Address space for a copy. The destructor unmaps what mremap did not move.
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

}  // namespace engine_race::harness
