#include "test/power/file_model.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace engine_race::test {
namespace {

void Check(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

bool AllZero(const char* data, uint64_t size) {
  return size == 0 || (data[0] == 0 && std::memcmp(data, data + 1, size - 1) == 0);
}

void WriteAt(int fd, const char* data, uint64_t size, uint64_t offset) {
  Check(::pwrite(fd, data, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size),
        "pwrite of a crash state");
}

void PunchAt(int fd, uint64_t size, uint64_t offset) {
  Check(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(size)) == 0,
        "fallocate of a crash state");
}

uint64_t SizeOf(int fd) {
  struct stat info;
  Check(::fstat(fd, &info) == 0, "fstat");
  return static_cast<uint64_t>(info.st_size);
}

// Does to the file `fd` what is left of a change whose sectors in [from, to) reached the device.
void ApplyPart(const Change& change, uint64_t from, uint64_t to, bool allocate_zeros, int fd) {
  to = std::min(to, change.size);
  if (from >= to) return;
  if (change.kind == Change::Kind::kWrite && !change.data.empty()) {
    WriteAt(fd, change.data.data() + from, to - from, change.offset + from);
    return;
  }
  if (change.kind == Change::Kind::kWrite && SizeOf(fd) < change.offset + to) {
    Check(::ftruncate(fd, static_cast<off_t>(change.offset + to)) == 0, "ftruncate");
  }
  PunchAt(fd, to - from, change.offset + from);
  if (change.kind == Change::Kind::kWrite && allocate_zeros) {
    Check(::fallocate(fd, 0, static_cast<off_t>(change.offset + from),
                      static_cast<off_t>(to - from)) == 0,
          "fallocate");
  }
}

void ApplyTorn(const Change& change, bool allocate_zeros, Random* random, int fd) {
  // Sectors of the device, not of the change.
  const uint64_t head = change.offset % kSectorBytes;
  const uint64_t sectors = (head + change.size + kSectorBytes - 1) / kSectorBytes;
  const auto begin_of = [&](uint64_t sector) {
    return sector == 0 ? 0 : sector * kSectorBytes - head;
  };
  if (Chance(random, 0.5)) {
    ApplyPart(change, 0, begin_of(Below(random, sectors)), allocate_zeros, fd);
    return;
  }
  const uint64_t stride = Chance(random, 0.5) ? 1 : 8;  // sectors or pages
  for (uint64_t sector = 0; sector < sectors; sector += stride) {
    if (!Chance(random, 0.5)) continue;
    ApplyPart(change, begin_of(sector), begin_of(sector + stride), allocate_zeros, fd);
  }
}

}  // namespace

void SparseBytes::Resize(uint64_t size) {
  if (size < size_) Punch(size_ - size, size);
  size_ = size;
}

void SparseBytes::Write(const char* data, uint64_t size, uint64_t offset) {
  size_ = std::max(size_, offset + size);
  for (uint64_t done = 0; done < size;) {
    const uint64_t number = (offset + done) / kPageBytes;
    const uint64_t in_page = (offset + done) % kPageBytes;
    const uint64_t bytes = std::min(size - done, kPageBytes - in_page);
    std::unique_ptr<Page>& page = pages_[number];
    if (data != nullptr) {
      if (page == nullptr) page = std::make_unique<Page>();
      std::memcpy(page->data() + in_page, data + done, bytes);
    } else if (page != nullptr) {
      std::memset(page->data() + in_page, 0, bytes);
    }
    done += bytes;
  }
}

void SparseBytes::Punch(uint64_t size, uint64_t offset) {
  const uint64_t end = offset + size;
  auto it = pages_.lower_bound(offset / kPageBytes);
  while (it != pages_.end() && it->first * kPageBytes < end) {
    const uint64_t begin = it->first * kPageBytes;
    if (offset <= begin && begin + kPageBytes <= end) {
      it = pages_.erase(it);
      continue;
    }
    const uint64_t from = std::max(begin, offset);
    const uint64_t to = std::min(begin + kPageBytes, end);
    if (it->second != nullptr) std::memset(it->second->data() + from - begin, 0, to - from);
    ++it;
  }
}

void SparseBytes::CopyTo(int fd, bool allocate_zeros) const {
  Check(::ftruncate(fd, static_cast<off_t>(size_)) == 0, "ftruncate of a crash state");
  for (auto it = pages_.begin(); it != pages_.end();) {
    const uint64_t begin = it->first * kPageBytes;
    if (it->second != nullptr) {
      WriteAt(fd, it->second->data(), std::min(kPageBytes, size_ - begin), begin);
      ++it;
      continue;
    }
    uint64_t end = begin;
    for (; it != pages_.end() && it->second == nullptr && it->first * kPageBytes == end; ++it) {
      end += kPageBytes;
    }
    if (allocate_zeros) {
      Check(::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                        static_cast<off_t>(end - begin)) == 0,
            "fallocate of a crash state");
    }
  }
}

FileModel::~FileModel() {
  if (fd_ >= 0) ::close(fd_);
}

