#include "engine_race/scan/iterator.h"

#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/scan/iterator_impl.h"
#include "engine_race/scan/iterator_pool.h"

namespace engine_race {

namespace {

// Of an iterator that was never made.
Status NoStore() noexcept { return {Code::kInvalidArgument, {}}; }

}  // namespace

const Status& Iterator::status() const {
  static const Status kNone = NoStore();
  return impl_ == nullptr ? kNone : impl_->status();
}

void Iterator::Seek(std::string_view key) {
  if (impl_ != nullptr) [[likely]] {
    impl_->Seek(key, &stand_);
  }
}

void Iterator::SeekForPrev(std::string_view key) {
  if (impl_ != nullptr) [[likely]] {
    impl_->SeekForPrev(key, &stand_);
  }
}

void Iterator::SeekToFirst() {
  if (impl_ != nullptr) impl_->SeekToFirst(&stand_);
}

void Iterator::SeekToLast() {
  if (impl_ != nullptr) impl_->SeekToLast(&stand_);
}

void Iterator::NextBatch() {
  if (stand_.at != nullptr) impl_->StepForward(&stand_);
}

void Iterator::PrevBatch() {
  if (stand_.at != nullptr) impl_->StepBackward(&stand_);
}

std::string_view Iterator::value() {
  if (stand_.at == nullptr) return {};
  return impl_->Value(&stand_);
}

Status Iterator::Refresh() {
  return impl_ == nullptr ? NoStore() : impl_->Refresh(nullptr, false, &stand_);
}

Status Iterator::Refresh(const Snapshot& snapshot) {
  return impl_ == nullptr ? NoStore() : impl_->Refresh(&snapshot, false, &stand_);
}

Status Iterator::RefreshKeepPosition() {
  return impl_ == nullptr ? NoStore() : impl_->Refresh(nullptr, true, &stand_);
}

Status Iterator::RefreshKeepPosition(const Snapshot& snapshot) {
  return impl_ == nullptr ? NoStore() : impl_->Refresh(&snapshot, true, &stand_);
}

void Iterator::ReleaseImpl() noexcept {
  stand_ = {};
  Impl* const impl = std::exchange(impl_, nullptr);
  // A forked child only forgets the iterator. View, windows and loader are the parent's, and
  // another thread may have held their locks at the fork.
  if (impl->is_inherited()) return;
  if (impl->End()) {
    impl->pool()->Give(impl);
  } else {
    delete impl;
  }
}

}  // namespace engine_race
