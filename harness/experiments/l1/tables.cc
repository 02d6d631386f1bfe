#include "harness/experiments/l1/tables.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harness/lab/extent_file.h"

namespace harness {

using engine_race::Status;
using lab::BlockCache;
using lab::Encoding;
using lab::ExtentFile;
using lab::ExtentFileBuilder;
using lab::kBlockBytes;

namespace {

// Shards of a cache do not fill evenly. So the cache is half as large again and has room for
// several more blocks in each shard: nothing is evicted.
constexpr uint64_t kCacheSlackBytes = uint64_t{64} << 20;
// More than the overhead of any encoding.
constexpr double kBlockOverhead = 1.4;

const char* EncodingName(Encoding encoding) {
  switch (encoding) {
    case Encoding::kSquare:
      return "square";
    case Encoding::kTree:
      return "tree";
    case Encoding::kRestart:
      break;
  }
  return "restart";
}

uint64_t BlockCountOf(const ExtentFile& file) {
  uint64_t count = 0;
  for (uint32_t extent = 0; extent < file.extent_count(); ++extent) {
    count += 1 + file.block_count(extent);
  }
  return count;
}

}  // namespace

Status L1Files::Open(const std::string& dir, const L1Records& records,
                     std::unique_ptr<L1Files>* files) {
  std::unique_ptr<L1Files> opened(new L1Files(records));
  opened->dir_ = dir;
  ENGINE_RACE_RETURN_IF_ERROR(
      engine_race::sys::OpenDirectory(dir, /*create=*/false, &opened->dir_fd_));
  *files = std::move(opened);
  return Status::Ok();
}

std::string L1Files::NameOf(Encoding encoding, uint32_t table) const {
  return std::string(EncodingName(encoding)) + "-" + std::to_string(records_.shape.key_bytes) +
         "-" + std::to_string(records_.shape.payload_bytes) + "-" +
         std::to_string(records_.records_per_table) + "-" + std::to_string(records_.seed) + "-" +
         std::to_string(table) + ".table";
}

uint64_t L1Files::BytesOf(const L1Records& records) {
  return static_cast<uint64_t>(static_cast<double>(records.byte_count()) * kBlockOverhead) +
         records.table_count * 8 * kBlockBytes;
}

bool L1Files::IsThere(Encoding encoding, uint32_t table) const {
  std::unique_ptr<ExtentFile> file;
  return ExtentFile::Open(dir_fd(), NameOf(encoding, table), &file).ok() &&
         file->record_count() == records_.records_per_table;
}

Status L1Files::Build(Encoding encoding) {
  return ForEachOnThreads(records_.table_count, [&](uint32_t table) {
    return IsThere(encoding, table) ? Status::Ok() : BuildTable(encoding, table);
  });
}

Status L1Files::BuildTable(Encoding encoding, uint32_t table) const {
  std::unique_ptr<ExtentFileBuilder> builder;
  ENGINE_RACE_RETURN_IF_ERROR(ExtentFileBuilder::Create(
      dir_fd(), NameOf(encoding, table), records_.shape, lab::BlocksIn(encoding), &builder));
  char key[kMaxKeyBytes];
  char payload[kMaxPayloadBytes];
  for (const uint64_t word : records_.SortedWords(table)) {
    records_.FillKey(word, key);
    records_.FillPayload(word, payload);
    ENGINE_RACE_RETURN_IF_ERROR(builder->Add(key, payload));
  }
  return builder->Finish();
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
  ENGINE_RACE_RETURN_IF_ERROR(ForEachOnThreads(
      files.records().table_count, [&](uint32_t table) { return opened->Warm(table); }));
  *tables = std::move(opened);
  return Status::Ok();
}

Status L1Tables::OpenTables(const L1Files& files, const L1Step& step) {
  uint64_t block_count = 0;
  for (uint32_t i = 0; i < records_.table_count; ++i) {
    std::unique_ptr<ExtentFile> file;
    ENGINE_RACE_RETURN_IF_ERROR(
        ExtentFile::Open(files.dir_fd(), files.NameOf(step.encoding, i), &file));
    block_count += BlockCountOf(*file);
  }
  // A quarter more frames than blocks, so that no frame is ever cooling.
  const auto frame_count = static_cast<uint32_t>(block_count + block_count / 4 + 16);
  if (step.reach != L1Reach::kNone) {
    ENGINE_RACE_RETURN_IF_ERROR(lab::TableFrames::Create(frame_count, &epochs_, &frames_));
  }
  if (step.reach != L1Reach::kAll) {
    cache_ = std::make_unique<BlockCache>(block_count * kBlockBytes * 3 / 2 + kCacheSlackBytes);
  }
  tables_.resize(records_.table_count);
  for (uint32_t i = 0; i < records_.table_count; ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(lab::Table::Open(files.dir_fd(), files.NameOf(step.encoding, i),
                                                 step.options(), frames_.get(), &epochs_,
                                                 cache_.get(), &tables_[i]));
  }
  return Status::Ok();
}

// Reads at least one record of every block.
Status L1Tables::Warm(uint32_t table) const {
  const std::vector<uint64_t> words = records_.SortedWords(table);
  const size_t step = std::max<size_t>(1, kBlockBytes / records_.shape.record_bytes() / 4);
  char key[kMaxKeyBytes];
  char payload[kMaxPayloadBytes];
  for (size_t i = 0; i < words.size(); i += step) {
    records_.FillKey(words[i], key);
    ENGINE_RACE_RETURN_IF_ERROR(tables_[table]->Get(key, payload));
  }
  return Status::Ok();
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
  using Cursor = lab::Table::Cursor;
  return [this, next_count]() -> L1Answer {
    const auto cursors = std::make_shared<std::vector<std::unique_ptr<Cursor>>>();
    for (const auto& table : tables_) cursors->push_back(std::make_unique<Cursor>(table.get()));
    return [this, next_count, cursors](const L1Chunk& chunk, uint64_t* sum) {
      for (uint32_t i = 0; i < L1Lookups::kChunk; ++i) {
        Cursor& cursor = *(*cursors)[chunk.tables[i]];
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

}  // namespace harness
