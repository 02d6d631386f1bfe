#include "harness/lab/tree_block.h"

namespace engine_race::lab {

uint32_t TreeBlock::PassSuffixes(uint32_t rank, uint64_t word, const char* rest) const {
  while (rank < header().record_count && WordAt(rank) == word && CompareSuffix(rank, rest) < 0)
    ++rank;
  return rank;
}

uint32_t TreeBlock::SectionBefore(uint32_t section, uint64_t word, const char* rest) const {
  const uint64_t* heads = nodes().leaves[0];
  const uint32_t section_records = header().section_records;
  uint32_t low = 0;         // its head is not above the key, or it is the first
  uint32_t high = section;  // its head is above
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const bool above = heads[middle] > word ||
                       (heads[middle] == word && CompareSuffix(middle * section_records, rest) > 0);
    (above ? high : low) = middle;
  }
  return low;
}

bool TreeBlockBuilder::Fits(const char* key) const {
  const uint32_t count = record_count() + 1;
  const uint32_t record_bytes = shape().record_bytes() - PrefixWith(key);
  return TreeBlock::kRecordsOffset + size_t{count} * record_bytes <= kBlockBytes;
}

uint32_t TreeBlockBuilder::Encode(char* block) const {
  TreeBlockHeader header = {};
  header.encoding = static_cast<uint8_t>(Encoding::kTree);
  header.prefix_bytes = static_cast<uint8_t>(PrefixWith(last_key()));
  header.rest_bytes = static_cast<uint8_t>(shape().key_bytes - header.prefix_bytes);
  header.record_count = static_cast<uint16_t>(record_count());
  header.section_records = static_cast<uint8_t>((record_count() + kMaxSections - 1) / kMaxSections);
  header.section_count =
      static_cast<uint16_t>((record_count() + header.section_records - 1) / header.section_records);
  header.record_bytes = static_cast<uint16_t>(header.rest_bytes + shape().payload_bytes);
  // Fits has checked this.
  ENGINE_RACE_ASSERT(
      TreeBlock::kRecordsOffset + size_t{header.record_count} * header.record_bytes <= kBlockBytes);
  ENGINE_RACE_ASSERT(header.section_count <= kMaxSections);
  std::memcpy(header.prefix, KeyAt(0), header.prefix_bytes);
  std::memcpy(block, &header, sizeof(header));

  char* records = block + TreeBlock::kRecordsOffset;
  NodeWords nodes;
  for (uint32_t rank = 0; rank < record_count(); ++rank) {
    char* record = records + size_t{rank} * header.record_bytes;
    std::memcpy(record, KeyAt(rank) + header.prefix_bytes, header.rest_bytes);
    std::memcpy(record + header.rest_bytes, PayloadAt(rank), shape().payload_bytes);
  }
  for (uint32_t section = 0; section < kMaxSections; ++section) {
    const uint32_t head =
        std::min<uint32_t>(section, header.section_count - 1u) * header.section_records;
    nodes.leaves[section / kLeafFanout][section % kLeafFanout] =
        WordAfter(KeyAt(head), shape().key_bytes, header.prefix_bytes);
  }
  for (uint32_t leaf = 0; leaf < kRootFanout; ++leaf) nodes.root[leaf] = nodes.leaves[leaf][0];
  std::memcpy(block + sizeof(header), &nodes, sizeof(nodes));
  return header.record_bytes;
}

}  // namespace engine_race::lab
