#include "harness/lab/table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine_race/base/assert.h"
#include "harness/lab/block_cursor.h"
#include "harness/lab/table_cursor.h"

namespace engine_race::lab {

namespace {

// An index entry of a block has the same layout as the swip to it.
static_assert(BlockEntry::kCountShift == Swip::kNumberBits);
static_assert((((uint64_t{1} << (BlockEntry::kBytesShift + BlockEntry::kBytesBits)) - 1) &
               Swip::kTagMask) == 0);

// The cache's number for an extent's description, behind those of the extent's blocks.
constexpr uint32_t kExtentObject = kBlocksPerExtent;

// A cache key: the lowest bits number the object in its extent, the next ones the extent.
constexpr uint32_t kObjectBits = 8;
constexpr uint32_t kExtentBits = 24;
static_assert(kExtentObject < 1u << kObjectBits);

Status TooFewFrames() { return Status::Full("l1: fewer frames than blocks"); }

uint64_t CacheKey(uint64_t user, uint32_t extent, uint32_t object) {
  return user << (kExtentBits + kObjectBits) | uint64_t{extent} << kObjectBits | object;
}

}  // namespace

Table::Table(const TableShape& shape, const TableOptions& options, TableFrames* frames,
             BlockCache* cache)
    : shape_(shape),
      options_(options),
      frames_(frames),
      pool_(frames == nullptr ? nullptr : frames->pool()),
      cache_(cache),
      cache_user_(cache == nullptr ? 0 : cache->NewUser()) {
  ENGINE_RACE_ASSERT(options.records <= options.indexes && options.indexes <= options.extents);
  if (options.search == nullptr) options_.search = NodeSearchKernel(BestNodeSearch());
}

Status Table::Open(int dir_fd, const std::string& name, const TableShape& shape,
                   const TableOptions& options, TableFrames* frames, BlockCache* cache,
                   std::unique_ptr<Table>* table) {
  return Guarded([&] {
    std::unique_ptr<Table> opened(new Table(shape, options, frames, cache));
    ENGINE_RACE_RETURN_IF_ERROR(opened->Load(dir_fd, name));
    *table = std::move(opened);
    return Status::Ok();
  });
}

Table::~Table() {
  if (roots_ == nullptr) return;
  for (uint32_t extent = 0; extent < extent_count(); ++extent) {
    const uint32_t children = options_.records == Reach::kPointer ? block_counts_[extent] : 0;
    frames_->pool()->RemoveTree(roots_[extent], children);
  }
}

Status Table::Load(int dir_fd, const std::string& name) {
  TableFile file;
  ENGINE_RACE_RETURN_IF_ERROR(TableFile::Open(dir_fd, name, &file));
  Region data;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kExtentBytes, /*huge_pages=*/false, &data));
  block_counts_.resize(file.extent_count());
  if (options_.indexes == Reach::kPointer) {
    roots_ = std::make_unique<std::atomic<uint64_t>[]>(file.extent_count());
  }
  const uint64_t in_frames = options_.records == Reach::kPointer   ? file.block_count()
                             : options_.indexes == Reach::kPointer ? file.extent_count()
                                                                   : 0;
  if (in_frames > 0 && pool_->frame_count() - pool_->used_count() < in_frames) {
    return TooFewFrames();
  }
  std::vector<char> last_keys;
  for (uint32_t extent = 0; extent < file.extent_count(); ++extent) {
    ENGINE_RACE_RETURN_IF_ERROR(file.ReadExtent(extent, data.data(), &block_counts_[extent]));
    ENGINE_RACE_RETURN_IF_ERROR(LoadExtent(extent, data.data(), &last_keys));
  }
  root_.Build(std::move(last_keys), shape_.key_bytes);
  return Status::Ok();
}

