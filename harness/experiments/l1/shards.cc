#include "harness/experiments/l1/index_race.h"

#include <cstring>
#include <string>
#include <vector>

namespace engine_race::harness {

using lab::CoreShards;
using lab::CoreShardsOptions;
using lab::ShardGet;
using lab::ShardWorker;

namespace {

constexpr char kShared[] = "sharing everything, single gets";
constexpr char kSharedByTable[] = "sharing everything, batches by table";
constexpr char kWorkers[] = "sharing nothing, workers ask each other";

// Answers chunks by gets, with memory that is reused, and sums the payloads.
class ChunkGets {
 public:
  explicit ChunkGets(const TableShape& shape)
      : shape_(shape),
        gets_(L1Lookups::kChunk),
        payloads_(size_t{L1Lookups::kChunk} * shape.payload_bytes) {}

  Status Answer(ShardWorker* worker, const L1Chunk& chunk, uint64_t* sum) {
    for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
      gets_[i].table = chunk.tables[i];
      gets_[i].key = chunk.keys + size_t{i} * shape_.key_bytes;
      gets_[i].payload = payloads_.data() + size_t{i} * shape_.payload_bytes;
    }
    worker->Get(gets_);
    for (const ShardGet& get : gets_) {
      ENGINE_RACE_RETURN_IF_ERROR(get.status);
      *sum += PayloadWord(get.payload);
    }
    return Status::Ok();
  }

 private:
  const TableShape shape_;
  std::vector<ShardGet> gets_;
  std::vector<char> payloads_;
};

}  // namespace

Status L1Shards::Prepare() {
  const L1Step& step = L1StepNamed(kSwizzledStep);
  ENGINE_RACE_RETURN_IF_ERROR(files_.Build(step.encoding));
  ENGINE_RACE_RETURN_IF_ERROR(L1Tables::Open(files_, step, &shared_));
  uint64_t block_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(files_.CountBlocks(step.encoding, &block_count));
  CoreShardsOptions options;
  options.worker_count = shape_.thread_count;
  // Each worker has frames for all blocks: memory is taken only as it is used.
  options.frame_count = lab::TableFrames::CountFor(block_count);
  options.table = step.options();
  options.shape = files_.records().shape;
  options.dir_fd = files_.dir_fd();
  for (uint32_t table = 0; table < files_.records().table_count; ++table) {
    options.names.push_back(files_.NameOf(step.encoding, table));
  }
  return CoreShards::Load(options, &shards_);
}

MakeL1Answer L1Shards::ByTable() const {
  return [this]() -> L1Answer {
    constexpr uint32_t kChunk = L1Lookups::kChunk;
    struct Own {
      std::vector<uint32_t> begins;  // of each table's keys, and their end
      std::vector<char> keys;
      std::vector<char> payloads;
      std::vector<Status> statuses;
    };
    const L1Records& records = files_.records();
    const auto own = std::make_shared<Own>();
    own->keys.resize(size_t{kChunk} * records.shape.key_bytes);
    own->payloads.resize(size_t{kChunk} * records.shape.payload_bytes);
    own->statuses.resize(kChunk);
    return [this, own, &records](const L1Chunk& chunk, uint64_t* sum) {
      const uint32_t key_bytes = records.shape.key_bytes;
      const uint32_t payload_bytes = records.shape.payload_bytes;
      own->begins.assign(records.table_count + 1, 0);
      for (uint32_t i = 0; i < kChunk; ++i) ++own->begins[chunk.tables[i] + 1u];
      for (uint32_t t = 0; t < records.table_count; ++t) own->begins[t + 1] += own->begins[t];
      std::vector<uint32_t>& ends = own->begins;  // each table's moves on to the next one's begin
      for (uint32_t i = 0; i < kChunk; ++i) {
        std::memcpy(own->keys.data() + size_t{ends[chunk.tables[i]]++} * key_bytes,
                    chunk.keys + size_t{i} * key_bytes, key_bytes);
      }
      for (uint32_t t = 0, begin = 0; t < records.table_count; begin = ends[t++]) {
        if (ends[t] == begin) continue;
        shared_->table(t).MultiGet(own->keys.data() + size_t{begin} * key_bytes,
                                   own->payloads.data() + size_t{begin} * payload_bytes,
                                   std::span(own->statuses).subspan(begin, ends[t] - begin));
      }
      for (uint32_t i = 0; i < kChunk; ++i) {
        ENGINE_RACE_RETURN_IF_ERROR(own->statuses[i]);
        *sum += PayloadWord(own->payloads.data() + size_t{i} * payload_bytes);
      }
      return Status::Ok();
    };
  };
}

Status L1Shards::RunWorkers(const L1Lookups& lookups, const L1RunShape& shape, TimedPoint* point) {
  const uint32_t count = shards_->worker_count();
  std::vector<uint64_t> next(count);
  for (uint32_t i = 0; i < count; ++i) next[i] = FirstChunk(lookups, shape, i);
  std::vector<ChunkGets> gets(count, ChunkGets(files_.records().shape));
  const auto look_up = [&](uint32_t number, ShardWorker* worker, TimedThread* self) {
    const auto answer = [&](const L1Chunk& chunk, uint64_t* sum) {
      return gets[number].Answer(worker, chunk, sum);
    };
    return LookUpChunks(
        lookups, answer, [self] { return self->Running(); }, &next[number],
        &self->tally.request_count);
  };
  // Warming is a run of its own, because a worker that waits for the others to start answers no
  // requests.
  ENGINE_RACE_RETURN_IF_ERROR(shards_->Run(shape.warming_seconds, look_up, point));
  return shards_->Run(shape.seconds, look_up, point);
}

Status L1Shards::Compare(const L1Lookups& lookups) {
  const auto workers = [&](const L1RunShape& shape, TimedPoint* point) {
    return RunWorkers(lookups, shape, point);
  };
  const uint32_t threads = shape_.thread_count;
  const std::string claim = kSharedNothing;
  return RunL1Rounds(shape_.rounds,
                     {{kShared, &lookups, threads, shared_->Gets()},
                      {kWorkers, &lookups, threads, nullptr, workers},
                      {kSharedByTable, &lookups, threads, ByTable()}},
                     {{claim, {kWorkers}, {kShared}},
                      {claim + ", over batches by table", {kWorkers}, {kSharedByTable}}},
                     &rounds_);
}

nlohmann::json L1Shards::Describe() const {
  if (shards_ == nullptr) return nullptr;
  return {{"workers", shards_->worker_count()},
          {"pinned_workers", shards_->pinned_count()},
          {"batch", L1Lookups::kChunk}};
}

}  // namespace engine_race::harness
