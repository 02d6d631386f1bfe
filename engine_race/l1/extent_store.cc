#include "engine_race/l1/extent_store.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/planned_files.h"

namespace engine_race::l1 {

using format::IndexBlockHeader;
using format::kIndexBlockBytes;
using format::kIndexExtentBytes;
using format::kIndexFileCount;

namespace {

constexpr uint64_t kGenerationSalt = 0x9e3779b97f4a7c15;
constexpr uint64_t kBlockSalt = 0xc2b2ae3d27d4eb4f;

uint64_t SeedOf(uint64_t store_id, const ExtentId& id, uint32_t block) {
  const uint64_t of_extent = MixWords(store_id ^ kBlockSalt, id.generation ^ kGenerationSalt);
  return MixWords(of_extent ^ kGenerationSalt, (uint64_t{id.place} << 32 | block) ^ kBlockSalt);
}

uint64_t ChecksumOf(uint64_t seed, const char* block) {
  constexpr size_t kSkippedBytes = sizeof(IndexBlockHeader::checksum);
  static_assert(offsetof(IndexBlockHeader, checksum) == 0);
  return Hash64(block + kSkippedBytes, kIndexBlockBytes - kSkippedBytes, seed);
}

uint64_t OffsetOf(uint32_t place) { return uint64_t{place} / kIndexFileCount * kIndexExtentBytes; }

std::string NameOf(uint32_t file) { return NumberedName(format::kIndexFilePrefix, file); }

// A place that cannot be written, or whose file cannot, must not be all that is tried.
constexpr int kWriteAttempts = 8;

// Whether a failed write says something about its place alone.
bool IsOfPlace(const Status& failure) {
  return failure.code() != Code::kFull && failure.code() != Code::kOutOfMemory;
}

// With the block of fences.
uint32_t BlocksFor(uint32_t record_count) { return 1 + format::IndexBlocksOf(record_count); }

}  // namespace

ExtentStore::ExtentStore(int dir_fd, uint64_t store_id, mode_t file_mode, bool writable,
                         uint64_t generation)
    : dir_fd_(dir_fd),
      store_id_(store_id),
      file_mode_(file_mode),
      writable_(writable),
      next_generation_(generation) {}

Status ExtentStore::Open(int dir_fd, uint64_t store_id, mode_t file_mode, bool writable,
                         std::unique_ptr<ExtentStore>* store) {
  uint64_t generation = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] { return sys::RandomWord(&generation); }));
  store->reset(new (std::nothrow) ExtentStore(dir_fd, store_id, file_mode, writable, generation));
  return *store != nullptr ? Status::Ok() : Status::OutOfMemory("no memory for the index files");
}

Status ExtentStore::OpenFile(uint32_t number, io::Access access) {
  io::File& file = files_[number].file;
  if (file.valid()) return Status::Ok();
  return io::File::Open(dir_fd_, NameOf(number), access, io::Caching::kDirect, &file, file_mode_);
}

Status ExtentStore::Reserve(std::span<const format::IndexExtent> extents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ENGINE_RACE_ASSERT(used_bytes() == 0);
  const Status status = Guarded([&] { return ReserveLocked(extents); });
  if (!status.ok()) {
    places_.clear();
    used_bytes_.store(0, std::memory_order_relaxed);
  }
  lowest_free_ = 0;
  return status;
}

// A failure costs only space.
void ExtentStore::DropUnnamed() noexcept {
  if (!writable_) return;
  for (uint32_t i = 0; i < kIndexFileCount; ++i) {
    // Held while the file changes: no extent comes to a place that is being cut off or punched out.
    const std::lock_guard<std::mutex> lock(mutex_);
    static_cast<void>(Guarded([&] { return DropUnnamedOf(i); }));
  }
}

Status ExtentStore::ReserveLocked(std::span<const format::IndexExtent> extents) {
  std::array<uint64_t, kIndexFileCount> file_bytes{};
  std::array<bool, kIndexFileCount> measured{};
  for (const format::IndexExtent& extent : extents) {
    ENGINE_RACE_ASSERT(extent.place < kMaxExtentPlaces);
    ENGINE_RACE_ASSERT(extent.record_count > 0 &&
                       extent.record_count <= format::kIndexExtentRecords);
    const uint32_t number = extent.place % kIndexFileCount;
    if (!std::exchange(measured[number], true)) {
      bool exists = false;
      ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd_, NameOf(number), &exists));
      if (!exists) return Status::Corruption(NameOf(number) + " is missing");
      ENGINE_RACE_RETURN_IF_ERROR(
          OpenFile(number, writable_ ? io::Access::kReadWrite : io::Access::kRead));
      ENGINE_RACE_RETURN_IF_ERROR(files_[number].file.Size(&file_bytes[number]));
    }
    const uint32_t blocks = BlocksFor(extent.record_count);
    if (OffsetOf(extent.place) + uint64_t{blocks} * kIndexBlockBytes > file_bytes[number]) {
      return Status::Corruption(NameOf(number) + ": the extent at place " +
                                std::to_string(extent.place) + " lies behind its end");
    }
    if (extent.place >= places_.size()) places_.resize(extent.place + 1);
    Occupy(extent.place, blocks);
  }
  return Status::Ok();
}

