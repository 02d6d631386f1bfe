#include "engine_race/log/batch_intents.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <set>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/sys_mapping.h"
#include "engine_race/log/format.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/staging.h"

namespace engine_race {
namespace {

constexpr uint64_t kFileBytes = format::kBatchIntents * format::kBatchIntentBytes;
constexpr uint64_t kEntriesOffset = kIoAlignment;
static_assert(kFileBytes % kIoAlignment == 0 && sizeof(format::BatchIntent) <= kEntriesOffset);

uint64_t SeedOf(const StoreFiles& files, uint32_t page_cache_id) {
  return MixWords(files.identity.store_id ^ 0x9fb21c651e98df25, page_cache_id + 0xc2b2ae3d27d4eb4f);
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

// *exists is false for a store without intents.
Status OpenIntents(const StoreFiles& files, io::Access access, io::File* file, bool* exists) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(files.directory.get(), format::kBatchesName, exists));
  if (!*exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(files.directory.get(), format::kBatchesName, access,
                                             io::Caching::kBuffered, file));
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file->Size(&size_bytes));
  // A shorter one was never stored into.
  *exists = size_bytes >= kFileBytes;
  return Status::Ok();
}

}  // namespace

Status BatchIntents::Open(const StoreFiles& files, bool mapped, mode_t file_mode) {
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(files.directory.get(), format::kBatchesName,
                                             io::Access::kCreate, io::Caching::kBuffered, &file,
                                             file_mode));
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.Size(&size_bytes));
  if (size_bytes != kFileBytes) ENGINE_RACE_RETURN_IF_ERROR(file.Truncate(kFileBytes));
  if (mapped) {
    SharedMapping mapping;
    ENGINE_RACE_RETURN_IF_ERROR(Staging::ReserveRange(file, 0, kFileBytes));
    ENGINE_RACE_RETURN_IF_ERROR(SharedMapping::Map(file.fd(), kFileBytes, &mapping));
    bool populated = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::PopulateForStores(mapping.data(), kFileBytes, &populated));
    mapping_ = std::move(mapping);
  }
  seed_ = SeedOf(files, PageCacheId(files));
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
  if (mapping_.data() == nullptr) return file_.Write(bytes, size, offset);
  std::memcpy(mapping_.data() + offset, bytes, size);
  return Status::Ok();
}

Status BatchIntents::StoreWord(uint64_t offset, uint64_t word) {
  // The kernel copies an aligned word as one.
  if (mapping_.data() == nullptr) return file_.Write(&word, sizeof(word), offset);
  // Release pairs with the next opening's read of the file: an opening that sees the commit word
  // sees the entries, and one that sees it cleared sees the counts.
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(mapping_.data() + offset))
      .store(word, std::memory_order_release);
  return Status::Ok();
}

Status BatchIntents::Commit(uint32_t intent, std::span<const format::BatchIntentEntry> entries) {
  ENGINE_RACE_ASSERT(entries.size() <= format::kBatchIntentEntries);
  const uint64_t offset = intent * format::kBatchIntentBytes;
  const auto count = static_cast<uint32_t>(entries.size());
  ENGINE_RACE_RETURN_IF_ERROR(Store(offset + kEntriesOffset, entries.data(), entries.size_bytes()));
  ENGINE_RACE_RETURN_IF_ERROR(
      Store(offset + offsetof(format::BatchIntent, entry_count), &count, sizeof(count)));
  return StoreWord(offset + offsetof(format::BatchIntent, commit), CommitWord(seed_, entries));
}

Status BatchIntents::Clear(uint32_t intent) {
  return StoreWord(intent * format::kBatchIntentBytes + offsetof(format::BatchIntent, commit), 0);
}

Status RedoIntents(const StoreFiles& files, std::vector<BucketState>* states,
                   std::vector<uint32_t>* moved) {
  moved->clear();
  io::File file;
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(OpenIntents(files, io::Access::kRead, &file, &exists));
  if (!exists) return Status::Ok();
  const std::set<uint64_t> seeds = SeedsOf(files, *states);
  std::vector<format::BatchIntentEntry> entries;
  for (uint32_t intent = 0; intent < format::kBatchIntents; ++intent) {
    const uint64_t offset = intent * format::kBatchIntentBytes;
    format::BatchIntent header;
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(&header, sizeof(header), offset));
    if (header.commit == 0 || header.entry_count > format::kBatchIntentEntries) continue;
    entries.resize(header.entry_count);
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(entries.data(), entries.size() * sizeof(entries.front()),
                                          offset + kEntriesOffset));
    const bool committed = std::any_of(seeds.begin(), seeds.end(), [&](uint64_t seed) {
      return header.commit == CommitWord(seed, entries);
    });
    if (!committed) continue;
    for (const format::BatchIntentEntry& entry : entries) {
      if (entry.bucket >= states->size() || (*states)[entry.bucket].damaged) continue;
      uint64_t& record_count = (*states)[entry.bucket].record_count;
      if (record_count >= entry.record_count) continue;
      record_count = entry.record_count;
      moved->push_back(entry.bucket);
    }
  }
  return Status::Ok();
}

Status EraseIntents(const StoreFiles& files) {
  io::File file;
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(OpenIntents(files, io::Access::kReadWrite, &file, &exists));
  constexpr uint64_t kNone = 0;
  for (uint32_t intent = 0; exists && intent < format::kBatchIntents; ++intent) {
    uint64_t commit = 0;
    const uint64_t offset =
        intent * format::kBatchIntentBytes + offsetof(format::BatchIntent, commit);
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(&commit, sizeof(commit), offset));
    if (commit != 0) ENGINE_RACE_RETURN_IF_ERROR(file.Write(&kNone, sizeof(kNone), offset));
  }
  return Status::Ok();
}

}  // namespace engine_race
