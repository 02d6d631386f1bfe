// The code that RocksDB and LevelDB share: they have the same iterators and slices.
//
// A cursor belongs to one thread at a time.
#ifndef HARNESS_OPPONENTS_LSM_CURSOR_H_
#define HARNESS_OPPONENTS_LSM_CURSOR_H_

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "engine_race/base/key.h"
#include "harness/kv/kv_store.h"

namespace engine_race::harness {

// Slice is that library's; it points into `key`, which outlives it.
template <typename Slice>
Slice KeySlice(const KeyBytes& key) {
  return Slice(key.view().data(), key.view().size());
}

// A status of one of the libraries, in words that begin with `what`.
template <typename LibraryStatus>
Status FromLsm(const char* what, const LibraryStatus& status) {
  if (status.ok()) return Status::Ok();
  if (status.IsNotFound()) return Status::NotFound();
  const std::string text = std::string(what) + ": " + status.ToString();
  return status.IsCorruption() ? Status::Corruption(text) : Status::IOError(text);
}

template <typename Slice>
Status CopyValue(const char* what, const Slice& from, uint32_t value_bytes, char* to) {
  if (from.size() != value_bytes) {
    return Status::Corruption(std::string(what) + ": a value of " + std::to_string(from.size()) +
                              " bytes");
  }
  std::memcpy(to, from.data(), value_bytes);
  return Status::Ok();
}

template <typename Iterator, typename Slice>
class LsmCursor final : public KvCursor {
 public:
  LsmCursor(const char* what, std::unique_ptr<Iterator> iterator, uint32_t value_bytes)
      : what_(what), value_bytes_(value_bytes), iterator_(std::move(iterator)) {}

  void SeekToFirst() override { iterator_->SeekToFirst(); }
  void SeekToLast() override { iterator_->SeekToLast(); }
  void Seek(uint64_t key) override { iterator_->Seek(KeySlice<Slice>(KeyBytes(key))); }
  void Next() override { iterator_->Next(); }
  void Prev() override { iterator_->Prev(); }
  bool Valid() override { return iterator_->Valid(); }
  uint64_t Key() override { return DecodeKey(iterator_->key().data()); }
  const char* Value() override {
    const Slice value = iterator_->value();
    const bool is_whole = iterator_->key().size() == kKeyBytes && value.size() == value_bytes_;
    return is_whole ? value.data() : nullptr;
  }
  Status Error() override { return FromLsm(what_, iterator_->status()); }

 private:
  const char* const what_;
  const uint32_t value_bytes_;
  const std::unique_ptr<Iterator> iterator_;
};

// A cursor over a database that outlives it.
template <typename Iterator, typename Slice, typename Database, typename ReadOptions>
std::unique_ptr<KvCursor> NewLsmCursor(const char* what, Database* db, const ReadOptions& options,
                                       uint32_t value_bytes) {
  std::unique_ptr<Iterator> iterator(db->NewIterator(options));
  return std::make_unique<LsmCursor<Iterator, Slice>>(what, std::move(iterator), value_bytes);
}

}  // namespace engine_race::harness

#endif  // HARNESS_OPPONENTS_LSM_CURSOR_H_
