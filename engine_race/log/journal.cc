#include "engine_race/log/journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/thread_name.h"
#include "engine_race/log/failure.h"

namespace engine_race {
namespace {

constexpr uint64_t kFillPieceBytes = uint64_t{1} << 20;

// Written with zeros, not merely reserved: a flush then has no metadata to write.
Status FillWithZeros(const io::File& file, uint64_t size_bytes) {
  Region zeros;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kFillPieceBytes, /*huge_pages=*/false, &zeros));
  for (uint64_t offset = 0; offset < size_bytes; offset += kFillPieceBytes) {
    ENGINE_RACE_RETURN_IF_ERROR(
        file.Write(zeros.data(), std::min(kFillPieceBytes, size_bytes - offset), offset));
  }
  return file.Sync();
}

}  // namespace

Status Journal::Open(int dir_fd, const StoreIds& ids, uint32_t value_bytes, uint64_t size_bytes,
                     mode_t file_mode, uint32_t batch_records, const Placement& memory,
                     Callbacks callbacks, std::unique_ptr<Journal>* journal) {
  std::unique_ptr<Journal> opened(new Journal(ids, value_bytes, size_bytes / format::kJournalHalves,
                                              batch_records, memory, std::move(callbacks)));
  ENGINE_RACE_RETURN_IF_ERROR(opened->Prepare(dir_fd, size_bytes, file_mode));
  *journal = std::move(opened);
  return Status::Ok();
}

Status Journal::Prepare(int dir_fd, uint64_t size_bytes, mode_t file_mode) {
  taken_.reserve(batch_records_);
  ENGINE_RACE_RETURN_IF_ERROR(EnsureBuffer(batch_records_));
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kJournalName, io::Access::kCreate,
                                             io::Caching::kDirect, &file_, file_mode));
  uint64_t found_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file_.Size(&found_bytes));
  if (found_bytes != size_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(file_.Truncate(0));
    const Status filled = FillWithZeros(file_, size_bytes);
    if (!filled.ok()) {
      // The space is given back; whether that works changes nothing about the failure.
      static_cast<void>(file_.Truncate(0).ok());
      return filled;
    }
  }
  // Also of a journal that is there: its creation may have ended before this flush.
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd));
  ENGINE_RACE_RETURN_IF_ERROR(BeginHalf(0));
  // A refused thread throws std::bad_alloc or std::system_error.
  return Guarded([this] {
    checkpointer_ = StartThread("er-checkpoint", [this] { RunCheckpoints(); });
    return Status::Ok();
  });
}

Journal::~Journal() {
  ENGINE_RACE_ASSERT(first_ == nullptr);
  {
    const std::lock_guard<std::mutex> lock(checkpoint_mutex_);
    stop_ = true;
  }
  checkpoint_changed_.notify_all();
  if (checkpointer_.joinable()) checkpointer_.join();
}

// For batches of so many records.
Status Journal::EnsureBuffer(uint64_t record_count) {
  const uint64_t bytes = layout_.BatchBytes(record_count);
  if (bytes <= buffer_.size()) return Status::Ok();
  return Region::Allocate(bytes, /*huge_pages=*/false, &buffer_, memory_);
}

void Journal::Enqueue(JournalRequest* request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (filling_count_ == batch_records_) {
    ++filling_batch_;
    filling_count_ = 0;
  }
  request->batch = filling_batch_;
  request->leads = filling_count_ == 0;
  ++filling_count_;
  ENGINE_RACE_ASSERT(filling_count_ <= batch_records_);
  request->next = nullptr;
  *last_ = request;
  last_ = &request->next;
}

Status Journal::Await(JournalRequest* request) {
  if (request->leads) {
    AwaitDone(request->batch - 1);
    LeadBatch(request->batch);
  } else {
    AwaitDone(request->batch);
  }
  return std::move(request->status);
}

void Journal::AwaitDone(uint32_t batch) {
  std::atomic<uint32_t>& word = DoneWord(batch);
  while (true) {
    // Acquire pairs with the release in LeadBatch: the requests' statuses are there.
    const uint32_t done = word.load(std::memory_order_acquire);
    if (static_cast<int32_t>(done - batch) >= 0) return;
    word.wait(done, std::memory_order_acquire);
  }
}