Status ExtentStore::DropUnnamedOf(uint32_t number) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd_, NameOf(number), &exists));
  if (!exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(OpenFile(number, io::Access::kReadWrite));
  const io::File& file = files_[number].file;
  // Everything from here to the next named place is nobody's.
  uint64_t unnamed_begin = 0;
  bool supported = true;
  for (uint32_t place = number; place < places_.size(); place += kIndexFileCount) {
    if (places_[place].block_count == 0) continue;
    if (supported) {
      ENGINE_RACE_RETURN_IF_ERROR(file.Punch(unnamed_begin, OffsetOf(place), &supported));
    }
    unnamed_begin = OffsetOf(place) + uint64_t{places_[place].block_count} * kIndexBlockBytes;
  }
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.Size(&file_bytes));
  return file_bytes > unnamed_begin ? file.Truncate(unnamed_begin) : Status::Ok();
}

void ExtentStore::Occupy(uint32_t place, uint32_t block_count) {
  ENGINE_RACE_ASSERT(places_[place].block_count == 0 && block_count > 1);
  places_[place] = {static_cast<uint16_t>(block_count), PlaceState::kSynced};
  used_bytes_.fetch_add(uint64_t{block_count} * kIndexBlockBytes, std::memory_order_relaxed);
}

Status ExtentStore::TakePlace(uint32_t block_count, uint32_t* place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint32_t free = lowest_free_;
  while (free < places_.size() && places_[free].block_count != 0) ++free;
  lowest_free_ = free;
  if (free == kMaxExtentPlaces) {
    // Places that were skipped are tried again.
    lowest_free_ = 0;
    return Status::Full("the index files have no place left");
  }
  IndexFile& file = files_[free % kIndexFileCount];
  if (free >= places_.size()) places_.resize(free + 1);
  if (!file.file.valid()) {
    const Status opened = OpenFile(free % kIndexFileCount, io::Access::kCreate);
    if (!opened.ok()) {
      SkipPlace(free, opened);
      return opened;
    }
    unsynced_names_ = true;
  }
  Occupy(free, block_count);
  *place = free;
  return Status::Ok();
}

void ExtentStore::SkipPlace(uint32_t place, const Status& why) noexcept {
  if (IsOfPlace(why) && lowest_free_ == place) lowest_free_ = place + 1;
}

