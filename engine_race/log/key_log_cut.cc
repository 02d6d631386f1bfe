#include "engine_race/log/key_log_cut.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/is_zero.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/log/format.h"
#include "engine_race/log/parallel_work.h"

namespace engine_race {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{256} << 10;
static_assert(kPieceBytes % kIoAlignment == 0);

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
    // Before the first punch: a new file is a copy of what stays here.
    for (uint32_t bucket = first_bucket_; bucket < end_bucket(); ++bucket) {
      if (IsCut(bucket)) ENGINE_RACE_RETURN_IF_ERROR(ZeroRows(bucket));
    }
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

  // Zeros the slots that hold nothing, and those of records behind the end.
  Status ZeroRows(uint32_t bucket) const {
    const SlotTable& table = cuts_.states[bucket].table;
    alignas(kIoAlignment) std::array<format::KeyEntry, format::kPageEntries> page;
    static constexpr format::KeyEntry kNoEntry{};
    for (uint64_t first = 0; first < table.SlotEnd(0); first += page.size()) {
      std::vector<uint64_t> empty;
      for (uint64_t i = 0; i < page.size(); ++i) {
        if (!table.Holds(first + i, cuts_.ends[bucket])) empty.push_back(i);
      }
      if (empty.empty()) continue;
      const uint64_t offset = geometry_.KeyOffset(bucket, first);
      ENGINE_RACE_RETURN_IF_ERROR(file_->Read(page.data(), sizeof(page), offset));
      bool changed = false;
      for (const uint64_t i : empty) changed = changed || page[i] != kNoEntry;
      if (!changed) continue;
      for (const uint64_t i : empty) page[i] = kNoEntry;
      ENGINE_RACE_RETURN_IF_ERROR(file_->Write(page.data(), sizeof(page), offset));
    }
    return Status::Ok();
  }

  // Zeros what the last page holds behind the end, and punches out the rest of the region. In a
  // bucket with rows the rest begins behind the last row.
  Status Punch(uint32_t bucket, bool* supported) const {
    const SlotTable& table = cuts_.states[bucket].table;
    uint64_t kept_bytes = table.SlotEnd(0) * format::kKeyEntryBytes;
    if (!table.has_rows()) {
      const uint64_t end_bytes = cuts_.ends[bucket] * format::kKeyEntryBytes;
      ENGINE_RACE_ASSERT(end_bytes <= geometry_.key_region_bytes());
      kept_bytes = RoundUp(end_bytes, uint64_t{kIoAlignment});
      ENGINE_RACE_RETURN_IF_ERROR(Zero(bucket, end_bytes, kept_bytes));
    }
    const uint64_t region = geometry_.KeyOffset(bucket, 0);
    return file_->Punch(region + kept_bytes, region + geometry_.key_region_bytes(), supported);
  }

  // Zeros bytes of a bucket's region, up to the end of a page.
  Status Zero(uint32_t bucket, uint64_t begin_bytes, uint64_t end_bytes) const {
    const uint64_t region = geometry_.KeyOffset(bucket, 0);
    Region page;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page));
    while (begin_bytes < end_bytes) {
      const uint64_t in_page = begin_bytes % kIoAlignment;
      const uint64_t offset = region + begin_bytes - in_page;
      ENGINE_RACE_RETURN_IF_ERROR(file_->Read(page.data(), kIoAlignment, offset));
      if (!IsZero(page.data() + in_page, kIoAlignment - in_page)) {
        std::memset(page.data() + in_page, 0, kIoAlignment - in_page);
        ENGINE_RACE_RETURN_IF_ERROR(file_->Write(page.data(), kIoAlignment, offset));
      }
      begin_bytes += kIoAlignment - in_page;
    }
    return Status::Ok();
  }

  // How much of a bucket's log stays. Where the counts are damaged any entry may count: all stay.
  uint64_t KeptBytes(uint32_t bucket) const {
    if (cuts_.states[bucket].damaged) return geometry_.key_region_bytes();
    if (cuts_.states[bucket].table.has_rows()) {
      return cuts_.states[bucket].table.SlotEnd(0) * format::kKeyEntryBytes;
    }
    if (IsCut(bucket)) return cuts_.ends[bucket] * format::kKeyEntryBytes;
    return cuts_.states[bucket].record_count * format::kKeyEntryBytes;
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
