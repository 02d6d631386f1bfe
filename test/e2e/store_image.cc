#include "test/e2e/store_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "engine_race/base/sys.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/row_file.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;
constexpr size_t kImagePageBytes = 4096;

[[noreturn]] void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string ReadFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) Fail(path);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  // Holes are skipped: most of a store is holes.
  for (off_t begin = 0; (begin = ::lseek(fd.get(), begin, SEEK_DATA)) >= 0;) {
    const off_t end = ::lseek(fd.get(), begin, SEEK_HOLE);
    const auto size = static_cast<size_t>(end - begin);
    if (::pread(fd.get(), bytes.data() + begin, size, begin) != static_cast<ssize_t>(size)) {
      Fail(path);
    }
    begin = end;
  }
  return bytes;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (fd.get() < 0 || ::ftruncate(fd.get(), static_cast<off_t>(bytes.size())) != 0) Fail(path);
  static const std::string zeros(kImagePageBytes, '\0');
  const auto is_zero = [&](size_t offset) {
    return std::memcmp(bytes.data() + offset, zeros.data(),
                       std::min(kImagePageBytes, bytes.size() - offset)) == 0;
  };
  for (size_t begin = 0; begin < bytes.size();) {
    size_t end = begin;
    while (end < bytes.size() && !is_zero(end)) end += kImagePageBytes;
    const size_t size = std::min(end, bytes.size()) - begin;
    if (size > 0 && ::pwrite(fd.get(), bytes.data() + begin, size, static_cast<off_t>(begin)) !=
                        static_cast<ssize_t>(size)) {
      Fail(path);
    }
    begin = end + kImagePageBytes;
  }
}

std::string Numbered(const char* prefix, uint32_t number) {
  char name[32];
  std::snprintf(name, sizeof(name), "%s%02u", prefix, number);
  return name;
}

}  // namespace

StoreImage StoreImage::Load(const std::string& dir) {
  StoreImage image;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.is_symlink() || !entry.is_regular_file()) continue;
    image.nodes[entry.path().filename()] = {Node::Kind::kFile, ReadFile(entry.path())};
  }
  return image;
}

void StoreImage::WriteTo(const std::string& dir) const {
  fs::remove_all(dir);
  fs::create_directory(dir);
  for (const auto& [name, node] : nodes) {
    const std::string path = dir + "/" + name;
    switch (node.kind) {
      case Node::Kind::kFile:
        WriteFile(path, node.bytes);
        break;
      case Node::Kind::kDirectory:
        fs::create_directory(path);
        break;
      case Node::Kind::kSymlink:
        fs::create_symlink(node.bytes, path);
        break;
      case Node::Kind::kFifo:
        if (::mkfifo(path.c_str(), 0644) != 0) Fail(path);
        break;
    }
  }
}

StoreLayout::StoreLayout(const StoreImage& image, const std::string& dir) : image_(image) {
  format::Manifest manifest;
  std::memcpy(&manifest, image.file(format::kManifestName).data(), sizeof(manifest));
  geometry_.layout = ValueLayout(manifest.value_bytes);
  geometry_.bucket_count = manifest.bucket_count;
  geometry_.file_count = manifest.file_count;
  geometry_.bucket_capacity_records = manifest.bucket_capacity_records;
  geometry_.value_group_bytes = manifest.value_group_bytes;
  geometry_.key_group_bytes = manifest.key_group_bytes;
  format::ManifestPaths paths;
  std::memcpy(&paths, image.file(format::kManifestName).data() + sizeof(manifest), sizeof(paths));
  geometry_.Divide({paths.first_key, paths.last_key});
  store_id_ = manifest.store_id;
  ReadTables(dir);
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    const uint64_t record_count = RecordCount(bucket);
    const SlotTable& table = tables_[bucket];
    std::vector<uint64_t>& held = held_slots_.emplace_back();
    for (uint64_t slot = 0; slot < table.SlotEnd(record_count); ++slot) {
      if (table.Holds(slot, record_count)) held.push_back(slot);
    }
  }
}

void StoreLayout::ReadTables(const std::string& dir) {
  files_.identity.geometry = geometry_;
  files_.identity.store_id = store_id_;
  files_.slots.Init(geometry_, /*dir_fd=*/-1, OwnDirectory());
  StoreImage alone;
  alone.nodes.insert(*image_.nodes.find(format::kSegmentTableName));
  const auto rows = image_.nodes.find(format::kRowsName);
  if (rows != image_.nodes.end()) alone.nodes.insert(*rows);
  alone.WriteTo(dir);
  const auto open = [&](const char* name, io::File* file) {
    const Status opened =
        io::File::OpenPath(dir + "/" + name, io::Access::kRead, io::Caching::kBuffered, file);
    if (!opened.ok()) throw std::runtime_error(opened.ToString());
  };
  open(format::kSegmentTableName, files_.slots.mutable_table_file());
  if (rows != image_.nodes.end()) open(format::kRowsName, &files_.rows);
  fs::remove_all(dir);
  uint64_t damaged_count = 0;
  const Status loaded = files_.slots.Load(store_id_, &damaged_count);
  if (!loaded.ok() || damaged_count != 0) {
    throw std::runtime_error("the table of a sound store is not read");
  }
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    BucketRows found;
    const Status read = ReadRows(files_, bucket, {&found, 1});
    if (!read.ok() || found.damaged) {
      throw std::runtime_error("the rows of a sound store are not read");
    }
    tables_.push_back(std::move(found.table));
    uint64_t number = 0;
    for (uint64_t i = 0; i < files_.slots.table().SegmentEnd(bucket); ++i) {
      if (files_.slots.NumberOf(bucket, i, &number)) bucket_of_segment_[number] = bucket;
    }
  }
}

