// The cache-friendly block: a tree of two levels over runs of records.
//
// A lookup touches the header and the root (three neighbouring lines), one line of a leaf, and the
// two or three lines of a run, each known from the one before; a binary search of a restart array
// jumps between the array and the records six or seven times.
//
// Layout: header, words of the nodes, records. A record is its key without the block's common
// prefix, then its payload, so all records are of one size and the offset of a run is a
// multiplication, not another load. Runs have as many records as it takes for the block to be full
// with at most 128 of them.
//
// A TreeBlock is a view: it does not own the bytes. Const calls are thread-safe.
#ifndef ENGINE_RACE_L1_TREE_BLOCK_H_
#define ENGINE_RACE_L1_TREE_BLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "engine_race/l1/block_builder.h"
#include "engine_race/l1/key_words.h"
#include "engine_race/l1/node_search.h"
#include "engine_race/l1/table_shape.h"

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

struct TreeBlockHeader {
  uint8_t encoding;
  uint8_t prefix_bytes;
  uint8_t rest_bytes;  // of a key, after the prefix
  uint8_t run_records;
  uint16_t record_count;
  uint16_t run_count;
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

  // The payload of `key`, or null. `search` is called as a NodeSearchFn is.
  template <typename Search>
  const char* Find(const char* key, const Search& search) const;

  // How many records have keys below `key`.
  template <typename Search>
  uint32_t LowerBound(const char* key, const Search& search) const;

  // Of an index, a block with a record in each run: about which of `count` records that are spread
  // evenly between its keys before `rank` and at it `key` is.
  uint32_t GuessBetween(uint32_t rank, const char* key, uint32_t count) const {
    const uint64_t* const heads = nodes().leaves[0];
    return GuessRank(rank > 0 ? heads[rank - 1] : 0, heads[rank], WordOfKey(key), count);
  }
  // Touches what a search needs if its key is about the `rank`th of so many records: of an index,
  // and of a block whose records have so many bytes. Of the block's bytes it knows nothing yet.
  static void TouchIndex(const char* block, uint32_t rank) {
    TouchNodes(block, rank / kLeafFanout);
  }
  static void TouchRecords(const char* block, uint32_t rank, uint32_t count,
                           uint32_t record_bytes) {
    TouchNodes(block, rank / ((count + kMaxRuns - 1) / kMaxRuns * kLeafFanout));
    const uint32_t about = kRecordsOffset + rank * record_bytes;
    const uint32_t begin = std::min<uint32_t>(about - std::min(about, kTouchedBefore),
                                              kBlockBytes - kTouchedLines * kLineBytes);
    for (uint32_t line = 0; line < kTouchedLines; ++line)
      TouchLine(block + begin + line * kLineBytes);
  }

  // A search in steps, for many keys at once: what a step needs was fetched ahead by the one
  // before. The first needs the header and the root, FetchRun's `run` is what Find's search gives.
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
  uint32_t FetchRun(const char* key, uint32_t leaf) const {
    const uint64_t word = WordOfKey(key);
    const uint64_t* const words = nodes().leaves[leaf];
    uint32_t place = 0;
    for (uint32_t i = 1; i < kLeafFanout; ++i) place += words[i] <= word;
    const uint32_t run = std::min<uint32_t>(leaf * kLeafFanout + place, header().run_count - 1u);
    const char* const begin = Record(run * header().run_records);
    const char* const end = begin + header().run_records * header().record_bytes;
    for (const char* line = begin; line < end; line += 64) __builtin_prefetch(line);
    __builtin_prefetch(end - 1);
    return run;
  }

  // What every key begins with, and what each record has of its own: the rest of its key, then its
  // payload.
  const char* prefix() const { return header().prefix; }
  uint32_t prefix_bytes() const { return header().prefix_bytes; }
  uint32_t rest_bytes() const { return header().rest_bytes; }
  uint32_t record_bytes() const { return header().record_bytes; }
  const char* records() const { return block_ + kRecordsOffset; }

