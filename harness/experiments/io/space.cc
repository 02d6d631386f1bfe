#include "harness/experiments/io/space.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "engine_race/base/memory.h"
#include "harness/data/mix.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

// Raw files are multiples of this, so that pages of every size fit in.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// Noise, so that no device can make the reads cheap by compressing them.
void FillNoise(uint64_t seed, char* data, size_t size_bytes) {
  for (size_t i = 0; i + sizeof(uint64_t) <= size_bytes; i += sizeof(uint64_t)) {
    const uint64_t word = MixAt(seed, i);
    std::memcpy(data + i, &word, sizeof(word));
  }
}

}  // namespace

Status IoSpace::MakeIn(const std::string& parent, std::string* made) {
  *made = made_.emplace_back(parent, 0, "race-io.").path();
  if (!made->empty()) return Status::Ok();
  return Status::InvalidArgument(parent + " is not a directory in which one could be made");
}

Status IoSpace::Prepare() {
  ENGINE_RACE_RETURN_IF_ERROR(MakeIn(options_.parent, &dir_));
  for (const std::string& path : options_.paths) {
    ENGINE_RACE_RETURN_IF_ERROR(MakeIn(path, &paths_.emplace_back()));
  }
  if (!has_stand_ins()) return Status::Ok();
  for (uint32_t i = 0; i < options_.stand_in_count; ++i) {
    const std::string stand_in = dir_ + "/path" + std::to_string(i);
    std::error_code failed;
    fs::create_directory(stand_in, failed);
    if (failed) return Status::FromErrno("mkdir " + stand_in, failed.value());
    paths_.push_back(stand_in);
  }
  return Status::Ok();
}

Status IoSpace::RawFiles(std::span<const RawFile>* files) {
  const uint64_t share_bytes = options_.raw_bytes / paths_.size() / kPieceBytes * kPieceBytes;
  while (files_.size() < paths_.size()) {
    RawFile file;
    ENGINE_RACE_RETURN_IF_ERROR(
        MakeRawFile(paths_[files_.size()] + "/raw", std::max(share_bytes, kPieceBytes), &file));
    files_.push_back(std::move(file));
  }
  *files = files_;
  return Status::Ok();
}

Status IoSpace::MakeRawFile(const std::string& path, uint64_t size_bytes, RawFile* file) {
  const int flags = O_RDWR | O_CREAT | O_TRUNC;
  file->name = path;
  file->size_bytes = size_bytes;
  file->direct = true;
  Status opened = sys::OpenAt(AT_FDCWD, path, flags | O_DIRECT, 0644, &file->fd);
  if (opened.code() == Code::kNotSupported) {
    file->direct = false;
    opened = sys::OpenAt(AT_FDCWD, path, flags, 0644, &file->fd);
  }
  ENGINE_RACE_RETURN_IF_ERROR(std::move(opened));
  Region piece;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kPieceBytes, false, &piece));
  for (uint64_t offset = 0; offset < size_bytes; offset += kPieceBytes) {
    if (Interrupted()) return InterruptedStatus();
    FillNoise(offset, piece.data(), piece.size());
    ENGINE_RACE_RETURN_IF_ERROR(sys::PwriteFull(file->fd.get(), piece.data(), kPieceBytes, offset));
  }
  return sys::Fsync(file->fd.get());
}

}  // namespace engine_race::harness