uint64_t StoreLayout::Payload(uint32_t bucket, format::WordKind kind) const {
  uint64_t word = 0;
  std::memcpy(&word,
              image_.file(format::kStagingCountsName).data() +
                  bucket * sizeof(format::BucketCounts) + static_cast<size_t>(kind) * sizeof(word),
              sizeof(word));
  uint64_t payload = 0;
  if (!DecodeWord(store_id_, bucket, kind, word, PayloadBits(kind), &payload)) {
    throw std::runtime_error("the counts of a sound store do not decode");
  }
  return payload;
}

bool StoreLayout::IsStaged(uint32_t bucket, uint64_t slot, format::WordKind logged,
                           uint64_t* sequence) const {
  const SlotTable& table = tables_[bucket];
  const uint64_t logged_count =
      std::max(Payload(bucket, logged), Payload(bucket, format::WordKind::kSynced));
  return table.SequenceOf(slot, sequence) && *sequence >= logged_count;
}

Extent StoreLayout::KeyExtent(uint32_t bucket, uint64_t slot) const {
  constexpr uint64_t kBytes = sizeof(format::KeyEntry);
  uint64_t sequence = 0;
  if (!IsStaged(bucket, slot, format::WordKind::kLoggedKeys, &sequence)) {
    const SlotLocation location = files_.slots.LocateKeys(bucket, slot);
    return {Numbered(format::kKeyFilePrefix, location.file_number), location.offset, kBytes};
  }
  const uint32_t group = geometry_.keys_per_group();
  const uint64_t place = Payload(bucket, format::WordKind::kKeyPlaces) >>
                             (sequence / group % format::kMaxPlaces * format::kPlaceBits) &
                         15;
  return {
      format::kStagingKeysName,
      geometry_.KeyPlaceOffset(bucket, static_cast<uint32_t>(place)) + sequence % group * kBytes,
      kBytes};
}

Extent StoreLayout::ValueExtent(uint32_t bucket, uint64_t slot) const {
  uint64_t sequence = 0;
  if (!IsStaged(bucket, slot, format::WordKind::kLoggedValues, &sequence)) {
    const SlotLocation location = files_.slots.LocateValues(bucket, slot);
    return {Numbered(format::kValueFilePrefix, location.file_number), location.offset,
            geometry_.slot_bytes()};
  }
  const uint32_t group = geometry_.values_per_group();
  const uint64_t place = Payload(bucket, format::WordKind::kValuePlaces) >>
                             (sequence / group % format::kMaxPlaces * format::kPlaceBits) &
                         15;
  return {format::kStagingValuesName,
          geometry_.ValuePlaceOffset(bucket, static_cast<uint32_t>(place)) +
              sequence % group * geometry_.slot_bytes(),
          geometry_.slot_bytes()};
}

uint64_t StoreLayout::RowOffset(uint32_t bucket, uint32_t row) const {
  uint64_t number = 0;
  if (!files_.slots.NumberOf(bucket, row, &number)) {
    throw std::runtime_error("a row of a sound store has no place");
  }
  return geometry_.RowsOffset(number);
}

bool StoreLayout::HasBareRows(uint32_t bucket) const {
  for (uint32_t row = 0; row < table(bucket).rows().size(); ++row) {
    if (!HasPlace(bucket, row)) return true;
  }
  return false;
}

int64_t StoreLayout::BucketAt(const std::string& file, uint64_t offset) const {
  // Places that no bucket has are nobody's.
  const auto of_number = [&](uint64_t number) -> int64_t {
    const auto found = bucket_of_segment_.find(number);
    return found == bucket_of_segment_.end() ? geometry_.bucket_count : found->second;
  };
  const auto in_log = [&](const char* prefix, uint64_t segment_bytes) {
    const auto number = static_cast<uint32_t>(std::stoul(file.substr(std::strlen(prefix))));
    return of_number(
        files_.slots.table().NumberOf({number, static_cast<uint32_t>(offset / segment_bytes)}));
  };
  if (file == format::kSegmentTableName) return of_number(offset / sizeof(format::SegmentEntry));
  if (file == format::kRowsName) {
    const uint64_t rows = geometry_.RowsOffset(0);
    return offset < rows ? static_cast<int64_t>(offset / sizeof(format::RowsHead))
                         : of_number((offset - rows) / (geometry_.RowsOffset(1) - rows));
  }
  if (file.starts_with(format::kKeyFilePrefix)) {
    return in_log(format::kKeyFilePrefix, geometry_.segment_key_bytes());
  }
  if (file.starts_with(format::kValueFilePrefix)) {
    return in_log(format::kValueFilePrefix, geometry_.segment_value_bytes());
  }
  if (file == format::kStagingCountsName) {
    return static_cast<int64_t>(offset / sizeof(format::BucketCounts));
  }
  if (file == format::kStagingKeysName) {
    return static_cast<int64_t>(offset / geometry_.staged_key_bytes_per_bucket());
  }
  if (file == format::kStagingValuesName) {
    const uint64_t base = geometry_.staging_base_values_bytes();
    if (offset < base)
      return static_cast<int64_t>(offset / geometry_.base_value_bytes_per_bucket());
    constexpr uint64_t kExtraPlaces = format::kValuePlaces - format::kBasePlaces;
    return static_cast<int64_t>((offset - base) / (kExtraPlaces * geometry_.value_group_bytes));
  }
  return -1;
}

}  // namespace engine_race::test