  void CopyKey(uint32_t rank, char* key) const {
    std::memcpy(key, header().prefix, header().prefix_bytes);
    std::memcpy(key + header().prefix_bytes, Record(rank), header().rest_bytes);
  }
  const char* Payload(uint32_t rank) const { return Record(rank) + header().rest_bytes; }

 private:
  static constexpr uint32_t kLineBytes = 64;
  // Around the guessed record, as far as guesses in blocks of evenly spread keys go astray.
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
  // Of the key and the block's prefix: below zero, zero, above zero.
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
  // Of the record's suffix and that of the key whose rest is given, the words being equal.
  int CompareSuffix(uint32_t rank, const char* rest) const {
    const uint32_t bytes = header().rest_bytes;
    return bytes <= kWordBytes
               ? 0
               : std::memcmp(Record(rank) + kWordBytes, rest + kWordBytes, bytes - kWordBytes);
  }
  // LowerBound among the records whose word is `word`, from `rank` on.
  uint32_t PassSuffixes(uint32_t rank, uint64_t word, const char* rest) const;
  // The last run before `run` whose head is not above the key, or the first. The key's word is
  // `word`.
  uint32_t RunBefore(uint32_t run, uint64_t word, const char* rest) const;
  template <typename Search>
  uint32_t LowerBoundInRun(uint64_t word, const char* rest, const Search& search) const;

  const char* const block_;
};

// Collects the records of one block.
class TreeBlockBuilder final : public BlockBuilder {
 public:
  explicit TreeBlockBuilder(const TableShape& shape) : BlockBuilder(shape) {}
  static std::unique_ptr<BlockBuilder> Make(const TableShape& shape) {
    return std::make_unique<TreeBlockBuilder>(shape);
  }
  bool Fits(const char* key) const override;
  uint32_t Encode(char* block) const override;
};

inline constexpr BlockEncoding kTreeEncoding = {3, TreeBlockBuilder::Make};

template <typename Search>
inline uint32_t TreeBlock::LowerBoundInRun(uint64_t word, const char* rest,
                                           const Search& search) const {
  const TreeBlockHeader& head = header();
  const uint64_t* const heads = nodes().leaves[0];
  uint32_t run = search(nodes(), head.run_count, word);
  ENGINE_RACE_ASSERT(run < head.run_count);
  // The last run of those whose heads have the word; the key may lie before that head.
  if (heads[run] == word && run > 0 && CompareSuffix(run * head.run_records, rest) > 0)
      [[unlikely]] {
    run = RunBefore(run, word, rest);
  }
  // The leaves know everything of a block with one record in each run, unless words are equal.
  if (head.run_records == 1 && heads[run] != word) return run + (heads[run] < word);
  const uint32_t begin = run * head.run_records;
  const uint32_t count = std::min<uint32_t>(head.run_records, head.record_count - begin);
  // Counting them all costs a few steps, and none of them is a branch to guess wrong.
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
  return LowerBoundInRun(WordOfKey(key), key + header().prefix_bytes, search);
}

template <typename Search>
inline const char* TreeBlock::Find(const char* key, const Search& search) const {
  if (ComparePrefix(key) != 0) return nullptr;
  const uint32_t prefix = header().prefix_bytes;
  const uint32_t bytes = header().rest_bytes;
  const uint64_t word = WordAfter(key, prefix + bytes, prefix);
  const uint32_t rank = LowerBoundInRun(word, key + prefix, search);
  if (rank == header().record_count || WordAt(rank) != word) return nullptr;
  const char* record = Record(rank);
  if (bytes > kWordBytes &&
      std::memcmp(record + kWordBytes, key + prefix + kWordBytes, bytes - kWordBytes) != 0) {
    return nullptr;
  }
  return record + bytes;
}

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_TREE_BLOCK_H_
