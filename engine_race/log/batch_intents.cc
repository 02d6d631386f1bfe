#include "engine_race/log/batch_intents.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <set>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/sys_mapping.h"
#include "engine_race/log/format.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/staging.h"

namespace engine_race {
namespace {

// Of the intents of staged records, which come first in the file.
constexpr uint64_t kStagedBytes = format::kBatchIntents * format::kBatchIntentBytes;
static_assert(kStagedBytes % kIoAlignment == 0 && format::kBatchEntriesOffset % kIoAlignment == 0 &&
              sizeof(format::BatchIntent) <= format::kBatchEntriesOffset);

uint64_t OffsetOf(uint32_t intent) { return intent * format::kBatchIntentBytes; }

uint64_t MostEntries(const StoreFiles& files, uint32_t intent) {
  return intent == format::kLargeIntent ? files.identity.geometry.bucket_count
                                        : format::kBatchIntentEntries;
}

uint64_t FileBytes(const StoreFiles& files) {
  return OffsetOf(format::kLargeIntent) + format::kBatchEntriesOffset +
         RoundUp(MostEntries(files, format::kLargeIntent) * sizeof(format::BatchIntentEntry),
                 kIoAlignment);
}

uint64_t SeedOf(const StoreFiles& files, uint32_t page_cache_id) {
  return MixWords(files.identity.store_id ^ 0x9fb21c651e98df25, page_cache_id + 0xc2b2ae3d27d4eb4f);
}
uint64_t LargeSeedOf(const StoreFiles& files) {
  return MixWords(files.identity.store_id ^ 0x9fb21c651e98df25, 0x165667b19e3779f9);
}

// Of the page caches that intents may be of: the present one, and those that the counts name.
std::set<uint64_t> SeedsOf(const StoreFiles& files, const std::vector<BucketState>& states) {
  std::set<uint64_t> seeds = {SeedOf(files, PageCacheId(files))};
  for (const BucketState& state : states) {
    if (!state.damaged) seeds.insert(SeedOf(files, state.page_cache_id));
  }
  return seeds;
}

uint64_t CommitWord(uint64_t seed, std::span<const format::BatchIntentEntry> entries) {
  return Hash64(entries.data(), entries.size_bytes(), seed + entries.size()) | 1;
}

// *count is 0 for a store without intents.
Status OpenIntents(const StoreFiles& files, io::Access access, io::File* file, uint32_t* count) {
  *count = 0;
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(files.directory.get(), format::kBatchesName, &exists));
  if (!exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(files.directory.get(), format::kBatchesName, access,
                                             io::Caching::kBuffered, file));
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file->Size(&size_bytes));
  // A shorter one was never stored into. One without the intent of a large batch is of an earlier
  // build.
  if (size_bytes >= kStagedBytes) *count = format::kBatchIntents;
  if (size_bytes >= FileBytes(files)) *count = format::kLargeIntent + 1;
  return Status::Ok();
}

// *committed: the intent counts, and the entries are its.
Status ReadIntent(const StoreFiles& files, const io::File& file, uint32_t intent,
                  const std::set<uint64_t>& seeds, std::vector<format::BatchIntentEntry>* entries,
                  bool* committed) {
  *committed = false;
  format::BatchIntent header;
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(&header, sizeof(header), OffsetOf(intent)));
  if (header.commit == 0 || header.entry_count > MostEntries(files, intent)) return Status::Ok();
  entries->resize(header.entry_count);
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(entries->data(), entries->size() * sizeof(entries->front()),
                                        OffsetOf(intent) + format::kBatchEntriesOffset));
  *committed = std::any_of(seeds.begin(), seeds.end(), [&](uint64_t seed) {
    return header.commit == CommitWord(seed, *entries);
  });
  return Status::Ok();
}

// The state of a bucket once the records of a large batch count.
void CountLogged(const StoreFiles& files, uint64_t record_count, BucketState* state) {
  const Geometry& geometry = files.identity.geometry;
  state->SetLogged(geometry, record_count);
  // The rows were durable before the intent.
  state->damaged = record_count > (state->table.has_rows() ? state->table.RunEnd()
                                                           : geometry.bucket_capacity_records);
}

}  // namespace

Status BatchIntents::Open(const StoreFiles& files, bool mapped, mode_t file_mode) {
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(files.directory.get(), format::kBatchesName,
                                             io::Access::kCreate, io::Caching::kBuffered, &file,
                                             file_mode));
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.Size(&size_bytes));
  file_bytes_ = FileBytes(files);
  if (size_bytes != file_bytes_) ENGINE_RACE_RETURN_IF_ERROR(file.Truncate(file_bytes_));
  if (mapped) {
    SharedMapping mapping;
    ENGINE_RACE_RETURN_IF_ERROR(Staging::ReserveRange(file, 0, kStagedBytes));
    ENGINE_RACE_RETURN_IF_ERROR(SharedMapping::Map(file.fd(), kStagedBytes, &mapping));
    bool populated = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::PopulateForStores(mapping.data(), kStagedBytes, &populated));
    mapping_ = std::move(mapping);
  }
  seed_ = SeedOf(files, PageCacheId(files));
  large_seed_ = LargeSeedOf(files);
  dir_fd_ = files.directory.get();
  file_ = std::move(file);
  return Status::Ok();
}