void Journal::LeadBatch(uint32_t batch) {
  taken_.clear();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (filling_batch_ == batch) {
      ++filling_batch_;
      filling_count_ = 0;
    }
    while (first_ != nullptr && first_->batch == batch) {
      taken_.push_back(first_);
      first_ = first_->next;
    }
    if (first_ == nullptr) last_ = &first_;
  }
  ENGINE_RACE_ASSERT(!taken_.empty() && taken_.size() <= batch_records_ && taken_.front()->leads);
  bool ended = false;
  const Status status = Guarded([&] {
    Status committed = Commit();
    ended = true;
    return committed;
  });
  // Memory for a failure's message was refused: nothing is known of the batch.
  if (!ended) must_checkpoint_ = true;
  // After any result the other writers of the batch must be woken.
  for (JournalRequest* request : taken_) request->status = CopyOf(status);
  EndBatch(batch);
}

void Journal::EndBatch(uint32_t batch) {
  // Release pairs with the acquire in AwaitDone. After it the requests are their owners' again.
  std::atomic<uint32_t>& word = DoneWord(batch);
  // Relaxed: batches end one after the other, so this thread has seen the word's last change.
  ENGINE_RACE_ASSERT(batch - word.load(std::memory_order_relaxed) <= kDoneWords);
  word.store(batch, std::memory_order_release);
  word.notify_all();
}

// Makes the records of the batch durable: in the journal, or else in the logs. They are counted, so
// a checkpoint covers them too.
Status Journal::Commit() {
  ENGINE_RACE_RETURN_IF_ERROR(failure_);
  if (!must_checkpoint_) {
    const auto record_of = [this](uint64_t i) -> const JournalRecord& { return *taken_[i]; };
    Status written = Write(taken_.size(), /*is_chain=*/false, record_of);
    if (written.ok() || !CanBeTriedAgain(written)) return NoteFailure(std::move(written));
    must_checkpoint_ = true;
  }
  ENGINE_RACE_RETURN_IF_ERROR(NoteFailure(Checkpoint()));
  // Relaxed: a statistic.
  record_count_.fetch_add(taken_.size(), std::memory_order_relaxed);
  return Status::Ok();
}

Status Journal::WriteChain(std::span<const JournalRecord> records, uint32_t* half) {
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
Status Journal::CommitChain(std::span<const JournalRecord> records, uint32_t* half) {
  ENGINE_RACE_RETURN_IF_ERROR(failure_);
  const auto record_of = [&](uint64_t i) -> const JournalRecord& { return records[i]; };
  ENGINE_RACE_RETURN_IF_ERROR(NoteFailure(Write(records.size(), /*is_chain=*/true, record_of)));
  *half = half_;
  const std::lock_guard<std::mutex> lock(checkpoint_mutex_);
  ++unsettled_[half_];
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

Status Journal::Write(uint64_t count, bool is_chain, RecordOfFn record_of) {
  const uint64_t batch_records = is_chain ? layout_.chain_batch_records() : batch_records_;
  uint64_t value_count = 0;
  for (uint64_t i = 0; i < count; ++i) value_count += record_of(i).value != nullptr ? 1 : 0;
  ENGINE_RACE_RETURN_IF_ERROR(EnsureBuffer(batch_records));
  ENGINE_RACE_RETURN_IF_ERROR(MakeRoom(layout_.ChainBytes(count, value_count)));
  format::JournalHeader header{};
  if (is_chain) {
    header.chain_length = static_cast<uint32_t>(layout_.ChainLength(count));
    while (header.chain_id == 0) ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&header.chain_id));
  }
  uint64_t bytes = 0;
  header.batch_number = number_;
  for (uint64_t begin = 0; begin < count; begin += batch_records) {
    const uint64_t size =
        PutBatch(begin, std::min(begin + batch_records, count), record_of, header);
    // MakeRoom has seen to that.
    ENGINE_RACE_ASSERT(offset_ + bytes + size <= half_bytes_);
    ENGINE_RACE_RETURN_IF_ERROR(
        file_.Write(buffer_.data(), size, half_ * half_bytes_ + offset_ + bytes));
    bytes += size;
    ++header.batch_number;
    if (is_chain) ++header.chain_index;
  }
  ENGINE_RACE_RETURN_IF_ERROR(Flush());
  offset_ += bytes;
  number_ = header.batch_number;
  // Relaxed, both: statistics.
  record_count_.fetch_add(count, std::memory_order_relaxed);
  written_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return Status::Ok();
}

