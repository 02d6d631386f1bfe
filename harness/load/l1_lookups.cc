#include "harness/load/l1_lookups.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "engine_race/base/assert.h"
#include "engine_race/base/parallel.h"
#include "harness/data/mix.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

constexpr uint64_t kKeyStream = 0x6b6579;
constexpr uint64_t kPayloadStream = 0x7061796c6f6164;
constexpr uint64_t kDrawStream = 0x64726177;

void StoreBigEndian(uint64_t word, char* bytes) {
  static_assert(std::endian::native == std::endian::little);
  word = __builtin_bswap64(word);
  std::memcpy(bytes, &word, sizeof(word));
}

// Fills `bytes` from a stream that the record's word selects.
void FillWith(uint64_t word, uint64_t stream, char* bytes, uint32_t size) {
  for (uint32_t at = 0; at < size; at += sizeof(word)) {
    const uint64_t next = MixAt(word ^ stream, at);
    std::memcpy(bytes + at, &next, std::min<size_t>(sizeof(next), size - at));
  }
}

uint64_t PayloadWordOf(const L1Records& records, uint64_t word) {
  char payload[kMaxPayloadBytes];
  records.FillPayload(word, payload);
  return PayloadWord(payload);
}

}  // namespace

// Words of one stream are distinct, so no key is in two tables either.
uint64_t L1Records::WordAt(uint32_t table, uint64_t index) const {
  return MixAt(seed, table * records_per_table + index);
}

std::vector<uint64_t> L1Records::SortedWords(uint32_t table) const {
  std::vector<uint64_t> words(records_per_table);
  for (uint64_t i = 0; i < records_per_table; ++i) words[i] = WordAt(table, i);
  std::sort(words.begin(), words.end());
  return words;
}

void L1Records::FillKey(uint64_t word, char* key) const {
  StoreBigEndian(word, key);
  FillWith(word, kKeyStream, key + sizeof(word), shape.key_bytes - sizeof(word));
}

void L1Records::FillPayload(uint64_t word, char* payload) const {
  FillWith(word, kPayloadStream, payload, shape.payload_bytes);
}

uint64_t PayloadWord(const char* payload) {
  uint64_t word;
  std::memcpy(&word, payload, sizeof(word));
  return word;
}

L1Lookups::L1Lookups(const L1Records& records, const L1Draw& draw)
    : key_bytes_(records.shape.key_bytes) {
  const uint64_t chunk_count = std::max<uint64_t>(1, (draw.lookup_count + kChunk - 1) / kChunk);
  const uint64_t count = chunk_count * kChunk;
  keys_.resize(count * key_bytes_);
  tables_.resize(count);
  sums_.resize(chunk_count);
  std::vector<uint64_t> words(count);
  const uint64_t seed = records.seed ^ kDrawStream;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t group = i / draw.group_size;
    uint64_t index = AsBelow(MixAt(seed, 2 * i), records.records_per_table);
    uint64_t table = AsBelow(MixAt(seed, 2 * group + 1), records.table_count);
    if (draw.hot_key_count > 0) {
      index = AsBelow(MixAt(seed, 2 * i), std::min(draw.hot_key_count, records.records_per_table));
      table = 0;
    }
    tables_[i] = static_cast<uint16_t>(table);
    words[i] = records.WordAt(tables_[i], index);
    records.FillKey(words[i], keys_.data() + i * key_bytes_);
  }
  for (uint64_t i = 0; i < count && draw.next_count == 0; ++i) {
    sums_[i / kChunk] += PayloadWordOf(records, words[i]);
  }
  if (draw.next_count > 0) SumWithNext(records, draw.next_count, words);
}

L1Lookups::L1Lookups(std::span<const uint64_t> keys, std::span<const uint64_t> values)
    : key_bytes_(sizeof(uint64_t)),
      keys_(keys.size_bytes()),
      tables_(keys.size()),
      sums_(keys.size() / kChunk) {
  ENGINE_RACE_ASSERT(keys.size() % kChunk == 0 && keys.size() == values.size());
  std::memcpy(keys_.data(), keys.data(), keys.size_bytes());
  for (size_t i = 0; i < values.size(); ++i) sums_[i / kChunk] += values[i];
}

void L1Lookups::SumWithNext(const L1Records& records, uint32_t next_count,
                            const std::vector<uint64_t>& words) {
  for (uint32_t table = 0; table < records.table_count; ++table) {
    const std::vector<uint64_t> sorted = records.SortedWords(table);
    for (uint64_t i = 0; i < words.size(); ++i) {
      if (tables_[i] != table) continue;
      auto at = std::lower_bound(sorted.begin(), sorted.end(), words[i]);
      for (uint32_t next = 0; next <= next_count && at != sorted.end(); ++next) {
        sums_[i / kChunk] += PayloadWordOf(records, *at++);
      }
    }
  }
}

uint64_t FirstChunk(const L1Lookups& lookups, const L1RunShape& shape, uint32_t thread) {
  return (shape.first_chunk + thread * lookups.chunk_count() / shape.thread_count) %
         lookups.chunk_count();
}

Status LookUpChunks(const L1Lookups& lookups, const L1Answer& answer,
                    const std::function<bool()>& goes_on, uint64_t* next, uint64_t* count) {
  do {
    const L1Chunk chunk = lookups.chunk(*next);
    uint64_t sum = 0;
    ENGINE_RACE_RETURN_IF_ERROR(answer(chunk, &sum));
    if (sum != chunk.sum) return Status::Corruption("lookups found other payloads");
    *count += L1Lookups::kChunk;
    if (++*next == lookups.chunk_count()) *next = 0;
  } while (goes_on());
  return Status::Ok();
}

Status RunLookups(const L1Lookups& lookups, const L1RunShape& shape,
                  const MakeL1Answer& make_answer, TimedPoint* point) {
  const auto look_up = [&](uint32_t thread, TimedThread* self) {
    const L1Answer answer = make_answer();
    uint64_t next = FirstChunk(lookups, shape, thread);
    uint64_t warming_count = 0;
    const uint64_t warm_ns = NowNs() + static_cast<uint64_t>(shape.warming_seconds * 1e9);
    ENGINE_RACE_RETURN_IF_ERROR(LookUpChunks(
        lookups, answer, [warm_ns] { return NowNs() < warm_ns; }, &next, &warming_count));
    self->Start();
    const Status status = LookUpChunks(
        lookups, answer, [self] { return self->Running(); }, &next, &self->tally.request_count);
    self->Stop();
    return status;
  };
  return RunTimed(shape.thread_count, shape.seconds, look_up, point);
}

Status ForEachOnThreads(uint32_t count, const std::function<Status(uint32_t)>& work) {
  std::atomic<uint32_t> next{0};
  const auto loop = [&](uint32_t) {
    // Relaxed: the numbers order nothing; the threads' ends do.
    for (uint32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      Status status = work(i);
      if (status.ok()) continue;
      next.store(count, std::memory_order_relaxed);
      return status;
    }
    return Status::Ok();
  };
  return RunParallel("fill", std::clamp(AvailableCpuCount(), 1u, std::max(count, 1u)), loop);
}

}  // namespace engine_race::harness