void FileModel::Adopt() {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  Check(fd >= 0, path_.c_str());
  const uint64_t size = SizeOf(fd);
  durable_.Resize(size);
  std::string piece;
  for (off_t begin = 0; !mapped_;) {
    begin = ::lseek(fd, begin, SEEK_DATA);
    if (begin < 0) break;
    const off_t end = ::lseek(fd, begin, SEEK_HOLE);
    piece.resize(static_cast<size_t>(end - begin));
    Check(::pread(fd, piece.data(), piece.size(), begin) == end - begin, path_.c_str());
    const auto offset = static_cast<uint64_t>(begin);
    for (uint64_t done = 0; done < piece.size(); done += kPageBytes) {
      const uint64_t bytes = std::min(kPageBytes, piece.size() - done);
      const bool zero = AllZero(piece.data() + done, bytes);
      durable_.Write(zero ? nullptr : piece.data() + done, bytes, offset + done);
    }
    begin = end;
  }
  ::close(fd);
  if (mapped_) {
    ReadWhole(&synced_bytes_);
    last_bytes_ = synced_bytes_;
  }
}

std::shared_ptr<Change> FileModel::Begin(Change change) {
  if (change.kind == Change::Kind::kWrite && AllZero(change.data.data(), change.data.size())) {
    change.data.clear();
  }
  auto begun = std::make_shared<Change>(std::move(change));
  if (!mapped_ || begun->kind == Change::Kind::kResize) {
    changes_.push_back(begun);
    return begun;
  }
  // What is written into a mapped file shows in the next look; its pages are dirty in any case.
  for (uint64_t page = begun->offset / kPageBytes; page * kPageBytes < begun->offset + begun->size;
       ++page) {
    abandoned_pages_.erase(page);
  }
  return begun;
}

void FileModel::Complete(Change* change, int64_t done_bytes) {
  change->completed = true;
  if (done_bytes < 0) {
    // Some of it may have been done all the same.
    change->doubtful = true;
  } else if (change->kind == Change::Kind::kWrite &&
             static_cast<uint64_t>(done_bytes) < change->size) {
    change->size = static_cast<uint64_t>(done_bytes);
    if (!change->data.empty()) change->data.resize(change->size);
  }
}

FileModel::Flush FileModel::BeginFlush() {
  Flush flush;
  for (const auto& change : changes_) {
    if (change->completed && !change->durable && !change->doubtful) flush.changes.push_back(change);
  }
  if (mapped_) Look();
  flush.look_count = look_base_ + looks_.size();
  return flush;
}

void FileModel::EndFlush(const Flush& flush, bool succeeded) {
  for (const auto& change : flush.changes) {
    if (succeeded) {
      change->durable = true;
    } else {
      change->doubtful = !change->direct;
    }
  }
  if (succeeded) Fold();
  // A flush that began earlier and ends later than another one has nothing to add.
  if (!mapped_ || flush.look_count <= look_base_) return;
  if (succeeded) {
    CommitLooks(flush.look_count);
  } else {
    AbandonPages(flush.look_count);
  }
}

// What the looks below `look_count` have seen is durable now, but for abandoned pages.
void FileModel::CommitLooks(uint64_t look_count) {
  const auto end = looks_.begin() + static_cast<int64_t>(look_count - look_base_);
  std::vector<std::map<uint64_t, Sector>> kept;
  for (auto look = looks_.begin(); look != end; ++look) {
    std::map<uint64_t, Sector> doubtful;
    for (const auto& [sector, bytes] : *look) {
      const uint64_t offset = sector * kSectorBytes;
      if (abandoned_pages_.contains(offset / kPageBytes)) {
        doubtful.emplace(sector, bytes);
        continue;
      }
      synced_bytes_.resize(std::max<uint64_t>(synced_bytes_.size(), offset + kSectorBytes));
      std::memcpy(synced_bytes_.data() + offset, bytes.data(), kSectorBytes);
    }
    if (!doubtful.empty()) kept.push_back(std::move(doubtful));
  }
  looks_.erase(looks_.begin(), end);
  look_base_ = look_count - kept.size();
  looks_.insert(looks_.begin(), kept.begin(), kept.end());
}

void FileModel::AbandonPages(uint64_t look_count) {
  for (uint64_t i = 0; i < look_count - look_base_; ++i) {
    for (const auto& [sector, bytes] : looks_[i]) {
      abandoned_pages_.insert(sector * kSectorBytes / kPageBytes);
    }
  }
}

// Moves the changes that are durable, up to the first one that is not, into the durable bytes.
void FileModel::Fold() {
  size_t count = 0;
  for (; count < changes_.size() && changes_[count]->durable; ++count) {
    const Change& change = *changes_[count];
    switch (change.kind) {
      case Change::Kind::kWrite:
        durable_.Write(change.data.empty() ? nullptr : change.data.data(), change.size,
                       change.offset);
        break;
      case Change::Kind::kPunch:
        durable_.Punch(change.size, change.offset);
        break;
      case Change::Kind::kResize:
        durable_.Resize(change.size);
        break;
    }
  }
  changes_.erase(changes_.begin(), changes_.begin() + static_cast<int64_t>(count));
}

