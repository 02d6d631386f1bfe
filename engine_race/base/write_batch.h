// Puts and deletes that a store takes as a whole: Store::Write(const WriteBatch&).
//
// A batch copies what it is given. Later entries of a key win over earlier ones. It belongs to no
// store, and may be written to several ones, and several times, whose values have its size.
//
// Thread safety: const calls from any thread; any other call excludes all calls. Movable owner of
// its memory. Clear keeps that memory for the next records.
#ifndef ENGINE_RACE_BASE_WRITE_BATCH_H_
#define ENGINE_RACE_BASE_WRITE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race {

class Region;

class WriteBatch {
 public:
  // One entry. `value` has value_bytes(), and is null for a deletion.
  struct Record {
    uint64_t key = 0;
    const char* value = nullptr;
    uint64_t value_hash = 0;  // HashValue of the value
  };

  // Of values of kValueBytes.
  WriteBatch();
  // `value_bytes`: as Store::value_bytes, from kMinValueBytes to kMaxValueBytes. A size below or
  // above these becomes the nearest of them, without an error.
  explicit WriteBatch(uint32_t value_bytes);
  WriteBatch(WriteBatch&& other) noexcept;
  WriteBatch& operator=(WriteBatch&& other) noexcept;
  ~WriteBatch();

  // Keys have kKeyBytes bytes, values value_bytes(); any other is kInvalidArgument. kOutOfMemory.
  // After a failure the batch is as it was.
  Status Put(std::string_view key, std::string_view value);
  // Puts of keys as numbers; the value of keys[i] is at values + i * value_bytes().
  Status PutMany(std::span<const uint64_t> keys, const char* values);
  Status Delete(std::string_view key);

  // Makes room for `put_count` puts and `delete_count` deletes in all, so that they need no memory
  // later. kOutOfMemory: the batch is as it was.
  Status Reserve(size_t put_count, size_t delete_count = 0);

  uint32_t value_bytes() const { return value_bytes_; }

  // Drops all entries and keeps their memory.
  void Clear() noexcept;

  // Entries, in the order in which they came: earlier ones of a key count too.
  size_t size() const { return records_.size(); }
  bool empty() const { return records_.empty(); }
  // How many of them are puts.
  size_t put_count() const { return value_count_; }
  // The bytes of their keys and values.
  uint64_t bytes() const;
  std::span<const Record> records() const { return records_; }

 private:
  // Values lie in chunks that never move: so many in each.
  size_t chunk_values() const;

  Status AddChunk();
  Status Append(uint64_t key, const char* value);

  uint32_t value_bytes_;
  std::vector<Record> records_;
  std::vector<Region> chunks_;
  size_t value_count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_WRITE_BATCH_H_
