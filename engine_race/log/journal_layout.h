// How many bytes the batches of the commit journal take. A value type.
#ifndef ENGINE_RACE_LOG_JOURNAL_LAYOUT_H_
#define ENGINE_RACE_LOG_JOURNAL_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine_race/base/round_up.h"
#include "engine_race/log/format.h"

namespace engine_race {

class JournalLayout {
 public:
  explicit JournalLayout(uint32_t value_bytes) : value_bytes_(value_bytes) {}

  uint32_t value_bytes() const { return value_bytes_; }
  // The records of a batch, if no more than `wanted` are: their values have 1 MiB at most, unless
  // one alone has more.
  uint32_t MostRecords(uint32_t wanted) const {
    constexpr uint32_t kMaxBytes = 1024 * 1024;
    return std::clamp(kMaxBytes / value_bytes_, 1U, wanted);
  }
  // Of a batch with so many values.
  uint64_t BatchBytes(uint64_t value_count) const {
    return RoundUp(format::kJournalBlockBytes + value_count * value_bytes_,
                   format::kJournalBlockBytes);
  }
  // Puts zeros behind the values of a batch, up to a whole block. Returns their end.
  static char* PadBatch(const char* begin, char* end) {
    const auto bytes = static_cast<uint64_t>(end - begin);
    const uint64_t padding = RoundUp(bytes, format::kJournalBlockBytes) - bytes;
    std::memset(end, 0, padding);
    return end + padding;
  }

  uint32_t chain_batch_records() const { return MostRecords(format::kJournalBatchRecords); }
  // The batches of a chain.
  uint64_t ChainLength(uint64_t record_count) const {
    return (record_count + chain_batch_records() - 1) / chain_batch_records();
  }
  // Of a chain, at most. Each batch has a header, and may be padded. A chain of one takes no more
  // than its batch.
  uint64_t ChainBytes(uint64_t record_count, uint64_t value_count) const {
    const bool is_padded = value_bytes_ % format::kJournalBlockBytes != 0;
    return BatchBytes(value_count) +
           (ChainLength(record_count) - 1) * (is_padded ? 2 : 1) * format::kJournalBlockBytes;
  }

 private:
  uint32_t value_bytes_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_JOURNAL_LAYOUT_H_