uint64_t Journal::PutBatch(uint64_t begin, uint64_t end, RecordOfFn record_of,
                           format::JournalHeader header) {
  char* const block = buffer_.data();
  char* descriptor = block + sizeof(header);
  char* value = block + format::kJournalBlockBytes;
  std::memset(block, 0, format::kJournalBlockBytes);
  for (uint64_t i = begin; i < end; ++i) {
    const JournalRecord& record = record_of(i);
    std::memcpy(descriptor, &record.descriptor, sizeof(record.descriptor));
    descriptor += sizeof(record.descriptor);
    if (record.value == nullptr) continue;
    std::memcpy(value, record.value, layout_.value_bytes());
    value += layout_.value_bytes();
  }
  value = JournalLayout::PadBatch(block, value);
  header.magic = format::kJournalMagic;
  header.store_id = ids_.store_id;
  header.seed_id = ids_.seed_id;
  header.generation = generation_;
  header.record_count = static_cast<uint32_t>(end - begin);
  std::memcpy(block, &header, sizeof(header));
  header.checksum = Hash64(block, format::kJournalBlockBytes, format::kJournalMagic);
  std::memcpy(block, &header, sizeof(header));
  const auto bytes = static_cast<uint64_t>(value - block);
  ENGINE_RACE_ASSERT(bytes <= buffer_.size() && bytes % kIoAlignment == 0);
  return bytes;
}

Status Journal::Checkpoint() {
  ENGINE_RACE_RETURN_IF_ERROR(callbacks_.checkpoint());
  must_checkpoint_ = false;
  return Status::Ok();
}

Status Journal::NoteFailure(Status status) {
  if (!status.ok() && !CanBeTriedAgain(status)) {
    failure_ = CopyOf(status);
    callbacks_.on_failure(status);
  }
  return status;
}

Status Journal::Flush() {
  // Relaxed: a statistic.
  flush_count_.fetch_add(1, std::memory_order_relaxed);
  Status flushed = Guarded([this] {
    if (callbacks_.flushes == nullptr) return file_.DataSync();
    const LatencyTimer timer(*callbacks_.flushes);
    return file_.DataSync();
  });
  // For any reason: nobody knows what the device holds now.
  return flushed.ok() ? std::move(flushed) : CopyAs(Code::kIOError, flushed);
}

// Turns to the other half when this one has no room for `bytes` more.
Status Journal::MakeRoom(uint64_t bytes) {
  ENGINE_RACE_ASSERT(bytes <= half_bytes_);
  if (must_checkpoint_) ENGINE_RACE_RETURN_IF_ERROR(Checkpoint());
  if (offset_ + bytes <= half_bytes_) return Status::Ok();
  const uint32_t other = 1 - half_;
  {
    std::unique_lock<std::mutex> lock(checkpoint_mutex_);
    // After a checkpoint that failed the next batch asks for another.
    if (busy_[other] && !checkpoint_status_.ok()) {
      checkpoint_status_ = Status::Ok();
      checkpoint_wanted_ = true;
      checkpoint_changed_.notify_all();
    }
    checkpoint_changed_.wait(lock, [&] { return !busy_[other] || !checkpoint_status_.ok(); });
    if (busy_[other]) return checkpoint_status_;
    busy_[half_] = true;
    checkpoint_wanted_ = true;
  }
  checkpoint_changed_.notify_all();
  return BeginHalf(other);
}

Status Journal::BeginHalf(uint32_t half) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&generation_));
  half_ = half;
  offset_ = 0;
  number_ = 0;
  return Status::Ok();
}

void Journal::RunCheckpoints() {
  if (callbacks_.on_thread_start) callbacks_.on_thread_start();
  std::unique_lock<std::mutex> lock(checkpoint_mutex_);
  while (true) {
    checkpoint_changed_.wait(lock, [this] { return stop_ || checkpoint_wanted_; });
    if (stop_) return;
    checkpoint_wanted_ = false;
    // Only a half that was full before the checkpoint began is covered by it.
    const auto covered = busy_;
    // A chain whose records are not counted yet would not be covered. Its writer waits for no
    // checkpoint any more.
    checkpoint_changed_.wait(lock, [&] {
      bool settled = true;
      for (uint32_t half = 0; half < format::kJournalHalves; ++half) {
        settled = settled && (!covered[half] || unsettled_[half] == 0);
      }
      return settled;
    });
    lock.unlock();
    Status status = callbacks_.checkpoint();
    lock.lock();
    if (status.ok()) {
      for (uint32_t half = 0; half < format::kJournalHalves; ++half) {
        if (covered[half]) busy_[half] = false;
      }
    }
    checkpoint_status_ = std::move(status);
    checkpoint_changed_.notify_all();
  }
}

}  // namespace engine_race
