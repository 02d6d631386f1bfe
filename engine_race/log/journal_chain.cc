// Chains: the records of one WriteBatch in the journal.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/journal.h"

namespace engine_race {

Status Journal::WriteChain(std::span<const JournalChainRecord> records, uint32_t* half) {
  ENGINE_RACE_ASSERT(!records.empty());
  uint32_t batch = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Records that were enqueued before stand before the chain, in a batch that takes no more.
    if (filling_count_ != 0) ++filling_batch_;
    filling_count_ = 0;
    batch = filling_batch_++;
  }
  AwaitDone(batch - 1);
  // After a failure no checkpoint is due, because no record of the chain is counted.
  Status status = Guarded([&] { return CommitChain(records, half); });
  EndBatch(batch);
  return status;
}

// For the thread whose turn it is.
Status Journal::CommitChain(std::span<const JournalChainRecord> records, uint32_t* half) {
  ENGINE_RACE_RETURN_IF_ERROR(failure_);
  const auto values = static_cast<uint64_t>(
      std::count_if(records.begin(), records.end(),
                    [](const JournalChainRecord& record) { return record.value != nullptr; }));
  uint64_t bytes = 0;
  Status status = MakeRoom(layout_.ChainBytes(records.size(), values));
  if (status.ok()) status = PutChain(records, &bytes);
  if (status.ok()) status = Flush();
  if (!status.ok()) return NoteFailure(std::move(status));
  ENGINE_RACE_ASSERT(bytes <= layout_.ChainBytes(records.size(), values) &&
                     offset_ + bytes <= half_bytes_);
  offset_ += bytes;
  number_ += static_cast<uint32_t>(layout_.ChainLength(records.size()));
  // Relaxed, both: statistics.
  record_count_.fetch_add(records.size(), std::memory_order_relaxed);
  written_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  *half = half_;
  const std::lock_guard<std::mutex> lock(checkpoint_mutex_);
  ++unsettled_[half_];
  return Status::Ok();
}

// Writes the journal batches of a chain one after another, from offset_ on.
Status Journal::PutChain(std::span<const JournalChainRecord> records, uint64_t* bytes) {
  *bytes = 0;
  if (chain_buffer_.size() == 0) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(layout_.BatchBytes(layout_.chain_batch_records()),
                                                 /*huge_pages=*/false, &chain_buffer_));
  }
  char* const block = chain_buffer_.data();
  auto* const header = reinterpret_cast<format::JournalHeader*>(block);
  auto* const descriptors = reinterpret_cast<format::JournalDescriptor*>(header + 1);
  uint64_t chain_id = 0;
  while (chain_id == 0) ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&chain_id));
  const auto length = static_cast<uint32_t>(layout_.ChainLength(records.size()));
  for (uint32_t index = 0; index < length; ++index) {
    const size_t first = size_t{index} * layout_.chain_batch_records();
    const std::span<const JournalChainRecord> taken = records.subspan(
        first, std::min<size_t>(layout_.chain_batch_records(), records.size() - first));
    std::memset(block, 0, format::kJournalBlockBytes);
    char* value = block + format::kJournalBlockBytes;
    for (size_t i = 0; i < taken.size(); ++i) {
      descriptors[i] = taken[i].descriptor;
      if (taken[i].value == nullptr) continue;
      std::memcpy(value, taken[i].value, layout_.value_bytes());
      value += layout_.value_bytes();
    }
    value = JournalLayout::PadBatch(block, value);
    header->chain_id = chain_id;
    header->chain_length = length;
    header->chain_index = index;
    FinishHeader(block, number_ + index, static_cast<uint32_t>(taken.size()));
    const auto size = static_cast<uint64_t>(value - block);
    ENGINE_RACE_RETURN_IF_ERROR(file_.Write(block, size, half_ * half_bytes_ + offset_ + *bytes));
    *bytes += size;
  }
  return Status::Ok();
}

void Journal::SettleChain(uint32_t half) {
  {
    const std::lock_guard<std::mutex> lock(checkpoint_mutex_);
    ENGINE_RACE_ASSERT(unsettled_[half] != 0);
    --unsettled_[half];
  }
  checkpoint_changed_.notify_all();
}

}  // namespace engine_race