Status Table::LoadExtent(uint32_t extent, const char* data, std::vector<char>* last_keys) {
  std::vector<uint64_t> words;
  BlockCursor entry(options_.encoding, data);
  for (entry.SeekRank(0); entry.valid(); entry.Next()) {
    std::memcpy(&words.emplace_back(), entry.payload(), sizeof(uint64_t));
    if (words.size() < block_counts_[extent]) continue;
    last_keys->insert(last_keys->end(), entry.key(), entry.key() + shape_.key_bytes);
    break;
  }
  if (words.size() != block_counts_[extent])
    return Status::Corruption("l1: an index of another extent");
  if (options_.extents == Reach::kCache) {
    ENGINE_RACE_RETURN_IF_ERROR(
        Insert(extent, kExtentObject, &block_counts_[extent], sizeof(uint32_t)));
  }
  for (uint32_t block = 0; block <= words.size(); ++block) {
    const char* const from = data + size_t{block} * kBlockBytes;
    const Reach reach = block == 0 ? options_.indexes : options_.records;
    ENGINE_RACE_RETURN_IF_ERROR(reach == Reach::kPointer
                                    ? Install(extent, block, from, words)
                                    : Insert(extent, block, from, kBlockBytes));
  }
  return Status::Ok();
}

Status Table::Install(uint32_t extent, uint32_t block, const char* data,
                      const std::vector<uint64_t>& words) {
  std::unique_ptr<std::atomic<uint64_t>[]> children;
  if (block == 0) {
    children = std::make_unique<std::atomic<uint64_t>[]>(words.size());
    // Relaxed: no other thread knows them.
    for (size_t i = 0; i < words.size(); ++i) {
      children[i].store(words[i], std::memory_order_relaxed);
    }
  }
  FramePool* const pool = frames_->pool();
  const uint32_t frame = pool->Take();
  if (frame == kNoFrame) return TooFewFrames();
  std::memcpy(pool->data(frame), data, kBlockBytes);
  FrameInfo& info = pool->info(frame);
  info.place = block;
  info.children = std::move(children);
  info.parent_frame = kNoFrame;
  info.parent = &roots_[extent];
  const EpochManager::Guard guard(frames_->epochs());
  // Sequentially consistent: must not move ahead of the entry into the epoch.
  const Swip root(roots_[extent].load(std::memory_order_seq_cst));
  if (block > 0 && root.hot()) {
    info.parent_frame = root.number();
    info.parent = &pool->info(root.number()).children[block - 1];
  }
  const Swip swip(info.parent->load(std::memory_order_seq_cst));
  if (!swip.hot() && root.hot() == (block > 0) && BlockOwner::Install(pool, frame, swip)) {
    return Status::Ok();
  }
  pool->GiveBack(frame);
  return TooFewFrames();
}

Status Table::Insert(uint32_t extent, uint32_t object, const void* data, size_t bytes) {
  BlockCache::OwnedEntry made = BlockCache::Make(bytes);
  if (made == nullptr) return Status::OutOfMemory("l1: an entry of the cache");
  std::memcpy(made->data, data, bytes);
  cache_->Release(cache_->Insert(CacheKey(cache_user_, extent, object), std::move(made)));
  return Status::Ok();
}

Status Table::Get(const char* key, char* payload) const {
  const uint32_t extent = root_.Find(key);
  if (extent == extent_count()) [[unlikely]] {
    return Status::NotFound();
  }
  if (options_.records == Reach::kCache) return GetThroughCache(extent, key, payload);
  return options_.protection == Protection::kEpoch
             ? GetByPointer<EpochReader>(extent, key, payload)
             : GetByPointer<CountReader>(extent, key, payload);
}

template <typename Readers>
Status Table::GetByPointer(uint32_t extent, const char* key, char* payload) const {
  Readers readers(frames_);
  uint32_t frame;
  if (!readers.Follow(&roots_[extent], &frame)) [[unlikely]] {
    return NotInMemory();
  }
  const char* const index = pool_->data(frame);
  std::atomic<uint64_t>* const children = pool_->info(frame).children.get();
  const bool guesses = options_.encoding == Encoding::kTree;
  if (guesses) TouchIndex(extent, key, index, children);
  const uint32_t rank = RankIn(index, key);
  if (!readers.Follow(&children[rank], &frame)) [[unlikely]] {
    return NotInMemory();
  }
  const char* const block = pool_->data(frame);
  if (guesses) {
    TouchRecords(index, rank, key, BlockEntry(children[rank].load(std::memory_order_relaxed)),
                 block);
  }
  return CopyPayload(FindIn(block, key), payload);
}