bool BatchIntents::Claim(uint32_t* intent) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto first_free = [this] { return std::find(claimed_.begin(), claimed_.end(), false); };
  free_.wait(lock, [&] { return claims_ended_ || first_free() != claimed_.end(); });
  if (claims_ended_) return false;
  bool& claimed = *first_free();
  claimed = true;
  *intent = static_cast<uint32_t>(&claimed - claimed_.data());
  return true;
}

void BatchIntents::EndClaims() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    claims_ended_ = true;
  }
  free_.notify_all();
}

void BatchIntents::GiveBack(uint32_t intent) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    claimed_[intent] = false;
  }
  free_.notify_one();
}

Status BatchIntents::Store(uint64_t offset, const void* bytes, size_t size) {
  // The intent of a large batch lies behind the mapping.
  if (offset >= mapping_.size()) return file_.Write(bytes, size, offset);
  std::memcpy(mapping_.data() + offset, bytes, size);
  return Status::Ok();
}

Status BatchIntents::StoreWord(uint64_t offset, uint64_t word) {
  // The kernel copies an aligned word as one.
  if (offset >= mapping_.size()) return file_.Write(&word, sizeof(word), offset);
  // Release pairs with the next opening's read of the file: an opening that sees the commit word
  // sees the entries, and one that sees it cleared sees the counts.
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(mapping_.data() + offset))
      .store(word, std::memory_order_release);
  return Status::Ok();
}

Status BatchIntents::Commit(uint32_t intent, std::span<const format::BatchIntentEntry> entries) {
  const bool is_large = intent == format::kLargeIntent;
  const uint64_t offset = OffsetOf(intent);
  ENGINE_RACE_ASSERT(offset + format::kBatchEntriesOffset + entries.size_bytes() <=
                     (is_large ? file_bytes_ : OffsetOf(intent + 1)));
  const auto count = static_cast<uint32_t>(entries.size());
  ENGINE_RACE_RETURN_IF_ERROR(
      Store(offset + format::kBatchEntriesOffset, entries.data(), entries.size_bytes()));
  ENGINE_RACE_RETURN_IF_ERROR(
      Store(offset + offsetof(format::BatchIntent, entry_count), &count, sizeof(count)));
  return StoreWord(offset + offsetof(format::BatchIntent, commit),
                   CommitWord(is_large ? large_seed_ : seed_, entries));
}

Status BatchIntents::Clear(uint32_t intent) {
  return StoreWord(OffsetOf(intent) + offsetof(format::BatchIntent, commit), 0);
}

Status BatchIntents::SecureLarge() {
  if (large_secured_) return Status::Ok();
  const uint64_t offset = OffsetOf(format::kLargeIntent);
  ENGINE_RACE_RETURN_IF_ERROR(Staging::ReserveRange(file_, offset, file_bytes_ - offset));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Sync());
  ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd_));
  large_secured_ = true;
  return Status::Ok();
}

Status RedoIntents(const StoreFiles& files, std::vector<BucketState>* states, MovedCounts* moved) {
  *moved = {};
  io::File file;
  uint32_t count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(OpenIntents(files, io::Access::kRead, &file, &count));
  if (count == 0) return Status::Ok();
  const std::set<uint64_t> seeds = SeedsOf(files, *states);
  std::vector<format::BatchIntentEntry> entries;
  for (uint32_t intent = 0; intent < count; ++intent) {
    const bool is_large = intent == format::kLargeIntent;
    bool committed = false;
    ENGINE_RACE_RETURN_IF_ERROR(ReadIntent(files, file, intent,
                                           is_large ? std::set{LargeSeedOf(files)} : seeds,
                                           &entries, &committed));
    if (!committed) continue;
    for (const format::BatchIntentEntry& entry : entries) {
      if (entry.bucket >= states->size() || (*states)[entry.bucket].damaged) continue;
      BucketState& state = (*states)[entry.bucket];
      if (is_large) {
        // Records of the batch count below the synced watermark alone.
        if (state.synced_watermark < entry.record_count) {
          CountLogged(files, entry.record_count, &state);
        }
        if (!state.damaged) moved->logged.push_back(entry.bucket);
      } else if (state.record_count < entry.record_count) {
        state.record_count = entry.record_count;
        moved->staged.push_back(entry.bucket);
      }
    }
  }
  return Status::Ok();
}

Status MakeLargeDurable(const StoreFiles& files) {
  io::File file;
  uint32_t count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(OpenIntents(files, io::Access::kReadWrite, &file, &count));
  const uint64_t offset = OffsetOf(format::kLargeIntent);
  std::vector<char> intent(FileBytes(files) - offset);
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(intent.data(), intent.size(), offset));
  ENGINE_RACE_RETURN_IF_ERROR(file.Write(intent.data(), intent.size(), offset));
  return file.DataSync();
}

Status EraseIntents(const StoreFiles& files) {
  io::File file;
  uint32_t count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(OpenIntents(files, io::Access::kReadWrite, &file, &count));
  constexpr uint64_t kNone = 0;
  for (uint32_t intent = 0; intent < count; ++intent) {
    uint64_t commit = 0;
    const uint64_t offset = OffsetOf(intent) + offsetof(format::BatchIntent, commit);
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(&commit, sizeof(commit), offset));
    if (commit != 0) ENGINE_RACE_RETURN_IF_ERROR(file.Write(&kNone, sizeof(kNone), offset));
  }
  return Status::Ok();
}

}  // namespace engine_race
