#include "harness/experiments/l1/shards.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "engine_race/l1/extent_file.h"
#include "harness/data/mix.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Status;
using engine_race::l1::ExtentFile;
using engine_race::l1::kBlockBytes;
using lab::CoreShards;
using lab::CoreShardsOptions;
using lab::ShardClient;
using lab::ShardGet;

namespace {

constexpr char kShared[] = "sharing everything, single gets";
constexpr char kSharedByTable[] = "sharing everything, batches by table";
constexpr char kWorkers[] = "sharing nothing, workers ask each other";
constexpr char kClients[] = "sharing nothing, clients ask workers";

// The memory of a chunk's gets, and their answers in sum.
class ChunkGets {
 public:
  explicit ChunkGets(const engine_race::l1::TableShape& shape)
      : shape_(shape),
        gets_(L1Lookups::kChunk),
        payloads_(size_t{L1Lookups::kChunk} * shape.payload_bytes) {}

  Status Answer(ShardClient* client, const L1Chunk& chunk, uint64_t* sum) {
    for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
      gets_[i].table = chunk.tables[i];
      gets_[i].key = chunk.keys + size_t{i} * shape_.key_bytes;
      gets_[i].payload = payloads_.data() + size_t{i} * shape_.payload_bytes;
    }
    client->Get(gets_);
    for (const ShardGet& get : gets_) {
      ENGINE_RACE_RETURN_IF_ERROR(get.status);
      *sum += PayloadWord(get.payload);
    }
    return Status::Ok();
  }

 private:
  const engine_race::l1::TableShape shape_;
  std::vector<ShardGet> gets_;
  std::vector<char> payloads_;
};

}  // namespace

Status L1Shards::Prepare() {
  const L1Step& step = L1StepNamed(kSwizzledStep);
  ENGINE_RACE_RETURN_IF_ERROR(files_.Build(step.encoding));
  ENGINE_RACE_RETURN_IF_ERROR(L1Tables::Open(files_, step, &shared_));
  uint64_t block_count = 0;
  for (uint32_t table = 0; table < files_.records().table_count; ++table) {
    const ExtentFile& file = shared_->table(table).file();
    for (uint32_t i = 0; i < file.extent_count(); ++i) block_count += 1 + file.block_count(i);
  }
  CoreShardsOptions options;
  options.worker_count = shape_.thread_count;
  // Room for all of them with each: memory is taken as it is used.
  options.frame_count = static_cast<uint32_t>(block_count + block_count / 4 + 16);
  options.table = step.options();
  ENGINE_RACE_RETURN_IF_ERROR(CoreShards::Start(options, &shards_));
  for (uint32_t table = 0; table < files_.records().table_count; ++table) {
    uint32_t number = 0;
    ENGINE_RACE_RETURN_IF_ERROR(
        shards_->AddTable(files_.dir_fd(), files_.NameOf(step.encoding, table), &number));
  }
  return WarmShards();
}

// A record of every block at least.
Status L1Shards::WarmShards() {
  const L1Records& records = files_.records();
  const size_t step = std::max<size_t>(1, kBlockBytes / records.shape.record_bytes() / 4);
  std::unique_ptr<ShardClient> client;
  ENGINE_RACE_RETURN_IF_ERROR(shards_->MakeClient(&client));
  std::vector<char> keys;
  std::vector<char> payload(records.shape.payload_bytes);
  for (uint32_t table = 0; table < records.table_count; ++table) {
    const std::vector<uint64_t> words = records.SortedWords(table);
    const size_t count = (words.size() + step - 1) / step;
    keys.resize(count * records.shape.key_bytes);
    std::vector<ShardGet> gets(count);
    for (size_t i = 0; i < count; ++i) {
      gets[i].table = table;
      gets[i].key = keys.data() + i * records.shape.key_bytes;
      gets[i].payload = payload.data();
      records.FillKey(words[i * step], keys.data() + i * records.shape.key_bytes);
    }
    client->Get(gets);
    for (const ShardGet& get : gets) ENGINE_RACE_RETURN_IF_ERROR(get.status);
  }
  return Status::Ok();
}