// Each step of a search waits for a cache line whose address comes from the step before. Guessing
// the addresses, from the key's position between the keys of the level above, lets the waits
// overlap.
inline void Table::TouchIndex(uint32_t extent, const char* key, const char* index,
                              const std::atomic<uint64_t>* children) const {
  const uint32_t rank = root_.GuessBlock(extent, key, block_counts_[extent]);
  TreeBlock::TouchIndex(index, rank);
  // Relaxed: the value is not used, only its line is fetched.
  Touch(children[rank].load(std::memory_order_relaxed));
}

inline void Table::TouchRecords(const char* index, uint32_t rank, const char* key, BlockEntry entry,
                                const char* block) const {
  const uint32_t count = entry.record_count();
  TreeBlock::TouchRecords(block, TreeBlock(index).GuessBetween(rank, key, count), count,
                          entry.record_bytes());
}

Status Table::CopyPayload(const char* found, char* payload) const {
  if (found == nullptr) return Status::NotFound();
  std::memcpy(payload, found, shape_.payload_bytes);
  return Status::Ok();
}

Status Table::GetThroughCache(uint32_t extent, const char* key, char* payload) const {
  uint32_t block = 0;
  ENGINE_RACE_RETURN_IF_ERROR(FindBlock(extent, key, &block));
  BlockCache::Pin records;
  ENGINE_RACE_RETURN_IF_ERROR(Pin(extent, block, &records));
  return CopyPayload(FindIn(records.data(), key), payload);
}

Status Table::FindBlock(uint32_t extent, const char* key, uint32_t* block) const {
  if (options_.indexes == Reach::kPointer) {
    return UseBlock(extent, 0, [&](const char* index) { *block = RankIn(index, key) + 1; });
  }
  if (options_.extents == Reach::kCache) {
    BlockCache::Pin description;
    ENGINE_RACE_RETURN_IF_ERROR(Pin(extent, kExtentObject, &description));
  }
  BlockCache::Pin index;
  ENGINE_RACE_RETURN_IF_ERROR(Pin(extent, 0, &index));
  *block = RankIn(index.data(), key) + 1;
  return Status::Ok();
}

Status Table::Pin(uint32_t extent, uint32_t object, BlockCache::Pin* pin) const {
  *pin = BlockCache::Pin(cache_, cache_->Lookup(CacheKey(cache_user_, extent, object)));
  return pin->holds() ? Status::Ok() : NotInMemory();
}

struct Table::Pending {
  const char* key;
  char* payload;
  Status* status;
  const char* block;             // the block to search; null when the key has its answer
  std::atomic<uint64_t>* child;  // to the block of records
  uint32_t frame;
  uint32_t node;  // of the block: the leaf, then the run
};

void Table::MultiGet(const char* keys, char* payloads, std::span<Status> statuses) const {
  const bool side_by_side =
      options_.records == Reach::kPointer && options_.protection == Protection::kEpoch;
  const size_t step = side_by_side ? kBatch : 1;
  for (size_t begin = 0; begin < statuses.size(); begin += step) {
    const char* const key = keys + begin * shape_.key_bytes;
    char* const payload = payloads + begin * shape_.payload_bytes;
    if (side_by_side) {
      GetBatch(key, payload, statuses.subspan(begin, std::min(step, statuses.size() - begin)));
    } else {
      statuses[begin] = Get(key, payload);
    }
  }
}

