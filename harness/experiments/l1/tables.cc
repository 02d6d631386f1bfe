#include "harness/experiments/l1/tables.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "harness/data/mix.h"
#include "harness/lab/table_cursor.h"
#include "harness/lab/table_file.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {

using lab::BlockCache;
using lab::Encoding;
using lab::kBlockBytes;
using lab::TableFile;
using lab::TableFileBuilder;

namespace {

// Shards of a cache do not fill evenly. So the cache is half as large again and has room for
// several more blocks in each shard: nothing is evicted.
constexpr uint64_t kCacheSlackBytes = uint64_t{64} << 20;
// More than the overhead of any encoding.
constexpr double kBlockOverhead = 1.4;

// In the order of Encoding.
constexpr const char* kEncodingNames[] = {"restart", "square", "tree"};

}  // namespace

Status L1Files::Open(const std::string& dir, const L1Records& records,
                     std::unique_ptr<L1Files>* files) {
  std::unique_ptr<L1Files> opened(new L1Files(records));
  opened->dir_ = dir;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &opened->dir_fd_));
  *files = std::move(opened);
  return Status::Ok();
}

std::string L1Files::NameOf(Encoding encoding, uint32_t table) const {
  return std::string(kEncodingNames[static_cast<size_t>(encoding)]) + "-" +
         std::to_string(records_.shape.key_bytes) + "-" +
         std::to_string(records_.shape.payload_bytes) + "-" +
         std::to_string(records_.records_per_table) + "-" + std::to_string(records_.seed) + "-" +
         std::to_string(table) + ".table";
}

uint64_t L1Files::BytesOf(const L1Records& records) {
  return static_cast<uint64_t>(static_cast<double>(records.byte_count()) * kBlockOverhead) +
         records.table_count * 8 * kBlockBytes;
}

Status L1Files::Build(Encoding encoding) {
  return ForEachOnThreads(records_.table_count, [&](uint32_t table) {
    const bool is_there = ::faccessat(dir_fd(), NameOf(encoding, table).c_str(), F_OK, 0) == 0;
    return is_there ? Status::Ok() : BuildTable(encoding, table);
  });
}

Status L1Files::BuildTable(Encoding encoding, uint32_t table) const {
  std::unique_ptr<TableFileBuilder> builder;
  ENGINE_RACE_RETURN_IF_ERROR(TableFileBuilder::Create(dir_fd(), NameOf(encoding, table), encoding,
                                                       records_.shape, &builder));
  char key[kMaxKeyBytes];
  char payload[kMaxPayloadBytes];
  for (const uint64_t word : records_.SortedWords(table)) {
    records_.FillKey(word, key);
    records_.FillPayload(word, payload);
    ENGINE_RACE_RETURN_IF_ERROR(builder->Add(key, payload));
  }
  return builder->Finish();
}

Status L1Files::CountBlocks(Encoding encoding, uint64_t* block_count) const {
  *block_count = 0;
  for (uint32_t table = 0; table < records_.table_count; ++table) {
    TableFile file;
    ENGINE_RACE_RETURN_IF_ERROR(TableFile::Open(dir_fd(), NameOf(encoding, table), &file));
    *block_count += file.block_count();
  }
  return Status::Ok();
}

void L1Files::Remove(Encoding encoding) {
  for (uint32_t table = 0; table < records_.table_count; ++table) {
    ::unlinkat(dir_fd(), NameOf(encoding, table).c_str(), 0);
  }
}

Status L1Tables::Open(const L1Files& files, const L1Step& step, std::unique_ptr<L1Tables>* tables) {
  if (!step.available()) return Status::NotSupported("this CPU lacks what the step needs");
  std::unique_ptr<L1Tables> opened(new L1Tables(files.records()));
  ENGINE_RACE_RETURN_IF_ERROR(opened->OpenTables(files, step));
  *tables = std::move(opened);
  return Status::Ok();
}

Status L1Tables::OpenTables(const L1Files& files, const L1Step& step) {
  uint64_t block_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(files.CountBlocks(step.encoding, &block_count));
  if (step.reach != L1Reach::kNone) {
    ENGINE_RACE_RETURN_IF_ERROR(
        lab::TableFrames::Create(lab::TableFrames::CountFor(block_count), &frames_));
  }
  if (step.reach != L1Reach::kAll) {
    cache_ = std::make_unique<BlockCache>(block_count * kBlockBytes * 3 / 2 + kCacheSlackBytes);
  }
  tables_.resize(records_.table_count);
  return ForEachOnThreads(records_.table_count, [&](uint32_t i) {
    return lab::Table::Open(files.dir_fd(), files.NameOf(step.encoding, i), records_.shape,
                            step.options(), frames_.get(), cache_.get(), &tables_[i]);
  });
}

