// Intents: what makes the counts of several buckets move as one under kill -9.
//
// The records of a batch are staged, or in the logs, before anything counts them. Then an intent
// names the count that each bucket is to have, and one aligned store commits it. The counts follow
// one by one, and the intent is cleared. An opening that finds a committed intent moves the counts
// itself; without one the records count for nothing.
//
// Nothing relies on a flush of an intent of staged records: it names the page cache in which it was
// stored. In another one its records may be lost. Recovery then looks for them one by one, as for
// all others below the counts. The intent of a large batch, whose records are in the logs durably,
// is flushed. It counts in every page cache. Cleared, it may come back with a power loss. By then
// its counts have moved, durably, so it changes nothing.
//
// Like staging, the intents of staged records are stored through a mapping, or written where
// staging is. The intent of a large batch is always written.
//
// Thread safety: every call from any thread, one large batch at a time. An intent belongs to the
// thread that claimed it.
// Owner of the file and its mapping.
#ifndef ENGINE_RACE_LOG_BATCH_INTENTS_H_
#define ENGINE_RACE_LOG_BATCH_INTENTS_H_

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/batch_format.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

class BatchIntents {
 public:
  // Opens the file in the store's directory, made with `file_mode`, and reserves its space. Of a
  // store whose intents recovery has redone. kFull, kIOError.
  Status Open(const StoreFiles& files, bool mapped, mode_t file_mode);
  bool is_open() const { return file_.valid(); }

  // Waits for a free intent. Its holder waits for nothing before it gives the intent back, or ends
  // the claims. False: they have ended.
  bool Claim(uint32_t* intent);
  void GiveBack(uint32_t intent);
  // After a failure the holder's intent is kept for the next opening, and no other one is claimed.
  void EndClaims();
  // At most format::kBatchIntentEntries, or an entry a bucket for format::kLargeIntent. From Ok on
  // the counts will move; those of a large batch once file() is flushed. After kFull nothing was
  // committed; after any other failure nobody knows.
  Status Commit(uint32_t intent, std::span<const format::BatchIntentEntry> entries);
  // All counts have moved. After a failure they would be moved to the same values again.
  Status Clear(uint32_t intent);

  // Reserves the space of the intent of a large batch, and syncs the file and its name. Once in an
  // opening. kFull, kIOError.
  Status SecureLarge();
  const io::File& file() const { return file_; }

 private:
  Status Store(uint64_t offset, const void* bytes, size_t size);
  Status StoreWord(uint64_t offset, uint64_t word);

  io::File file_;
  SharedMapping mapping_;
  int dir_fd_ = -1;
  uint64_t file_bytes_ = 0;
  uint64_t seed_ = 0;
  uint64_t large_seed_ = 0;
  bool large_secured_ = false;

  std::mutex mutex_;
  std::condition_variable free_;
  // Under mutex_.
  std::array<bool, format::kBatchIntents> claimed_{};
  bool claims_ended_ = false;
};

// The buckets whose counts an opening moves, because a committed intent names them.
struct MovedCounts {
  std::vector<uint32_t> staged;  // whose new records are staged
  // Of a committed large batch: all of its buckets. Their counts may have moved already, and not
  // durably.
  std::vector<uint32_t> logged;
};
// Moves the counts that committed intents name, in `states` alone. Intents of staged records count
// if they are of the present page cache or of one that `states` name.
Status RedoIntents(const StoreFiles& files, std::vector<BucketState>* states, MovedCounts* moved);
// Writes the intent of a large batch once more, and flushes it. A kill, or a failed flush, may have
// left it in the page cache alone.
Status MakeLargeDurable(const StoreFiles& files);
// Clears all intents, if there are any.
Status EraseIntents(const StoreFiles& files);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BATCH_INTENTS_H_