// A single lookup waits for memory four times, each time for an address that the step before has
// found. In a batch all lookups make one step, and each prefetches for its next step, so that the
// waits overlap.
void Table::GetBatch(const char* keys, char* payloads, std::span<Status> statuses) const {
  const bool is_tree = options_.encoding == Encoding::kTree;
  const EpochReader readers(frames_);
  std::array<Pending, kBatch> pending;
  const auto follow = [&](std::atomic<uint64_t>* swip, Pending* one) {
    one->block = nullptr;
    if (readers.Follow(swip, &one->frame)) {
      one->block = pool_->data(one->frame);
      TreeBlock(one->block).FetchRoot();
    } else {
      *one->status = NotInMemory();
    }
  };
  // Makes one step of every lookup that has no answer.
  const auto step_all = [&](const auto& step) {
    for (size_t i = 0; i < statuses.size(); ++i) {
      if (pending[i].block != nullptr) step(&pending[i]);
    }
  };
  for (size_t i = 0; i < statuses.size(); ++i) {
    Pending& one = pending[i];
    one.key = keys + i * shape_.key_bytes;
    one.payload = payloads + i * shape_.payload_bytes;
    one.status = &statuses[i];
    one.block = nullptr;
    const uint32_t extent = root_.Find(one.key);
    if (extent == extent_count()) {
      statuses[i] = Status::NotFound();
      continue;
    }
    follow(&roots_[extent], &one);
    if (one.block != nullptr) __builtin_prefetch(&pool_->info(one.frame));
  }
  step_all([&](Pending* one) {
    one->child = &pool_->info(one->frame).children[RankIn(one->block, one->key)];
    __builtin_prefetch(one->child);
  });
  step_all([&](Pending* one) { follow(one->child, one); });
  if (is_tree) {
    step_all([](Pending* one) { one->node = TreeBlock(one->block).FetchLeaf(one->key); });
    step_all(
        [](Pending* one) { one->node = TreeBlock(one->block).FetchSection(one->key, one->node); });
  }
  step_all([&](Pending* one) {
    const auto known_node = [one](const NodeWords&, uint32_t, uint64_t) { return one->node; };
    const char* const found =
        is_tree ? TreeBlock(one->block).Find(one->key, known_node) : FindIn(one->block, one->key);
    *one->status = CopyPayload(found, one->payload);
  });
}

Status TableCursor::MoveTo(const char* key) {
  batch_ = kFirstBatch;
  rank_ = 0;
  is_there_ = false;
  extent_ = table_.root_.Find(key);
  if (extent_ == table_.extent_count()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(table_.FindBlock(extent_, key, &block_));
  ENGINE_RACE_RETURN_IF_ERROR(Enter(key));
  return is_there_ ? Status::Ok() : NextBlock();
}

Status TableCursor::MoveOn() {
  if (by_pointer_) {
    copied_at_ += table_.shape_.record_bytes();
    is_there_ = copied_at_ < copied_end_;
    if (!is_there_ && !block_ended_) return Enter(nullptr);
  } else {
    in_block_.Next();
    is_there_ = in_block_.valid();
  }
  return is_there_ ? Status::Ok() : NextBlock();
}

Status TableCursor::NextBlock() {
  rank_ = 0;
  if (block_++ == table_.block_counts_[extent_]) {
    block_ = 1;
    ++extent_;
  }
  is_there_ = false;
  return extent_ == table_.extent_count() ? Status::Ok() : Enter(nullptr);
}

Status TableCursor::Enter(const char* key) {
  if (by_pointer_) {
    ENGINE_RACE_RETURN_IF_ERROR(
        table_.UseBlock(extent_, block_, [&](const char* of_block) { Copy(of_block, key); }));
    is_there_ = copied_end_ > 0;
    return Status::Ok();
  }
  pin_.Reset();
  ENGINE_RACE_RETURN_IF_ERROR(table_.Pin(extent_, block_, &pin_));
  in_block_ = BlockCursor(table_.options_.encoding, pin_.data());
  key == nullptr ? in_block_.SeekRank(rank_) : in_block_.Seek(key, table_.options_.search);
  is_there_ = in_block_.valid();
  return Status::Ok();
}

void TableCursor::Copy(const char* of_block, const char* key) {
  const TableShape& shape = table_.shape_;
  BlockCursor cursor(table_.options_.encoding, of_block);
  key == nullptr ? cursor.SeekRank(rank_) : cursor.Seek(key, table_.options_.search);
  batch_ = std::min(batch_, kCopiesBytes / shape.record_bytes());
  copied_at_ = copied_end_ = 0;
  for (uint32_t i = 0; i < batch_ && cursor.valid(); ++i) {
    std::memcpy(copies_ + copied_end_, cursor.key(), shape.key_bytes);
    std::memcpy(copies_ + copied_end_ + shape.key_bytes, cursor.payload(), shape.payload_bytes);
    copied_end_ += shape.record_bytes();
    cursor.Next();
  }
  rank_ = cursor.rank();
  block_ended_ = !cursor.valid();
  batch_ *= 2;
}

void TableCursor::Show(Status status) {
  status_ = std::move(status);
  key_ = payload_ = nullptr;
  if (!is_there_ || !status_.ok()) return;
  key_ = by_pointer_ ? copies_ + copied_at_ : in_block_.key();
  payload_ = by_pointer_ ? key_ + table_.shape_.key_bytes : in_block_.payload();
}

}  // namespace engine_race::lab
