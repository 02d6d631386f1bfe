#include "engine_race/l1/index_root.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/io/file.h"
#include "engine_race/l1/extent_id.h"

namespace engine_race::l1 {

using format::IndexCoverage;
using format::IndexExtent;
using format::IndexRootHeader;

namespace {

constexpr uint32_t kPageBytes = 4096;

uint64_t BytesOf(uint64_t bucket_count, uint64_t extent_count) {
  return sizeof(IndexRootHeader) + bucket_count * sizeof(IndexCoverage) +
         extent_count * sizeof(IndexExtent);
}

uint64_t ChecksumOf(const IndexRootHeader& header, const std::vector<IndexExtent>& extents) {
  const uint64_t of_header =
      Hash64(&header, offsetof(IndexRootHeader, checksum), format::kIndexRootMagic);
  return Hash64(extents.data(), extents.size() * sizeof(IndexExtent), of_header);
}

Status Unusable(const std::string& why) {
  return Status::Corruption(std::string(format::kIndexRootName) + ": " + why);
}

// All that must hold before memory is allocated for the rest.
Status CheckHeader(const IndexRootHeader& header, uint64_t file_bytes, const StoreIds& ids,
                   uint32_t bucket_count) {
  if (header.magic != format::kIndexRootMagic) return Unusable("not the root of an index");
  if (header.root_version != format::kIndexRootVersion ||
      header.file_count != format::kIndexFileCount) {
    return Status::NotSupported(std::string(format::kIndexRootName) + ": version " +
                                std::to_string(header.root_version) + " with " +
                                std::to_string(header.file_count) + " files, this build reads " +
                                std::to_string(format::kIndexRootVersion) + " with " +
                                std::to_string(format::kIndexFileCount));
  }
  if (header.store_id != ids.store_id || header.seed_id != ids.seed_id) {
    return Unusable("it is of another store");
  }
  if (header.bucket_count != bucket_count) {
    return Unusable("it has " + std::to_string(header.bucket_count) + " buckets, the store has " +
                    std::to_string(bucket_count));
  }
  if (header.extent_count > kMaxExtentPlaces) return Unusable("it has too many extents");
  if (file_bytes != RoundUp(BytesOf(bucket_count, header.extent_count), kPageBytes)) {
    return Unusable("it does not have the size that its counts give");
  }
  return Status::Ok();
}

Status CheckExtent(const IndexExtent& extent, uint32_t bucket_count) {
  if (extent.bucket >= bucket_count) return Unusable("an extent is of no bucket");
  if (extent.generation == 0) return Unusable("an extent has no generation");
  if (extent.place >= kMaxExtentPlaces) return Unusable("an extent's place is out of bounds");
  if (extent.record_count == 0 || extent.record_count > format::kIndexExtentRecords) {
    return Unusable("an extent has an impossible number of records");
  }
  if (extent.first_key > extent.last_key ||
      extent.last_key - extent.first_key < extent.record_count - 1) {
    return Unusable("an extent has more records than keys");
  }
  return Status::Ok();
}

Status CheckExtents(const std::vector<IndexExtent>& extents, uint32_t bucket_count) {
  std::vector<bool> named;
  const IndexExtent* before = nullptr;
  for (const IndexExtent& extent : extents) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckExtent(extent, bucket_count));
    if (before != nullptr &&
        (extent.bucket < before->bucket ||
         (extent.bucket == before->bucket && extent.first_key <= before->last_key))) {
      return Unusable("its extents are out of order");
    }
    if (extent.place >= named.size()) named.resize(extent.place + 1);
    if (named[extent.place]) {
      return Unusable("place " + std::to_string(extent.place) + " is named twice");
    }
    named[extent.place] = true;
    before = &extent;
  }
  return Status::Ok();
}

