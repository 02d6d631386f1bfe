#include "engine_race/scan/iterator_impl.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/memory.h"
#include "engine_race/scan/iterator_pool.h"

namespace engine_race {

namespace {

// As IteratorOptions say.
constexpr uint32_t kMostPrefetchRecords = 64;

}  // namespace

Iterator::Impl::Impl(IteratorPool* pool) noexcept
    : pool_(pool),
      value_bytes_(pool->context_.layout.value_bytes()),
      value_buffer_bytes_(pool->context_.layout.read_bytes()),
      sizes_(pool->context_.layout),
      index_(&pool->context_.index) {}

void Iterator::Impl::Begin(const ViewRegistry::View& view, const KeyRange& range,
                           const IteratorOptions& options) {
  view_ = view;
  range_ = range;
  prefetch_records_ = std::min(options.prefetch_records, kMostPrefetchRecords);
  refresh_every_steps_ = options.refresh_every_steps;
  steps_ = 0;
}

bool Iterator::Impl::End() noexcept {
  const bool pool_left = !view_.registry->closed();
  if (values_ != nullptr) {
    if (pool_left) {
      values_->GiveBack();
    } else {
      values_->Abandon();
    }
  }
  DropState();
  batch_.Restart();
  if (!status_.ok()) status_ = Status::Ok();
  ViewRegistry::Release(&view_);
  return pool_left;
}

uint64_t Iterator::Impl::memory_bytes() const {
  return sizeof(*this) + batch_.memory_bytes() + keys_.capacity() * sizeof(uint64_t) +
         (value_buffer_ != nullptr ? value_buffer_bytes_ : 0) +
         (values_ != nullptr ? sizeof(*values_) + values_->memory_bytes() : 0);
}

Status Iterator::Impl::CheckUsable() const noexcept {
  return Guarded([this] { return view_.registry->CheckUsable(); });
}

const Status& Iterator::Impl::status() const {
  if (!is_usable() && status_.code() != Code::kInvalidArgument) status_ = CheckUsable();
  return status_;
}

void Iterator::Impl::DropState() {
  batch_.Clear();
  value_ = nullptr;
  value_seen_ = false;
  // Clear does not touch the pool, which may be gone.
  if (values_ != nullptr) values_->Clear();
}

void Iterator::Impl::Fail(Status status, Stand* stand) noexcept {
  *stand = {};
  DropState();
  status_ = std::move(status);
  Tell(status_);
}

void Iterator::Impl::Tell(const Status& status) const noexcept {
  // After the store's end there is no log to tell. A forked child logs nothing.
  if (!is_usable()) return;
  (void)Guarded([&] {
    Log(pool_->context_.options.log, LogLevel::kError, "iterator: " + status.ToString());
    return Status::Ok();
  });
}

// Where it stands.

inline void Iterator::Impl::StandAt(uint32_t i, Stand* stand) {
  stand->at = batch_.BytesAt(i);
  stand->first = batch_.BytesAt(0);
  stand->last = batch_.BytesAt(batch_.count() - 1);
  if (refresh_every_steps_ != 0) [[unlikely]] {
    // Every step is to be counted.
    stand->first = stand->last = stand->at;
  }
}

// A load brought no key: there is none, or `status` says why.
void Iterator::Impl::StandNowhere(Status status, Stand* stand) noexcept {
  if (!status.ok()) return Fail(std::move(status), stand);
  *stand = {};
  DropState();
}

[[gnu::always_inline]] inline void Iterator::Impl::Load(uint64_t from, Stand* stand) {
  if (from > range_.last) [[unlikely]] {
    *stand = {};
    return;
  }
  Status status = batch_.LoadFrom(*index_, from, range_.last, view_.version);
  if (batch_.empty()) [[unlikely]] {
    return StandNowhere(std::move(status), stand);
  }
  StandAt(0, stand);
}

[[gnu::always_inline]] inline void Iterator::Impl::LoadBack(uint64_t from, Stand* stand) {
  if (from < range_.first) [[unlikely]] {
    *stand = {};
    return;
  }
  Status status = batch_.LoadUpTo(*index_, range_.first, from, view_.version);
  if (batch_.empty()) [[unlikely]] {
    return StandNowhere(std::move(status), stand);
  }
  StandAt(batch_.count() - 1, stand);
}

inline void Iterator::Impl::BeginSeek(bool backwards) {
  if (!status_.ok()) [[unlikely]] {
    status_ = Status::Ok();
  }
  walks_backwards_ = backwards;
  value_seen_ = false;
  sizes_.BeginWalk();
}

void Iterator::Impl::RefuseSeek(std::string_view key, Stand* stand) {
  Fail(is_usable() ? CheckKey(key) : CheckUsable(), stand);
}

void Iterator::Impl::Seek(std::string_view key_bytes, Stand* stand) {
  if (!MaySeek(key_bytes)) [[unlikely]] {
    return RefuseSeek(key_bytes, stand);
  }
  BeginSeek(false);
  const uint64_t key = std::max(DecodeKey(key_bytes.data()), range_.first);
  if (batch_.HoldsNext(key)) return StandAt(batch_.NextOf(key), stand);
  batch_.Restart();
  Load(key, stand);
}

void Iterator::Impl::SeekForPrev(std::string_view key_bytes, Stand* stand) {
  if (!MaySeek(key_bytes)) [[unlikely]] {
    return RefuseSeek(key_bytes, stand);
  }
  BeginSeek(true);
  const uint64_t key = std::min(DecodeKey(key_bytes.data()), range_.last);
  if (batch_.HoldsPrevious(key)) return StandAt(batch_.PreviousOf(key), stand);
  batch_.Restart();
  LoadBack(key, stand);
}

void Iterator::Impl::SeekToFirst(Stand* stand) {
  char key[kKeyBytes];
  EncodeKey(0, key);
  Seek({key, kKeyBytes}, stand);
}

void Iterator::Impl::SeekToLast(Stand* stand) {
  char key[kKeyBytes];
  EncodeKey(~uint64_t{0}, key);
  SeekForPrev({key, kKeyBytes}, stand);
}

void Iterator::Impl::CountStep() {
  if (refresh_every_steps_ == 0 || ++steps_ < refresh_every_steps_) return;
  steps_ = 0;
  ViewRegistry::Renew(&view_);
  DropState();
}

void Iterator::Impl::StepForward(Stand* stand) {
  if (!is_usable()) [[unlikely]] {
    return Fail(CheckUsable(), stand);
  }
  const uint64_t key = DecodeKey(stand->at);
  const uint32_t index = batch_.IndexOf(stand->at);
  CountStep();
  if (index + 1 < batch_.count()) return StandAt(index + 1, stand);
  if (key >= range_.last) {
    *stand = {};
    return;
  }
  batch_.Grow(*index_, /*backwards=*/false);
  Load(key + 1, stand);
}

void Iterator::Impl::StepBackward(Stand* stand) {
  if (!is_usable()) [[unlikely]] {
    return Fail(CheckUsable(), stand);
  }
  const uint64_t key = DecodeKey(stand->at);
  const uint32_t index = batch_.IndexOf(stand->at);
  CountStep();
  if (!batch_.empty() && index > 0) return StandAt(index - 1, stand);
  if (key <= range_.first) {
    *stand = {};
    return;
  }
  batch_.Grow(*index_, /*backwards=*/true);
  LoadBack(key - 1, stand);
}

Status Iterator::Impl::Refresh(const Snapshot* snapshot, bool keep_position, Stand* stand) {
  if (!is_usable()) [[unlikely]] {
    Fail(CheckUsable(), stand);
    return CheckUsable();
  }
  const uint64_t old_version = view_.version;
  if (snapshot == nullptr) {
    ViewRegistry::Renew(&view_);
  } else if (snapshot->view().registry != view_.registry) [[unlikely]] {
    Status status = Guarded([&] { return pool_->CheckSnapshot(*snapshot); });
    Tell(status);
    return status;
  } else if (snapshot->view().version != old_version) {
    ViewRegistry::RenewAt(snapshot->view().version, &view_);
  }
  const bool changed = view_.version != old_version;
  if (keep_position && !changed) return Status::Ok();
  ENGINE_RACE_ASSERT(stand->at == nullptr || !batch_.empty());
  const Stand stood = std::exchange(*stand, {});
  if (changed) DropState();
  return keep_position && stood.at != nullptr ? StandAgain(DecodeKey(stood.at), stand)
                                              : Status::Ok();
}

Status Iterator::Impl::StandAgain(uint64_t key, Stand* stand) {
  batch_.Restart();
  Load(key, stand);
  // A copy may need memory.
  return Guarded([this] { return Status(status_); });
}

// Values.

std::string_view Iterator::Impl::Value(Stand* stand) {
  if (!is_usable()) [[unlikely]] {
    Fail(CheckUsable(), stand);
    return {};
  }
  const uint64_t key = DecodeKey(stand->at);
  if (value_ == nullptr || value_key_ != key) {
    value_ = nullptr;
    Status status = Guarded([&] { return ReadValue(key); });
    if (!status.ok()) [[unlikely]] {
      Fail(std::move(status), stand);
      return {};
    }
    sizes_.CountValue();
    const bool may_read_ahead = !walks_backwards_ && prefetch_records_ == 0;
    const uint32_t ahead_count = may_read_ahead ? sizes_.AheadCount() : 0;
    if (ahead_count > 0) values_->ReadAhead(ahead_count);
  }
  ENGINE_RACE_ASSERT(value_ != nullptr);
  value_key_ = key;
  value_seen_ = true;
  return {value_, value_bytes_};
}

Status Iterator::Impl::ReadValue(uint64_t key) {
  if (value_seen_) walks_backwards_ = key < value_key_;
  return prefetch_records_ == 1 ? ReadAlone(key) : ReadMany(key);
}

Status Iterator::Impl::ReadAlone(uint64_t key) {
  if (value_buffer_ == nullptr) {
    value_buffer_.reset(static_cast<char*>(std::aligned_alloc(kIoAlignment, value_buffer_bytes_)));
    if (value_buffer_ == nullptr) return Status::OutOfMemory("the buffer of an iterator's value");
  }
  ENGINE_RACE_RETURN_IF_ERROR(pool_->points_.ReadAt(key, view_.version, value_buffer_.get()));
  value_ = value_buffer_.get();
  return Status::Ok();
}

Status Iterator::Impl::ReadMany(uint64_t key) {
  uint32_t entry = 0;
  if (values_ == nullptr || !values_->Find(key, &entry)) {
    Status read = Guarded([&] { return ReadChunk(key); });
    if (read.code() == Code::kOutOfMemory && prefetch_records_ == 0) {
      // There may be memory for one value.
      if (values_ != nullptr) values_->GiveBack();
      sizes_.CountRefusal();
      return ReadAlone(key);
    }
    ENGINE_RACE_RETURN_IF_ERROR(read);
    if (values_ == nullptr || !values_->Find(key, &entry)) return ReadAlone(key);
  }
  Status status = values_->Value(entry, &value_);
  // Perhaps only a neighbour of its read could not be read.
  return status.code() == Code::kIOError ? ReadAlone(key) : std::move(status);
}

// Reads the records from `key` on, or, walking backwards, those up to `key`. Leaves no records if
// the value is to be read alone.
Status Iterator::Impl::ReadChunk(uint64_t key) {
  uint32_t count = prefetch_records_ != 0 ? prefetch_records_ : sizes_.NextCount();
  if (count <= 1) {
    if (values_ != nullptr) values_->GiveBack();
    sizes_.CountReading(1);
    return Status::Ok();
  }
  if (values_ == nullptr) {
    values_ = std::make_unique<ChunkReader>(&pool_->context_, &pool_->window_pool_);
  }
  if (walks_backwards_) values_->DropAhead();
  if (!values_->TakeAhead(key, range_.last, view_.version)) {
    values_->Clear();
    // By default nothing is allocated for values that are read ahead.
    const bool may_allocate = prefetch_records_ != 0;
    ENGINE_RACE_RETURN_IF_ERROR(values_->Reserve(count, may_allocate, &count));
    if (count == 0) {
      sizes_.CountRefusal();
      return Status::Ok();
    }
    uint64_t first_key = key;
    if (walks_backwards_) {
      keys_.resize(count);
      size_t key_count = 0;
      ENGINE_RACE_RETURN_IF_ERROR(
          index_->LastKeys(range_.first, key, view_.version, keys_, &key_count));
      if (key_count == 0) return Status::Ok();
      first_key = keys_[0];
    }
    const uint64_t last_key = walks_backwards_ ? key : range_.last;
    const auto keep = walks_backwards_ ? ChunkBuilder::Keep::kLast : ChunkBuilder::Keep::kFirst;
    ENGINE_RACE_RETURN_IF_ERROR(values_->Read(first_key, last_key, view_.version, count, keep));
  }
  sizes_.CountReading(std::max(values_->record_count(), 1U));
  return Status::Ok();
}

}  // namespace engine_race
