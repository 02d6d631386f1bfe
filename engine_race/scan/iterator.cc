#include "engine_race/scan/iterator.h"

#include <utility>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/scan/iterator_pool.h"
#include "engine_race/task/point_reader.h"

namespace engine_race {

class Iterator::Impl {
 public:
  const BucketLog* log;
  const Index* index;
  ViewRegistry::View view;
  std::vector<uint64_t> keys = std::vector<uint64_t>(64);
  size_t at = 0;
  size_t count = 0;
  char key_bytes[8];
  std::string value;
  Status status;

  void Load(uint64_t first) {
    at = 0;
    status = index->FirstKeys(first, ~uint64_t{0}, view.epoch, keys, &count);
    if (!status.ok()) count = 0;
  }
  void LoadBack(uint64_t last) {
    status = index->LastKeys(0, last, view.epoch, keys, &count);
    if (!status.ok()) count = 0;
    at = count == 0 ? 0 : count - 1;
  }
};

Iterator::Iterator() noexcept = default;
Iterator::Iterator(Iterator&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
Iterator& Iterator::operator=(Iterator&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Iterator::~Iterator() { Release(); }
void Iterator::Release() noexcept {
  if (impl_ == nullptr) return;
  ViewRegistry::Release(&impl_->view);
  delete std::exchange(impl_, nullptr);
}
bool Iterator::Valid() const { return impl_ != nullptr && impl_->at < impl_->count; }
const Status& Iterator::status() const { return impl_->status; }
void Iterator::SeekToFirst() { impl_->Load(0); }
void Iterator::SeekToLast() { impl_->LoadBack(~uint64_t{0}); }
void Iterator::Seek(std::string_view key) { impl_->Load(DecodeKey(key.data())); }
void Iterator::SeekForPrev(std::string_view key) { impl_->LoadBack(DecodeKey(key.data())); }
void Iterator::Next() {
  if (!Valid()) return;
  if (++impl_->at < impl_->count) return;
  const uint64_t last = impl_->keys[impl_->at - 1];
  if (last != ~uint64_t{0}) impl_->Load(last + 1);
}
void Iterator::Prev() {
  if (!Valid()) return;
  const uint64_t first = impl_->keys[impl_->at];
  if (impl_->at-- > 0) return;
  impl_->at = impl_->count = 0;
  if (first != 0) impl_->LoadBack(first - 1);
}
std::string_view Iterator::key() const {
  EncodeKey(impl_->keys[impl_->at], impl_->key_bytes);
  return {impl_->key_bytes, 8};
}
std::string_view Iterator::value() {
  impl_->status = PointReader(*impl_->log, *impl_->index, true)
                      .Read(impl_->keys[impl_->at], &impl_->value);
  return impl_->value;
}
Status Iterator::Refresh() {
  ViewRegistry::Renew(&impl_->view);
  impl_->at = impl_->count = 0;
  return Status::Ok();
}
Status Iterator::Refresh(const Snapshot& snapshot) {
  ViewRegistry::RenewAt(snapshot.view().epoch, &impl_->view);
  impl_->at = impl_->count = 0;
  return Status::Ok();
}
Status Iterator::RefreshKeepPosition() {
  ViewRegistry::Renew(&impl_->view);
  return Status::Ok();
}
Status Iterator::RefreshKeepPosition(const Snapshot& snapshot) {
  ViewRegistry::RenewAt(snapshot.view().epoch, &impl_->view);
  return Status::Ok();
}

IteratorPool::IteratorPool(const BucketLog& log, const Index& index, const Options& options)
    : log_(log), index_(index), options_(options) {}
IteratorPool::~IteratorPool() = default;
Status IteratorPool::New(const IteratorOptions& options, Iterator* iterator) {
  auto impl = std::make_unique<Iterator::Impl>();
  impl->log = &log_;
  impl->index = &index_;
  if (options.snapshot != nullptr) {
    ENGINE_RACE_RETURN_IF_ERROR(
        index_.views().TakeAt(options.snapshot->view().epoch, &impl->view));
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(index_.views().Take(&impl->view));
  }
  *iterator = Iterator(impl.release());
  return Status::Ok();
}
uint64_t IteratorPool::memory_bytes() const { return 0; }

}  // namespace engine_race