MakeL1Answer L1Shards::ByClients() {
  return [this]() -> L1Answer {
    struct Own {
      explicit Own(const engine_race::l1::TableShape& shape) : gets(shape) {}
      std::unique_ptr<ShardClient> client;
      ChunkGets gets;
      Status status;
    };
    const auto own = std::make_shared<Own>(files_.records().shape);
    own->status = shards_->MakeClient(&own->client);
    return [own](const L1Chunk& chunk, uint64_t* sum) {
      ENGINE_RACE_RETURN_IF_ERROR(own->status);
      return own->gets.Answer(own->client.get(), chunk, sum);
    };
  };
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

namespace {

// As RunLookups does it, in the worker: warming, then what is counted.
Status LookUp(ShardClient* client, ChunkGets* gets, const L1Lookups& lookups, double seconds,
              uint64_t* next, L1Run* run) {
  const uint64_t start_ns = NowNs();
  const uint64_t start_cpu_ns = ThreadCpuNs();
  const uint64_t end_ns = start_ns + static_cast<uint64_t>(seconds * 1e9);
  uint64_t count = 0;
  do {
    const L1Chunk chunk = lookups.chunk(*next);
    uint64_t sum = 0;
    ENGINE_RACE_RETURN_IF_ERROR(gets->Answer(client, chunk, &sum));
    if (sum != chunk.sum) return Status::Corruption("lookups found other payloads");
    count += L1Lookups::kChunk;
    if (++*next == lookups.chunk_count()) *next = 0;
  } while (NowNs() < end_ns);
  run->lookup_count = count;
  run->lookups_per_second = static_cast<double>(count) / SecondsSince(start_ns);
  run->cpu_seconds = static_cast<double>(ThreadCpuNs() - start_cpu_ns) * 1e-9;
  return Status::Ok();
}

}  // namespace

Status L1Shards::RunWorkers(const L1Lookups& lookups, uint64_t first_chunk, L1Run* run) {
  const uint32_t count = shards_->worker_count();
  std::vector<L1Run> parts(count);
  std::vector<Status> statuses(count);
  const auto work = [&](uint32_t worker) {
    statuses[worker] = shards_->Run(worker, [&, worker](ShardClient& client) {
      ChunkGets gets(files_.records().shape);
      uint64_t next =
          (first_chunk + worker * lookups.chunk_count() / count) % lookups.chunk_count();
      L1Run& part = parts[worker];
      ENGINE_RACE_RETURN_IF_ERROR(
          LookUp(&client, &gets, lookups, shape_.rounds.warming_seconds, &next, &part));
      return LookUp(&client, &gets, lookups, shape_.rounds.seconds, &next, &part);
    });
  };
  {
    std::vector<std::jthread> threads;
    for (uint32_t worker = 0; worker < count; ++worker) threads.emplace_back(work, worker);
  }
  *run = L1Run();
  for (uint32_t worker = 0; worker < count; ++worker) {
    ENGINE_RACE_RETURN_IF_ERROR(statuses[worker]);
    run->lookup_count += parts[worker].lookup_count;
    run->lookups_per_second += parts[worker].lookups_per_second;
    run->cpu_seconds += parts[worker].cpu_seconds;
  }
  return Status::Ok();
}

Status L1Shards::Compare(const L1Lookups& lookups) {
  const L1RoundsShape& shape = shape_.rounds;
  const char* const names[] = {kShared, kWorkers, kSharedByTable, kClients};
  const MakeL1Answer answers[] = {shared_->Gets(), nullptr, ByTable(), ByClients()};
  constexpr int kCount = 4;
  for (uint32_t round = 0; round < shape.round_count; ++round) {
    const uint64_t first = AsBelow(MixAt(shape.seed, round), lookups.chunk_count());
    double rates[kCount] = {0, 0, 0, 0};
    for (int turn = 0; turn < kCount; ++turn) {
      if (Interrupted()) return Status::Ok();
      const int i = round % 2 == 0 ? turn : kCount - 1 - turn;
      L1Run run;
      const Status status =
          answers[i] == nullptr
              ? RunWorkers(lookups, first, &run)
              : RunLookups(lookups,
                           {shape_.thread_count, shape.seconds, shape.warming_seconds, first},
                           answers[i], &run);
      if (!status.ok())
        return Status(status.code(), std::string(names[i]) + ": " + status.message());
      rates[i] = run.lookups_per_second;
      rounds_.Note(L1Figure(names[i]), rates[i]);
    }
    rounds_.NoteRatio(kSharedNothing, rates[1], rates[0]);
    rounds_.NoteRatio(std::string(kSharedNothing) + ", over batches by table", rates[1], rates[2]);
    rounds_.NoteRatio(std::string(kSharedNothing) + ", clients beside the workers", rates[3],
                      rates[0]);
  }
  return Status::Ok();
}

nlohmann::json L1Shards::Describe() const {
  if (shards_ == nullptr) return nullptr;
  return {{"workers", shards_->worker_count()},
          {"pinned_workers", shards_->pinned_count()},
          {"batch", L1Lookups::kChunk}};
}

}  // namespace harness
