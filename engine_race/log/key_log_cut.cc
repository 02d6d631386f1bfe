#include "engine_race/log/key_log_cut.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/log/format.h"
#include "engine_race/log/parallel_work.h"

namespace engine_race {
namespace {

constexpr uint64_t kEntryBytes = sizeof(format::KeyEntry);
constexpr uint64_t kPieceBytes = uint64_t{256} << 10;
static_assert(kPieceBytes % kIoAlignment == 0);

bool IsZero(const char* data, uint64_t size_bytes) {
  return std::all_of(data, data + size_bytes, [](char byte) { return byte == 0; });
}

// Cuts the buckets of one key file.
class FileCut {
 public:
  FileCut(const KeyLogCuts& cuts, uint32_t number, mode_t file_mode, StoreFiles* files)
      : cuts_(cuts),
        geometry_(files->identity.geometry),
        first_bucket_(number * geometry_.buckets_per_file()),
        file_mode_(file_mode),
        dir_fd_(files->directory.get()),
        file_(&files->key_files[number]) {}

  Status Run() {
    bool supported = true;
    for (uint32_t bucket = first_bucket_; bucket < end_bucket() && supported; ++bucket) {
      if (IsCut(bucket)) ENGINE_RACE_RETURN_IF_ERROR(Punch(bucket, &supported));
    }
    return supported ? Status::Ok() : WriteAnew();
  }

 private:
  uint32_t end_bucket() const { return first_bucket_ + geometry_.buckets_per_file(); }
  bool IsCut(uint32_t bucket) const {
    return std::binary_search(cuts_.buckets.begin(), cuts_.buckets.end(), bucket);
  }

  // Zeros what its last page holds behind the end, and punches out the rest of the region.
  Status Punch(uint32_t bucket, bool* supported) const {
    const uint64_t region = geometry_.KeyOffset(bucket, 0);
    const uint64_t end_bytes = cuts_.ends[bucket] * kEntryBytes;
    ENGINE_RACE_ASSERT(end_bytes <= geometry_.key_region_bytes());
    const uint64_t in_page = end_bytes % kIoAlignment;
    if (in_page != 0) {
      Region page;
      ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page));
      const uint64_t offset = region + end_bytes - in_page;
      ENGINE_RACE_RETURN_IF_ERROR(file_->Read(page.data(), kIoAlignment, offset));
      std::memset(page.data() + in_page, 0, kIoAlignment - in_page);
      ENGINE_RACE_RETURN_IF_ERROR(file_->Write(page.data(), kIoAlignment, offset));
    }
    return file_->Punch(region + RoundUp(end_bytes, kIoAlignment),
                        region + geometry_.key_region_bytes(), supported);
  }

  // How much of a bucket's log stays. Where the counts are damaged any entry may count: all stay.
  uint64_t KeptBytes(uint32_t bucket) const {
    if (IsCut(bucket)) return cuts_.ends[bucket] * kEntryBytes;
    if (cuts_.states[bucket].damaged) return geometry_.key_region_bytes();
    return cuts_.states[bucket].record_count * kEntryBytes;
  }

  Status WriteAnew() {
    const std::string name = file_->name();
    const std::string new_name = name + format::kNewSuffix;
    const auto caching = file_->direct() ? io::Caching::kDirect : io::Caching::kBuffered;
    io::File fresh;
    ENGINE_RACE_RETURN_IF_ERROR(
        io::File::Open(dir_fd_, new_name, io::Access::kReplace, caching, &fresh, file_mode_));
    Status filled = Fill(fresh);
    if (!filled.ok()) {
      // A full disk gets the space back; the next opening would replace the file anyway.
      static_cast<void>(sys::Unlink(dir_fd_, new_name).ok());
      return filled;
    }
    ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(dir_fd_, new_name, name));
    ENGINE_RACE_RETURN_IF_ERROR(sys::Fsync(dir_fd_));
    fresh.set_name(name);
    *file_ = std::move(fresh);
    return Status::Ok();
  }

  Status Fill(const io::File& fresh) const {
    ENGINE_RACE_RETURN_IF_ERROR(fresh.Truncate(geometry_.key_file_bytes()));
    for (uint32_t bucket = first_bucket_; bucket < end_bucket(); ++bucket) {
      ENGINE_RACE_RETURN_IF_ERROR(Copy(geometry_.KeyOffset(bucket, 0), KeptBytes(bucket), fresh));
    }
    return fresh.Sync();
  }

  // Zeros behind the last byte, to the end of its page. Pieces of zeros stay holes.
  Status Copy(uint64_t region, uint64_t size_bytes, const io::File& to) const {
    Region piece;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kPieceBytes, false, &piece));
    for (uint64_t done = 0; done < size_bytes; done += kPieceBytes) {
      const uint64_t wanted_bytes = std::min(kPieceBytes, size_bytes - done);
      const uint64_t bytes = RoundUp(wanted_bytes, kIoAlignment);
      ENGINE_RACE_RETURN_IF_ERROR(file_->Read(piece.data(), bytes, region + done));
      std::memset(piece.data() + wanted_bytes, 0, bytes - wanted_bytes);
      if (IsZero(piece.data(), bytes)) continue;
      ENGINE_RACE_RETURN_IF_ERROR(to.Write(piece.data(), bytes, region + done));
    }
    return Status::Ok();
  }

  const KeyLogCuts& cuts_;
  const Geometry& geometry_;
  const uint32_t first_bucket_;
  const mode_t file_mode_;
  const int dir_fd_;
  io::File* const file_;
};

}  // namespace

Status CutKeyLogs(const KeyLogCuts& cuts, mode_t file_mode, StoreFiles* files) {
  ENGINE_RACE_ASSERT(std::is_sorted(cuts.buckets.begin(), cuts.buckets.end()));
  ENGINE_RACE_ASSERT(cuts.ends.size() == cuts.states.size());
  const auto file_count = static_cast<uint32_t>(files->key_files.size());
  return ForEachNumber(
      file_count, [&](uint32_t number) { return FileCut(cuts, number, file_mode, files).Run(); });
}

}  // namespace engine_race
