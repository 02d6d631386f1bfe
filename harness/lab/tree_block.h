// The cache-friendly block: a tree of two levels over sections of records.
//
// A lookup touches three neighbouring cache lines for the header and the root. Then it touches one
// line of a leaf and two or three lines of a section. Each step knows which line comes next. A
// binary search of a restart array would jump between the array and the records six or seven times.
//
// Layout: header, words of the nodes, records. A record is its key without the block's common
// prefix, then its payload. All records have one size, so the offset of a section is a
// multiplication and not another load. A section has as many records as needed for a full block to
// have at most 128 sections.
//
// A TreeBlock refers to the bytes of a block and does not own them. Const calls are thread-safe.
#ifndef HARNESS_LAB_TREE_BLOCK_H_
#define HARNESS_LAB_TREE_BLOCK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine_race/base/assert.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/node_search.h"

namespace engine_race::lab {

struct TreeBlockHeader {
  uint8_t encoding;
  uint8_t prefix_bytes;
  uint8_t rest_bytes;  // of a key, after the prefix
  uint8_t section_records;
  uint16_t record_count;
  uint16_t section_count;
  uint16_t record_bytes;  // rest and payload
  char prefix[kMaxKeyBytes];
  char unused[64 - 10 - kMaxKeyBytes];
};
static_assert(sizeof(TreeBlockHeader) == 64);

class TreeBlock {
 public:
  static constexpr uint32_t kRecordsOffset = sizeof(TreeBlockHeader) + sizeof(NodeWords);

  // `block` is kBlockBytes long, aligned to a cache line, and holds a block of this encoding.
  explicit TreeBlock(const char* block) : block_(block) {}

  uint32_t record_count() const { return header().record_count; }

  // The payload of `key`, or null. `search` is called like a NodeSearchFn.
  template <typename Search>
  const char* Find(const char* key, const Search& search) const;

  // How many records have keys below `key`.
  template <typename Search>
  uint32_t LowerBound(const char* key, const Search& search) const;

  // For an index with one record in each section. Guesses which of `count` records `key` is, if
  // they are spread evenly between the index's key before `rank` and the one at `rank`.
  uint32_t GuessBetween(uint32_t rank, const char* key, uint32_t count) const {
    const uint64_t* const heads = nodes().leaves[0];
    return GuessRank({rank > 0 ? heads[rank - 1] : 0, heads[rank]}, WordOfKey(key), count);
  }
  // TouchIndex and TouchRecords touch the lines that a search needs if its key is about record
  // `rank`. The first is for an index, the second for a block of `count` records of `record_bytes`.
  // Neither needs to know a byte of the block yet.
  static void TouchIndex(const char* block, uint32_t rank) {
    TouchNodes(block, rank / kLeafFanout);
  }
  static void TouchRecords(const char* block, uint32_t rank, uint32_t count,
                           uint32_t record_bytes) {
    TouchNodes(block, rank / ((count + kMaxSections - 1) / kMaxSections * kLeafFanout));
    const uint32_t about = kRecordsOffset + rank * record_bytes;
    const uint32_t begin = std::min<uint32_t>(about - std::min(about, kTouchedBefore),
                                              kBlockBytes - kTouchedLines * kLineBytes);
    for (uint32_t line = 0; line < kTouchedLines; ++line)
      TouchLine(block + begin + line * kLineBytes);
  }

  // A search in steps, for many keys at once. Each step fetches the lines that the next one needs;
  // FetchRoot comes first. FetchSection returns the section in which Find has to search.
  void FetchRoot() const {
    for (uint32_t line = 0; line < 3; ++line) __builtin_prefetch(block_ + line * 64);
  }
  uint32_t FetchLeaf(const char* key) const {
    const uint64_t word = WordOfKey(key);
    uint32_t leaf = 0;
    for (uint32_t i = 1; i < kRootFanout; ++i) leaf += nodes().root[i] <= word;
    __builtin_prefetch(nodes().leaves[leaf]);
    return leaf;
  }
  uint32_t FetchSection(const char* key, uint32_t leaf) const {
    const uint64_t word = WordOfKey(key);
    const uint64_t* const words = nodes().leaves[leaf];
    uint32_t place = 0;
    for (uint32_t i = 1; i < kLeafFanout; ++i) place += words[i] <= word;
    const uint32_t section =
        std::min<uint32_t>(leaf * kLeafFanout + place, header().section_count - 1u);
    const char* const begin = Record(section * header().section_records);
    const char* const end = begin + header().section_records * header().record_bytes;
    for (const char* line = begin; line < end; line += 64) __builtin_prefetch(line);
    __builtin_prefetch(end - 1);
    return section;
  }

  // The bytes that every key begins with, and the bytes of each record: the rest of its key, then
  // its payload.
  const char* prefix() const { return header().prefix; }
  uint32_t prefix_bytes() const { return header().prefix_bytes; }
  uint32_t rest_bytes() const { return header().rest_bytes; }
  uint32_t record_bytes() const { return header().record_bytes; }
  const char* records() const { return block_ + kRecordsOffset; }

  const char* Payload(uint32_t rank) const { return Record(rank) + header().rest_bytes; }

