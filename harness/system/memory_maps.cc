#include "harness/system/memory_maps.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine_race/base/text_file.h"

namespace engine_race::harness {

namespace {

// Takes what stands before `separator` off the front of *text, and the separator.
std::string_view TakeUntil(char separator, std::string_view* text) {
  const size_t length = std::min(text->find(separator), text->size());
  const std::string_view taken = text->substr(0, length);
  text->remove_prefix(std::min(length + 1, text->size()));
  return taken;
}

std::string_view TakeWord(std::string_view* text) {
  text->remove_prefix(std::min(text->find_first_not_of(' '), text->size()));
  return TakeUntil(' ', text);
}

template <typename Number>
bool ParseNumber(std::string_view text, int base, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// The kernel writes what would end a word as a backslash and three octal digits.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 3);
    unsigned code = 0;
    if (text[i] == '\\' && digits.size() == 3 && ParseNumber(digits, 8, &code)) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// "N12=34": the pages of node 12.
bool ParseNodePages(std::string_view word, uint32_t* node, uint64_t* pages) {
  const std::string_view number = TakeUntil('=', &word);
  return number.starts_with('N') && ParseNumber(number.substr(1), 10, node) &&
         ParseNumber(word, 10, pages);
}

bool ParseNumaWord(std::string_view word, NumaMapping* mapping, NodeBytes* pages_of) {
  uint32_t node = 0;
  uint64_t number = 0;
  if (word == "heap") {
    mapping->is_heap = true;
  } else if (word == "stack") {
    mapping->is_stack = true;
  } else if (word.starts_with("file=")) {
    mapping->file = Unescaped(word.substr(5));
  } else if (word.starts_with("anon=")) {
    return ParseNumber(word.substr(5), 10, &mapping->anonymous_pages);
  } else if (word.starts_with("kernelpagesize_kB=")) {
    if (!ParseNumber(word.substr(18), 10, &number) || number == 0) return false;
    mapping->page_bytes = number * 1024;
  } else if (word.size() > 1 && word[0] == 'N' && word[1] >= '0' && word[1] <= '9') {
    if (!ParseNodePages(word, &node, &number)) return false;
    (*pages_of)[node] += number;
  }
  // "huge", "dirty=", "mapmax=" and what later kernels add say nothing about nodes.
  return true;
}

bool ParseNumaLine(std::string_view line, NumaMapping* mapping) {
  if (!ParseNumber(TakeWord(&line), 16, &mapping->start)) return false;
  // "default", "bind:1", "prefer=relative:2", "prefer (many):0-1", ...
  mapping->policy = TakeWord(&line);
  if (mapping->policy.empty()) return false;
  NodeBytes pages_of;
  for (std::string_view word = TakeWord(&line); !word.empty(); word = TakeWord(&line)) {
    if (word.starts_with('(')) {
      mapping->policy += " " + std::string(word);
      continue;
    }
    if (!ParseNumaWord(word, mapping, &pages_of)) return false;
  }
  for (const auto& [node, pages] : pages_of) {
    mapping->pages += pages;
    if (pages > 0) mapping->bytes[node] = pages * mapping->page_bytes;
  }
  return true;
}

// The head of an entry begins with an address, a field of smaps with a name and a colon.
bool IsField(std::string_view line) {
  const std::string_view word = TakeWord(&line);
  return word.size() > 1 && word.ends_with(':') && word.find('-') == std::string_view::npos;
}

bool ParseMapsLine(std::string_view line, Mapping* mapping) {
  std::string_view addresses = TakeWord(&line);
  if (!ParseNumber(TakeUntil('-', &addresses), 16, &mapping->start)) return false;
  if (!ParseNumber(addresses, 16, &mapping->end)) return false;
  const std::string_view may = TakeWord(&line);
  if (may.size() != 4) return false;
  mapping->readable = may[0] == 'r';
  mapping->writable = may[1] == 'w';
  mapping->executable = may[2] == 'x';
  mapping->shared = may[3] == 's';
  TakeWord(&line);  // offset
  TakeWord(&line);  // device
  if (!ParseNumber(TakeWord(&line), 10, &mapping->inode)) return false;
  // Blanks before the path line it up; those in it are its own.
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping->path = Unescaped(line);
  return mapping->start < mapping->end;
}

// "AnonHugePages:   2048 kB". Other lines of smaps do not count.
void AddField(std::string_view line, Mapping* mapping) {
  const std::string_view name = TakeUntil(':', &line);
  const bool is_huge =
      name == "AnonHugePages" || name == "FilePmdMapped" || name == "ShmemPmdMapped";
  uint64_t kib = 0;
  if (is_huge && ParseNumber(TakeWord(&line), 10, &kib)) mapping->huge_bytes += kib * 1024;
}

// Calls parse(line) for each line, until one cannot be parsed.
template <typename Parse>
Status ParseLines(std::string_view text, const Parse& parse) {
  for (size_t number = 1; !text.empty(); ++number) {
    if (parse(TakeUntil('\n', &text))) continue;
    return Status::IOError("line " + std::to_string(number) + " cannot be parsed");
  }
  return Status::Ok();
}

}  // namespace

Status ParseNumaMaps(std::string_view text, std::vector<NumaMapping>* mappings) {
  mappings->clear();
  return ParseLines(text, [mappings](std::string_view line) {
    return ParseNumaLine(line, &mappings->emplace_back());
  });
}

Status ParseMaps(std::string_view text, std::vector<Mapping>* mappings) {
  mappings->clear();
  return ParseLines(text, [mappings](std::string_view line) {
    if (!IsField(line)) return ParseMapsLine(line, &mappings->emplace_back());
    if (!mappings->empty()) AddField(line, &mappings->back());
    return !mappings->empty();
  });
}

std::optional<std::string> StatusField(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = TakeUntil('\n', &text);
    if (TakeUntil(':', &line) != name) continue;
    constexpr std::string_view kBlanks = " \t";
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    return std::string(line.substr(0, line.find_last_not_of(kBlanks) + 1));
  }
  return std::nullopt;
}

const Mapping* FindMapping(const std::vector<Mapping>& mappings, uint64_t address) {
  const auto after =
      std::upper_bound(mappings.begin(), mappings.end(), address,
                       [](uint64_t wanted, const Mapping& m) { return wanted < m.start; });
  if (after == mappings.begin()) return nullptr;
  const Mapping& found = *(after - 1);
  return address < found.end ? &found : nullptr;
}

// Each mapping is copied to anonymous memory, which then takes the mapping's place by one mremap.
//
// That call may replace the very page that makes it: the kernel returns to the same address, where
// the same bytes now lie in another page. So no code has to be kept out of the way. A huge page can
// move as a whole only if its old and its new address are both multiples of its size, so the copy
// begins at the same distance from such an address as the mapping does.

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
