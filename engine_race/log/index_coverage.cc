#include "engine_race/log/index_coverage.h"

#include <cstring>
#include <span>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/io/file.h"

namespace engine_race {
namespace {

using format::IndexCoverage;
using format::IndexRootHeader;

bool IsPast(const IndexCoverage& coverage, const BucketMoment& end) {
  return coverage.end_count > end.record_count || coverage.end_births > end.births;
}

// The header and the coverage of a root that lies in a file of the store.
class CoverageFile {
 public:
  // *exists is false when there is none. *usable: it is a root of this store, whole as far as its
  // coverage. One that cannot be read is not usable.
  Status Open(const StoreFiles& files, io::Access access, bool* exists, bool* usable) {
    *usable = false;
    const int dir_fd = files.directory.get();
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kIndexRootName, exists));
    if (!*exists) return Status::Ok();
    // Direct, so that this reads what the device has. After a failed flush the page cache may hold
    // zeros that the device never got.
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::Open(dir_fd, format::kIndexRootName, access, io::Caching::kDirect, &file_));
    bucket_count_ = files.identity.geometry.bucket_count;
    bytes_ = RoundUp(sizeof(IndexRootHeader) + bucket_count_ * sizeof(IndexCoverage), kIoAlignment);
    uint64_t size_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(file_.Size(&size_bytes));
    if (size_bytes < bytes_) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes_, /*huge_pages=*/false, &pages_));
    const Status read = file_.Read(pages_.data(), bytes_, 0);
    if (read.code() == Code::kIOError) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(read);
    std::memcpy(&header_, pages_.data(), sizeof(header_));
    *usable = header_.magic == format::kIndexRootMagic &&
              header_.root_version == format::kIndexRootVersion &&
              header_.bucket_count == bucket_count_ &&
              header_.store_id == files.identity.store_id &&
              header_.seed_id == files.identity.seed_id();
    return Status::Ok();
  }

  uint64_t root_id() const { return header_.root_id; }
  // By bucket. To be changed in memory.
  std::span<IndexCoverage> coverage() {
    return {reinterpret_cast<IndexCoverage*>(pages_.data() + sizeof(IndexRootHeader)),
            bucket_count_};
  }
  // Writes the coverage as it is in memory, and the header as it was.
  Status Write() const { return file_.Write(pages_.data(), bytes_, 0); }
  const io::File& file() const { return file_; }

 private:
  io::File file_;
  IndexRootHeader header_{};
  uint32_t bucket_count_ = 0;
  uint64_t bytes_ = 0;
  Region pages_;
};

// Voids the coverage in the root. After a failure the root may not stay.
Status VoidInFile(const StoreFiles& files, const std::vector<uint32_t>& buckets,
                  const std::vector<BucketMoment>& ends) {
  CoverageFile root;
  bool exists = false;
  bool usable = false;
  ENGINE_RACE_RETURN_IF_ERROR(root.Open(files, io::Access::kReadWrite, &exists, &usable));
  if (!exists) return Status::Ok();
  if (!usable) return Status::IOError("the root of the index cannot be used");
  bool changed = false;
  for (const uint32_t bucket : buckets) {
    IndexCoverage& coverage = root.coverage()[bucket];
    if (!IsPast(coverage, ends[bucket])) continue;
    coverage = {};
    changed = true;
  }
  if (changed) ENGINE_RACE_RETURN_IF_ERROR(root.Write());
  return root.file().DataSync();
}

}  // namespace

uint64_t CoverageCheck(uint64_t store_id, uint64_t root_id, uint32_t bucket,
                       const IndexCoverage& coverage) {
  const uint64_t words[] = {root_id,
                            bucket,
                            coverage.record_count,
                            coverage.births,
                            coverage.end_count,
                            coverage.end_births,
                            coverage.last_check};
  const uint64_t hash = Hash64(words, sizeof(words), store_id);
  return hash != 0 ? hash : 1;
}

bool CoverageHolds(uint64_t store_id, uint64_t root_id, uint32_t bucket,
                   const IndexCoverage& coverage, const BucketMoment& now, ReadEntryFn read_entry) {
  const bool is_possible = coverage.record_count > 0 &&
                           coverage.record_count <= coverage.end_count &&
                           coverage.births <= coverage.end_births && !IsPast(coverage, now) &&
                           SlotTable::IsOneEra(coverage.end_births, now.births) &&
                           coverage.check == CoverageCheck(store_id, root_id, bucket, coverage);
  if (!is_possible) return false;
  format::KeyEntry last;
  const Status read = read_entry(coverage.end_count - 1, &last);
  return read.code() == Code::kInvalidArgument || (read.ok() && coverage.last_check == last.check);
}

Status CheckRootFile(const StoreFiles& files) {
  CoverageFile root;
  bool exists = false;
  bool usable = false;
  const Status opened = root.Open(files, io::Access::kRead, &exists, &usable);
  return opened.code() == Code::kCorruption ? opened : Status::Ok();
}

FoundCoverage ReadCoverage(const StoreFiles& files) {
  FoundCoverage found;
  CoverageFile root;
  bool exists = false;
  bool usable = false;
  found.status = root.Open(files, io::Access::kRead, &exists, &usable);
  // The index makes nothing of such a root either.
  if (found.status.code() == Code::kIOError) found.status = Status::Ok();
  if (!usable) return found;
  found.root_id = root.root_id();
  found.coverages.assign(root.coverage().begin(), root.coverage().end());
  return found;
}

Status CompareWithCoverage(const StoreFiles& files, const FoundCoverage& found,
                           const std::vector<BucketState>& states, const char** doubt) {
  ENGINE_RACE_RETURN_IF_ERROR(found.status);
  ENGINE_RACE_ASSERT(found.coverages.empty() || found.coverages.size() == states.size());
  for (uint32_t bucket = 0; bucket < found.coverages.size(); ++bucket) {
    const BucketState& state = states[bucket];
    const IndexCoverage& covered = found.coverages[bucket];
    if (!state.damaged && IsPast(covered, {state.record_count, state.table.births()}) &&
        covered.check == CoverageCheck(files.identity.store_id, found.root_id, bucket, covered)) {
      *doubt = "the index covers more than the counts and rows have";
    }
  }
  return Status::Ok();
}

Status VoidCoverage(const StoreFiles& files, const std::vector<uint32_t>& buckets,
                    const std::vector<BucketMoment>& ends) {
  const Status voided = VoidInFile(files, buckets, ends);
  if (voided.code() == Code::kCorruption || voided.code() == Code::kOutOfMemory) return voided;
  const int dir_fd = files.directory.get();
  if (!voided.ok()) ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, format::kIndexRootName));
  // Always. The name may be from a rename that no flush followed: a power loss would bring the
  // older root back. Likewise an interrupted call may have removed a root.
  return sys::Fsync(dir_fd);
}

}  // namespace engine_race