 private:
  static constexpr uint32_t kLineBytes = 64;
  // Guesses for evenly spread keys miss by about this far, to both sides.
  static constexpr uint32_t kTouchedBefore = 2 * kLineBytes;
  static constexpr uint32_t kTouchedLines = 6;

  static void TouchNodes(const char* block, uint32_t leaf) {
    for (uint32_t line = 0; line < 3; ++line) TouchLine(block + line * kLineBytes);
    TouchLine(block + sizeof(TreeBlockHeader) + offsetof(NodeWords, leaves) + leaf * kLineBytes);
  }
  const TreeBlockHeader& header() const {
    return *reinterpret_cast<const TreeBlockHeader*>(block_);
  }
  const NodeWords& nodes() const {
    return *reinterpret_cast<const NodeWords*>(block_ + sizeof(TreeBlockHeader));
  }
  const char* Record(uint32_t rank) const {
    return block_ + kRecordsOffset + rank * header().record_bytes;
  }
  uint64_t WordOfKey(const char* key) const {
    return WordAfter(key, header().prefix_bytes + header().rest_bytes, header().prefix_bytes);
  }
  uint64_t WordAt(uint32_t rank) const { return WordOf(Record(rank), header().rest_bytes); }
  // Compares the key with the block's prefix: below zero, zero, above zero.
  int ComparePrefix(const char* key) const {
    const uint32_t bytes = header().prefix_bytes;
    if (bytes > kWordBytes) [[unlikely]] {
      return std::memcmp(key, header().prefix, bytes);
    }
    if (bytes == 0) return 0;
    const uint32_t unused_bits = 8 * (kWordBytes - bytes);
    const uint64_t of_key = LoadWord(key) >> unused_bits;
    const uint64_t of_block = LoadWord(header().prefix) >> unused_bits;
    return (of_key > of_block) - (of_key < of_block);
  }
  // Compares a record's suffix with the suffix of a key. Their words must be equal. `rest` is the
  // key without the prefix.
  int CompareSuffix(uint32_t rank, const char* rest) const {
    const uint32_t bytes = header().rest_bytes;
    return bytes <= kWordBytes
               ? 0
               : std::memcmp(Record(rank) + kWordBytes, rest + kWordBytes, bytes - kWordBytes);
  }
  // The first record from `rank` on that is not below the key, among those whose word is `word`.
  uint32_t PassSuffixes(uint32_t rank, uint64_t word, const char* rest) const;
  // The last section before `section` whose first key is not above the key, or the first section.
  // The key's word is `word`.
  uint32_t SectionBefore(uint32_t section, uint64_t word, const char* rest) const;
  template <typename Search>
  uint32_t LowerBoundInSection(uint64_t word, const char* rest, const Search& search) const;

  const char* const block_;
};

// Collects the records of one block.
class TreeBlockBuilder final : public BlockBuilder {
 public:
  explicit TreeBlockBuilder(const TableShape& shape) : BlockBuilder(shape) {}
  bool Fits(const char* key) const override;
  uint32_t Encode(char* block) const override;
};

template <typename Search>
inline uint32_t TreeBlock::LowerBoundInSection(uint64_t word, const char* rest,
                                               const Search& search) const {
  const TreeBlockHeader& head = header();
  const uint64_t* const heads = nodes().leaves[0];
  uint32_t section = search(nodes(), head.section_count, word);
  ENGINE_RACE_ASSERT(section < head.section_count);
  // The search gives the last section whose first word is `word`; the key may lie before that
  // section.
  if (heads[section] == word && section > 0 &&
      CompareSuffix(section * head.section_records, rest) > 0) [[unlikely]] {
    section = SectionBefore(section, word, rest);
  }
  // In a block with one record in each section the leaves decide, unless words are equal.
  if (head.section_records == 1 && heads[section] != word) return section + (heads[section] < word);
  const uint32_t begin = section * head.section_records;
  const uint32_t count = std::min<uint32_t>(head.section_records, head.record_count - begin);
  // Counting all words takes a few steps, and no branch that could be mispredicted.
  uint32_t below = 0;
  for (uint32_t i = 0; i < count; ++i) below += WordAt(begin + i) < word;
  return head.rest_bytes > kWordBytes ? PassSuffixes(begin + below, word, rest) : begin + below;
}

template <typename Search>
inline uint32_t TreeBlock::LowerBound(const char* key, const Search& search) const {
  const int side = ComparePrefix(key);
  if (side != 0) [[unlikely]] {
    return side < 0 ? 0 : header().record_count;
  }
  return LowerBoundInSection(WordOfKey(key), key + header().prefix_bytes, search);
}

template <typename Search>
inline const char* TreeBlock::Find(const char* key, const Search& search) const {
  if (ComparePrefix(key) != 0) return nullptr;
  const uint32_t prefix = header().prefix_bytes;
  const uint32_t bytes = header().rest_bytes;
  const uint64_t word = WordAfter(key, prefix + bytes, prefix);
  const uint32_t rank = LowerBoundInSection(word, key + prefix, search);
  if (rank == header().record_count || WordAt(rank) != word) return nullptr;
  const char* record = Record(rank);
  if (bytes > kWordBytes &&
      std::memcmp(record + kWordBytes, key + prefix + kWordBytes, bytes - kWordBytes) != 0) {
    return nullptr;
  }
  return record + bytes;
}

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_TREE_BLOCK_H_