uint64_t L1Tables::memory_bytes() const {
  const uint64_t frames =
      frames_ == nullptr ? 0 : uint64_t{frames_->pool()->used_count()} * kBlockBytes;
  return frames + (cache_ == nullptr ? 0 : cache_->used_bytes());
}

MakeL1Answer L1Tables::Gets() const {
  return [this]() -> L1Answer {
    return [this, key_bytes = records_.shape.key_bytes](const L1Chunk& chunk, uint64_t* sum) {
      char payload[kMaxPayloadBytes];
      for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
        ENGINE_RACE_RETURN_IF_ERROR(
            tables_[chunk.tables[i]]->Get(chunk.keys + size_t{i} * key_bytes, payload));
        *sum += PayloadWord(payload);
      }
      return Status::Ok();
    };
  };
}

namespace {

// The memory of a thread for many lookups at once.
struct Batch {
  explicit Batch(uint32_t size, uint32_t payload_bytes)
      : payloads(size_t{size} * payload_bytes), statuses(size) {}
  std::vector<char> payloads;
  std::vector<Status> statuses;
};

}  // namespace

MakeL1Answer L1Tables::MultiGets(uint32_t batch) const {
  return [this, batch]() -> L1Answer {
    const uint32_t payload_bytes = records_.shape.payload_bytes;
    const auto own = std::make_shared<Batch>(batch, payload_bytes);
    return [this, batch, own, payload_bytes](const L1Chunk& chunk, uint64_t* sum) {
      for (uint32_t i = 0; i < L1Lookups::kChunk; i += batch) {
        tables_[chunk.tables[i]]->MultiGet(chunk.keys + size_t{i} * records_.shape.key_bytes,
                                           own->payloads.data(), own->statuses);
        for (uint32_t j = 0; j < batch; ++j) {
          if (!own->statuses[j].ok()) return own->statuses[j];
          *sum += PayloadWord(own->payloads.data() + size_t{j} * payload_bytes);
        }
      }
      return Status::Ok();
    };
  };
}

MakeL1Answer L1Tables::Seeks(uint32_t next_count) const {
  using lab::TableCursor;
  return [this, next_count]() -> L1Answer {
    const auto cursors = std::make_shared<std::vector<std::unique_ptr<TableCursor>>>();
    for (const auto& table : tables_)
      cursors->push_back(std::make_unique<TableCursor>(table.get()));
    return [this, next_count, cursors](const L1Chunk& chunk, uint64_t* sum) {
      for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
        TableCursor& cursor = *(*cursors)[chunk.tables[i]];
        cursor.Seek(chunk.keys + size_t{i} * records_.shape.key_bytes);
        for (uint32_t next = 0; next <= next_count && cursor.valid(); ++next) {
          if (next > 0) {
            cursor.Next();
            if (!cursor.valid()) break;
          }
          *sum += PayloadWord(cursor.payload());
        }
        ENGINE_RACE_RETURN_IF_ERROR(cursor.status());
      }
      return Status::Ok();
    };
  };
}

using lab::Encoding;
using lab::NodeSearch;
using lab::NodeSearchKernel;
using lab::Protection;
using lab::Reach;
using lab::TableOptions;

namespace {

// Steps with the same encoding follow each other, so that few files of the race exist at once.
constexpr L1Step kSteps[] = {
    {kBaselineStep, L1Use::kLadder, Encoding::kRestart, L1Reach::kNone},
    {kRestartPointerStep, L1Use::kRace, Encoding::kRestart, L1Reach::kAll},
    {"square", L1Use::kLadder, Encoding::kSquare, L1Reach::kNone},
    {"tree, early exit", L1Use::kRace, Encoding::kTree, L1Reach::kNone, NodeSearch::kEarlyExit},
    {"tree, branchless", L1Use::kSearches, Encoding::kTree, L1Reach::kNone,
     NodeSearch::kBranchless},
    {"tree, AVX2", L1Use::kRace, Encoding::kTree, L1Reach::kNone, NodeSearch::kAvx2},
    {"tree, AVX-512", L1Use::kRace, Encoding::kTree, L1Reach::kNone, NodeSearch::kAvx512},
    {kEncodingStep, L1Use::kLadder, Encoding::kTree, L1Reach::kNone},
    {kExtentsStep, L1Use::kLadder, Encoding::kTree, L1Reach::kExtents},
    {kIndexesStep, L1Use::kLadder, Encoding::kTree, L1Reach::kIndexes},
    {kSwizzledStep, L1Use::kLadder, Encoding::kTree, L1Reach::kAll},
    {"swizzled, early exit", L1Use::kSearches, Encoding::kTree, L1Reach::kAll,
     NodeSearch::kEarlyExit},
    {"swizzled, branchless", L1Use::kSearches, Encoding::kTree, L1Reach::kAll,
     NodeSearch::kBranchless},
    {"swizzled, AVX2", L1Use::kSearches, Encoding::kTree, L1Reach::kAll, NodeSearch::kAvx2},
    {"swizzled, AVX-512", L1Use::kSearches, Encoding::kTree, L1Reach::kAll, NodeSearch::kAvx512},
    {kCountedStep, L1Use::kRace, Encoding::kTree, L1Reach::kAll, {}, Protection::kCount}};

Reach ReachOf(bool by_pointer) { return by_pointer ? Reach::kPointer : Reach::kCache; }

}  // namespace

