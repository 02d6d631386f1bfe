// Records of tables that are held in memory, the keys of lookups, and a run of lookups. All
// contenders of a comparison share them.
//
// A key's first eight bytes are a word that no other record has. The rest of the key and the
// payload are computed from it.
//
// Lookups are drawn beforehand into chunks. A chunk has the sum of the payloads that its lookups
// must find, so that checking a lookup costs one addition.
//
// Records and lookups are immutable once made: const calls from any thread.
#ifndef HARNESS_LOAD_L1_LOOKUPS_H_
#define HARNESS_LOAD_L1_LOOKUPS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

// The sizes of a table's records: all keys have one width, and all payloads have one width.
inline constexpr uint32_t kMaxKeyBytes = 32;
inline constexpr uint32_t kMinPayloadBytes = 8;
inline constexpr uint32_t kMaxPayloadBytes = 256;

struct TableShape {
  uint32_t key_bytes = 16;     // 8, 16 or 32
  uint32_t payload_bytes = 8;  // 8 to 256

  uint32_t record_bytes() const { return key_bytes + payload_bytes; }
  bool valid() const {
    return (key_bytes == 8 || key_bytes == 16 || key_bytes == 32) &&
           payload_bytes >= kMinPayloadBytes && payload_bytes <= kMaxPayloadBytes;
  }
};

struct L1Records {
  TableShape shape;
  uint32_t table_count = 32;
  uint64_t records_per_table = 0;
  uint64_t seed = 1;

  uint64_t record_count() const { return table_count * records_per_table; }
  uint64_t byte_count() const { return record_count() * shape.record_bytes(); }
  // The word of one of the table's records, which are in no order.
  uint64_t WordAt(uint32_t table, uint64_t index) const;
  // The words of a table in ascending order, which is the order of their keys.
  std::vector<uint64_t> SortedWords(uint32_t table) const;
  void FillKey(uint64_t word, char* key) const;
  void FillPayload(uint64_t word, char* payload) const;
};

// The first eight bytes of a payload, which the sums add up.
uint64_t PayloadWord(const char* payload);

// How lookups are drawn.
struct L1Draw {
  uint64_t lookup_count = 0;  // rounded up to whole chunks
  // Consecutive lookups of one table: 1, or a divisor of kChunk.
  uint32_t group_size = 1;
  // When not 0: all lookups are of this many keys of the first table.
  uint64_t hot_key_count = 0;
  // Records behind the looked-up one that are summed too, up to the table's end.
  uint32_t next_count = 0;
};

struct L1Chunk {
  const char* keys;
  const uint16_t* tables;
  uint64_t sum;
};

class L1Lookups {
 public:
  static constexpr uint32_t kChunk = 256;

  L1Lookups(const L1Records& records, const L1Draw& draw);
  // Lookups of keys that are words of eight bytes, all in table 0. A chunk's sum is that of its
  // `values`, one for each key. The number of keys is a multiple of kChunk.
  L1Lookups(std::span<const uint64_t> keys, std::span<const uint64_t> values);

  uint64_t chunk_count() const { return sums_.size(); }
  L1Chunk chunk(uint64_t index) const {
    return {keys_.data() + index * kChunk * key_bytes_, tables_.data() + index * kChunk,
            sums_[index]};
  }

 private:
  void SumWithNext(const L1Records& records, uint32_t next_count,
                   const std::vector<uint64_t>& words);

  const uint32_t key_bytes_;
  std::vector<char> keys_;
  std::vector<uint16_t> tables_;
  std::vector<uint64_t> sums_;
};

// Looks up a chunk and sums the payloads. Each thread makes an L1Answer of its own.
using L1Answer = std::function<Status(const L1Chunk& chunk, uint64_t* sum)>;
using MakeL1Answer = std::function<L1Answer()>;

struct L1RunShape {
  uint32_t thread_count = 1;
  double seconds = 0.4;
  // Run before that and not counted, to replace other contenders' data in the processor's caches.
  double warming_seconds = 0.05;
  uint64_t first_chunk = 0;
};

// A request of the point is a lookup. kCorruption when a sum is wrong.
Status RunLookups(const L1Lookups& lookups, const L1RunShape& shape,
                  const MakeL1Answer& make_answer, TimedPoint* point);

// FirstChunk and LookUpChunks are for runs with threads of another kind. FirstChunk is where
// a thread begins: far from the others, so that no thread profits from another's cached lines.
uint64_t FirstChunk(const L1Lookups& lookups, const L1RunShape& shape, uint32_t thread);
// Looks up a chunk, and further ones while goes_on(). Advances *next by the chunks and *count by
// the lookups.
Status LookUpChunks(const L1Lookups& lookups, const L1Answer& answer,
                    const std::function<bool()>& goes_on, uint64_t* next, uint64_t* count);

// Calls work(i) for every i below `count`, on as many threads as the process has CPUs. Returns the
// first failure.
Status ForEachOnThreads(uint32_t count, const std::function<Status(uint32_t)>& work);

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_L1_LOOKUPS_H_