void FileModel::ReadWhole(std::string* bytes) {
  if (fd_ < 0) fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  Check(fd_ >= 0, path_.c_str());
  const uint64_t size = SizeOf(fd_);
  bytes->resize((size + kSectorBytes - 1) / kSectorBytes * kSectorBytes);
  const auto read = [&](std::string* to) {
    Check(::pread(fd_, to->data(), size, 0) == static_cast<ssize_t>(size), path_.c_str());
  };
  read(bytes);
  // Within a cache line a device sees stores in their order, which a copy that is interrupted in
  // the middle does not. It matters for counts, of which there is a page or so.
  std::string again = *bytes;
  while (size <= 4 * kPageBytes) {
    read(&again);
    if (again == *bytes) break;
    bytes->swap(again);
  }
}

void FileModel::Look() {
  std::string bytes;
  ReadWhole(&bytes);
  last_bytes_.resize(bytes.size());
  std::map<uint64_t, Sector> look;
  for (uint64_t page = 0; page < bytes.size(); page += kPageBytes) {
    const uint64_t end = std::min<uint64_t>(page + kPageBytes, bytes.size());
    if (std::memcmp(bytes.data() + page, last_bytes_.data() + page, end - page) == 0) continue;
    abandoned_pages_.erase(page / kPageBytes);
    for (uint64_t at = page; at < end; at += kSectorBytes) {
      if (std::memcmp(bytes.data() + at, last_bytes_.data() + at, kSectorBytes) == 0) continue;
      std::memcpy(look[at / kSectorBytes].data(), bytes.data() + at, kSectorBytes);
    }
  }
  if (look.empty()) return;
  looks_.push_back(std::move(look));
  last_bytes_ = std::move(bytes);
}

std::vector<bool> FileModel::ChooseKept(const CrashBias& bias, Random* random) const {
  std::vector<bool> kept(changes_.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    switch (bias.shape) {
      case CrashBias::Shape::kEach:
        kept[i] = Chance(random, bias.keep);
        break;
      case CrashBias::Shape::kAllButOne:
        kept[i] = true;
        break;
      case CrashBias::Shape::kOnlyNewest:
        kept[i] = i + 1 == kept.size();
        break;
      case CrashBias::Shape::kBefore:
        kept[i] = changes_[i]->id < bias.cut_id;
        break;
    }
  }
  if (bias.shape == CrashBias::Shape::kAllButOne && !kept.empty()) {
    kept[Below(random, kept.size())] = false;
  }
  return kept;
}

void FileModel::CopyCrashed(const CrashBias& bias, Random* random, int fd) const {
  durable_.CopyTo(fd, bias.allocate_zeros);
  const std::vector<bool> kept = ChooseKept(bias, random);
  for (size_t i = 0; i < changes_.size(); ++i) {
    const Change& change = *changes_[i];
    if (!change.durable && !kept[i]) continue;
    if (change.kind == Change::Kind::kResize) {
      Check(::ftruncate(fd, static_cast<off_t>(change.size)) == 0, "ftruncate");
    } else if (!change.durable && Chance(random, bias.tear)) {
      ApplyTorn(change, bias.allocate_zeros, random, fd);
    } else {
      ApplyPart(change, 0, change.size, bias.allocate_zeros, fd);
    }
  }
  if (mapped_) CopyMapped(bias, random, fd);
}

void FileModel::CopyMapped(const CrashBias& bias, Random* random, int fd) const {
  const uint64_t size = SizeOf(fd);
  std::string bytes = synced_bytes_;
  bytes.resize(std::max(bytes.size(), last_bytes_.size()));
  // Every version that a sector had since the last flush.
  std::map<uint64_t, std::vector<const Sector*>> versions;
  for (const auto& look : looks_) {
    for (const auto& [sector, content] : look) versions[sector].push_back(&content);
  }
  // A file that shrank may have its former size again.
  if (!versions.empty()) {
    bytes.resize(std::max<uint64_t>(bytes.size(), (versions.rbegin()->first + 1) * kSectorBytes));
  }
  for (const auto& [sector, contents] : versions) {
    const Sector* chosen = nullptr;
    if (Chance(random, bias.mapped_last)) {
      chosen = contents.back();
    } else if (!Chance(random, bias.mapped_synced)) {
      chosen = contents[Below(random, contents.size())];
    }
    if (chosen != nullptr) {
      std::memcpy(bytes.data() + sector * kSectorBytes, chosen->data(), kSectorBytes);
    }
  }
  for (uint64_t page = 0; page < std::min(size, bytes.size()); page += kPageBytes) {
    const uint64_t length = std::min(kPageBytes, std::min(size, bytes.size()) - page);
    if (!AllZero(bytes.data() + page, length)) WriteAt(fd, bytes.data() + page, length, page);
  }
}

}  // namespace engine_race::test