void ExtentStore::GiveBack(uint32_t place, uint32_t block_count) noexcept {
  const uint64_t begin = OffsetOf(place);
  const uint64_t bytes = uint64_t{block_count} * kIndexBlockBytes;
  // While the place still counts as taken, so that no new extent is punched out. A failure costs
  // space, and no more than that.
  static_cast<void>(Guarded([&] {
    bool supported = false;
    return files_[place % kIndexFileCount].file.Punch(begin, begin + bytes, &supported);
  }));
  const std::lock_guard<std::mutex> lock(mutex_);
  ENGINE_RACE_ASSERT(places_[place].block_count == block_count);
  places_[place] = {};
  lowest_free_ = std::min(lowest_free_, place);
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

Status ExtentStore::Write(ExtentImage* image, ExtentId* id) {
  ENGINE_RACE_ASSERT(writable_ && image->finished());
  Status status;
  for (int i = 0; i < kWriteAttempts; ++i) {
    status = WriteOnce(image, id);
    if (status.ok() || !IsOfPlace(status)) break;
  }
  return status;
}

Status ExtentStore::WriteOnce(ExtentImage* image, ExtentId* id) {
  const uint32_t block_count = image->block_count() + 1;
  ExtentId taken;
  ENGINE_RACE_RETURN_IF_ERROR(Guarded([&] { return TakePlace(block_count, &taken.place); }));
  // Only ever counted: nothing is published by it.
  do {
    taken.generation = next_generation_.fetch_add(1, std::memory_order_relaxed);
  } while (!taken.valid());
  for (uint32_t number = 0; number < block_count; ++number) {
    char* const block = image->data() + size_t{number} * kIndexBlockBytes;
    const uint64_t checksum = ChecksumOf(SeedOf(store_id_, taken, number), block);
    std::memcpy(block, &checksum, sizeof(checksum));
  }
  const io::File& file = files_[taken.place % kIndexFileCount].file;
  Status status = Guarded(
      [&] { return file.Write(image->data(), image->size_bytes(), OffsetOf(taken.place)); });
  if (!status.ok()) {
    GiveBack(taken.place, block_count);
    const std::lock_guard<std::mutex> lock(mutex_);
    SkipPlace(taken.place, status);
    return status;
  }
  written_bytes_.fetch_add(image->size_bytes(), std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(mutex_);
  files_[taken.place % kIndexFileCount].unsynced = true;
  places_[taken.place].state = PlaceState::kUnsynced;
  *id = taken;
  return Status::Ok();
}

void ExtentStore::Free(const ExtentId& id) noexcept {
  uint32_t block_count = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ENGINE_RACE_ASSERT(writable_ && id.valid() && id.place < places_.size());
    block_count = places_[id.place].block_count;
  }
  ENGINE_RACE_ASSERT(block_count > 0);
  GiveBack(id.place, block_count);
}

ExtentStore::Location ExtentStore::Locate(const ExtentId& id, uint32_t block) const {
  const io::File& file = files_[id.place % kIndexFileCount].file;
  ENGINE_RACE_ASSERT(id.valid() && block <= format::kIndexFences && file.valid());
  return {&file, OffsetOf(id.place) + uint64_t{block} * kIndexBlockBytes};
}

bool ExtentStore::IsWhole(const ExtentId& id, uint32_t block, const char* data) const {
  IndexBlockHeader header;
  std::memcpy(&header, data, sizeof(header));
  const uint32_t most = block == 0 ? format::kIndexFences : format::kIndexBlockRecords;
  return header.block_number == block && header.record_count > 0 && header.record_count <= most &&
         header.checksum == ChecksumOf(SeedOf(store_id_, id, block), data);
}

Status ExtentStore::ReadBlocks(const ExtentId& id, uint32_t first_block, uint32_t block_count,
                               char* data) const {
  ENGINE_RACE_ASSERT(block_count > 0 && first_block <= format::kIndexFences &&
                     block_count <= format::kIndexFences + 1 - first_block);
  const auto read = [&] { return ReadOnce(id, first_block, block_count, data); };
  const Status status = Guarded(read);
  // A read that failed once may succeed, and costs less than what the extents stand for.
  return status.ok() || status.code() == Code::kOutOfMemory ? status : Guarded(read);
}

Status ExtentStore::ReadOnce(const ExtentId& id, uint32_t first_block, uint32_t block_count,
                             char* data) const {
  const Location location = Locate(id, first_block);
  ENGINE_RACE_RETURN_IF_ERROR(
      location.file->Read(data, size_t{block_count} * kIndexBlockBytes, location.offset));
  for (uint32_t i = 0; i < block_count; ++i) {
    if (IsWhole(id, first_block + i, data + size_t{i} * kIndexBlockBytes)) continue;
    return Status::Corruption(location.file->name() + ": block " + std::to_string(first_block + i) +
                              " of the extent at place " + std::to_string(id.place) +
                              " is damaged, or of another extent");
  }
  return Status::Ok();
}

void ExtentStore::ChangeStates(uint32_t number, PlaceState from, PlaceState to) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t place = number; place < places_.size(); place += kIndexFileCount) {
    if (places_[place].state == from) places_[place].state = to;
  }
}

Status ExtentStore::WriteAgain(uint32_t number) {
  Region memory;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIndexExtentBytes, /*huge_pages=*/false, &memory));
  const io::File& file = files_[number].file;
  for (size_t place = number;; place += kIndexFileCount) {
    // Nobody else may get the place meanwhile.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (place >= places_.size()) return Status::Ok();
    if (places_[place].state == PlaceState::kSynced) continue;
    const size_t bytes = size_t{places_[place].block_count} * kIndexBlockBytes;
    const uint64_t offset = OffsetOf(static_cast<uint32_t>(place));
    // Whether the blocks are whole is seen by the checksums, sooner or later.
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(memory.data(), bytes, offset));
    ENGINE_RACE_RETURN_IF_ERROR(file.Write(memory.data(), bytes, offset));
  }
}

Status ExtentStore::SyncFile(uint32_t number) {
  IndexFile& file = files_[number];
  if (file.flush_failed) ENGINE_RACE_RETURN_IF_ERROR(WriteAgain(number));
  ChangeStates(number, PlaceState::kUnsynced, PlaceState::kSyncing);
  // Until it has ended well: an exception is a failure too.
  file.flush_failed = true;
  const Status status = file.file.DataSync();
  file.flush_failed = !status.ok();
  ChangeStates(number, PlaceState::kSyncing,
               status.ok() ? PlaceState::kSynced : PlaceState::kUnsynced);
  return status;
}

Status ExtentStore::Sync() {
  // A thread that finds nothing to sync must not return before another thread's sync has ended.
  const std::lock_guard<std::mutex> sync_lock(sync_mutex_);
  for (uint32_t number = 0; number < kIndexFileCount; ++number) {
    IndexFile& file = files_[number];
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!std::exchange(file.unsynced, false)) continue;
    }
    Status status = Guarded([&] { return SyncFile(number); });
    if (!status.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      file.unsynced = true;
      return status;
    }
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!std::exchange(unsynced_names_, false)) return Status::Ok();
  }
  Status status = Guarded([&] { return sys::Fsync(dir_fd_); });
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    unsynced_names_ = true;
  }
  return status;
}

}  // namespace engine_race::l1