Status Load(int dir_fd, const StoreIds& ids, uint32_t bucket_count, IndexRoot* root) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kIndexRootName, &exists));
  if (!exists) return Status::NotFound();
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kIndexRootName, io::Access::kRead,
                                             io::Caching::kBuffered, &file));
  uint64_t file_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.Size(&file_bytes));
  IndexRootHeader header;
  if (file_bytes < sizeof(header)) return Unusable("it is truncated");
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(&header, sizeof(header), 0));
  ENGINE_RACE_RETURN_IF_ERROR(CheckHeader(header, file_bytes, ids, bucket_count));
  root->root_id = header.root_id;
  root->coverages.resize(bucket_count);
  root->extents.resize(header.extent_count);
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(
      root->coverages.data(), root->coverages.size() * sizeof(IndexCoverage), sizeof(header)));
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(
      root->extents.data(), root->extents.size() * sizeof(IndexExtent), BytesOf(bucket_count, 0)));
  if (header.checksum != ChecksumOf(header, root->extents)) {
    return Unusable("its checksum does not match");
  }
  return CheckExtents(root->extents, bucket_count);
}

Status WriteTemp(int dir_fd, const StoreIds& ids, mode_t file_mode, const IndexRoot& root) {
  IndexRootHeader header{};
  header.magic = format::kIndexRootMagic;
  header.root_version = format::kIndexRootVersion;
  header.bucket_count = static_cast<uint32_t>(root.coverages.size());
  header.store_id = ids.store_id;
  header.seed_id = ids.seed_id;
  header.root_id = root.root_id;
  header.extent_count = static_cast<uint32_t>(root.extents.size());
  header.file_count = format::kIndexFileCount;
  header.checksum = ChecksumOf(header, root.extents);
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kIndexRootTempName,
                                             io::Access::kReplace, io::Caching::kBuffered, &file,
                                             file_mode));
  uint64_t offset = 0;
  const auto append = [&](const void* data, size_t size) {
    const uint64_t begin = offset;
    offset += size;
    return size == 0 ? Status::Ok() : file.Write(data, size, begin);
  };
  ENGINE_RACE_RETURN_IF_ERROR(append(&header, sizeof(header)));
  ENGINE_RACE_RETURN_IF_ERROR(
      append(root.coverages.data(), root.coverages.size() * sizeof(IndexCoverage)));
  ENGINE_RACE_RETURN_IF_ERROR(
      append(root.extents.data(), root.extents.size() * sizeof(IndexExtent)));
  ENGINE_RACE_ASSERT(offset == BytesOf(header.bucket_count, header.extent_count));
  const std::array<char, kPageBytes> zeros{};
  ENGINE_RACE_RETURN_IF_ERROR(append(zeros.data(), RoundUp(offset, kPageBytes) - offset));
  return file.Sync();
}

}  // namespace

std::span<const IndexExtent> IndexRoot::ExtentsOf(uint32_t bucket) const {
  const auto begin =
      std::partition_point(extents.begin(), extents.end(),
                           [bucket](const IndexExtent& extent) { return extent.bucket < bucket; });
  const auto end = std::partition_point(begin, extents.end(), [bucket](const IndexExtent& extent) {
    return extent.bucket == bucket;
  });
  return {begin, end};
}

Status LoadIndexRoot(int dir_fd, const StoreIds& ids, uint32_t bucket_count, IndexRoot* root) {
  Status status = Guarded([&] { return Load(dir_fd, ids, bucket_count, root); });
  if (!status.ok()) *root = {};
  return status;
}

Status StoreIndexRoot(int dir_fd, const StoreIds& ids, mode_t file_mode, const IndexRoot& root,
                      bool* is_replaced) {
  *is_replaced = false;
  return Guarded([&] {
    ENGINE_RACE_ASSERT(
        CheckExtents(root.extents, static_cast<uint32_t>(root.coverages.size())).ok());
    Status status = WriteTemp(dir_fd, ids, file_mode, root);
    if (status.ok()) {
      status = sys::Rename(dir_fd, format::kIndexRootTempName, format::kIndexRootName);
    }
    if (!status.ok()) {
      // It would keep space that a full disk needs. The first failure is the one to tell.
      static_cast<void>(sys::Unlink(dir_fd, format::kIndexRootTempName));
      return status;
    }
    *is_replaced = true;
    return sys::Fsync(dir_fd);
  });
}

Status RemoveIndexRoot(int dir_fd) {
  return Guarded([&] {
    for (const char* name : {format::kIndexRootTempName, format::kIndexRootName}) {
      ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, name));
    }
    return sys::Fsync(dir_fd);
  });
}

}  // namespace engine_race::l1