bool L1Step::available() const { return !search || NodeSearchKernel(*search) != nullptr; }

TableOptions L1Step::options() const {
  return {.encoding = encoding,
          .search = search ? NodeSearchKernel(*search) : nullptr,
          .extents = ReachOf(reach >= L1Reach::kExtents),
          .indexes = ReachOf(reach >= L1Reach::kIndexes),
          .records = ReachOf(reach >= L1Reach::kAll),
          .protection = protection};
}

std::vector<L1Step> L1Steps(L1Use least) {
  std::vector<L1Step> steps;
  std::copy_if(std::begin(kSteps), std::end(kSteps), std::back_inserter(steps),
               [least](const L1Step& step) { return step.use >= least; });
  return steps;
}

const L1Step& L1StepNamed(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kSteps), std::end(kSteps),
                                         [&](const L1Step& step) { return step.name == name; });
  assert(found != std::end(kSteps));
  return *found;
}

namespace {

// Each contender's round begins at the same lookup.
Status RunContender(const L1RoundsShape& shape, uint32_t round, const L1Contender& contender,
                    ClaimRounds* rounds) {
  const L1RunShape run_shape{contender.thread_count, shape.seconds, shape.warming_seconds,
                             AsBelow(MixAt(shape.seed, round), contender.lookups->chunk_count())};
  TimedPoint point;
  const Status status = contender.run
                            ? contender.run(run_shape, &point)
                            : RunLookups(*contender.lookups, run_shape, contender.answer, &point);
  ENGINE_RACE_RETURN_IF_ERROR(status.Prefixed(contender.name + ": "));
  rounds->Note(L1Figure(contender.name), point.RequestsPerSecond());
  return Status::Ok();
}

// In the round that has `later` rounds after it; 0 when none of them ran.
double FastestOf(const ClaimRounds& rounds, const std::vector<std::string>& names, size_t later) {
  double fastest = 0;
  for (const std::string& name : names) {
    if (!rounds.has(L1Figure(name))) continue;
    const std::vector<double>& rates = rounds.rounds(L1Figure(name));
    if (later < rates.size()) fastest = std::max(fastest, rates[rates.size() - 1 - later]);
  }
  return fastest;
}

}  // namespace

std::string L1Named(const std::string& step, uint32_t threads) {
  return step + ", " + std::to_string(threads);
}

std::string L1Figure(const std::string& contender) { return contender + ", lookups a second"; }

ResultRow L1StepRow(const ClaimRounds& rates, const std::string& step, const std::string& baseline,
                    uint32_t threads) {
  const double rate = rates.Median(L1Figure(L1Named(step, threads)));
  return {{"step", step},
          {"threads", threads},
          {"lookups_per_second", rate},
          {"lookup_ns", threads * 1e9 / rate},
          {"over_baseline", rate / rates.Median(L1Figure(L1Named(baseline, threads)))}};
}

Status RunL1Rounds(const L1RoundsShape& shape, const std::vector<L1Contender>& contenders,
                   const std::vector<L1Ratio>& ratios, ClaimRounds* rounds) {
  std::vector<Turn> turns;
  turns.reserve(contenders.size());
  for (const L1Contender& contender : contenders) {
    turns.emplace_back([&, round = uint32_t{0}]() mutable {
      return RunContender(shape, round++, contender, rounds);
    });
  }
  const Status status = rounds->Run({shape.round_count}, turns);
  if (Interrupted()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(status);
  for (const L1Ratio& ratio : ratios) {
    for (uint32_t later = shape.round_count; later-- > 0;) {
      rounds->NoteRatio(ratio.name, FastestOf(*rounds, ratio.above, later),
                        FastestOf(*rounds, ratio.below, later));
    }
  }
  return Status::Ok();
}

}  // namespace engine_race::harness
