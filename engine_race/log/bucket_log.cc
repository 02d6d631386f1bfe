#include "engine_race/log/bucket_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/base/memory_limit.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/recovery.h"
#include "engine_race/log/value_paths.h"

namespace engine_race {
namespace {

Status NotRecovered(const Status& opened, const Status& recovered) {
  return recovered.Reworded(Code::kIncomplete,
                            opened.message() + ". Its recovery failed: " + recovered.message());
}

}  // namespace

BucketLog::BucketLog(const Options& options, StoreFiles files,
                     const numa::StorePlacement& placement)
    : context_(options, std::move(files), placement),
      writer_(&context_),
      groups_(&context_, &writer_),
      batches_(&context_, &groups_),
      queue_(&batches_),
      reader_(&context_),
      syncer_(&context_, &writer_, &groups_),
      large_batches_(&context_, &writer_, &groups_, &batches_, &syncer_),
      mover_(&context_, &writer_, &reader_, &syncer_),
      failed_backends_(options.log) {}

// Recovers the log under the store's memory policy, because pages of counts and staged records
// enter the page cache there. The opening of files logs what it finds, so it keeps the caller's
// policy.
Status BucketLog::OpenPlaced(Opening opening, const Options& options, const std::string& dir,
                             numa::StorePlacement* placement, std::unique_ptr<BucketLog>* log) {
  StoreFiles files;
  DirectoryLock::Sight sight;
  ENGINE_RACE_RETURN_IF_ERROR(
      opening == Opening::kWriting      ? OpenStoreFiles(options, dir, &files, placement->memory())
      : opening == Opening::kFollowing  ? OpenStoreFilesToFollow(dir, &files, options, &sight)
      : opening == Opening::kRecovering ? OpenStoreFilesToRecover(dir, &files, options)
                                        : OpenStoreFilesToRead(dir, &files, options));
  std::vector<dev_t> devices;
  ENGINE_RACE_RETURN_IF_ERROR(DevicesOf(files, &devices));
  placement->PlaceThreads(devices, options.log);
  std::unique_ptr<BucketLog> opened(new BucketLog(options, std::move(files), *placement));
  const PolicyScope scope(placement->memory());
  Recovery recovery(&opened->context_, &opened->writer_, &opened->groups_);
  if (options.read_only) {
    ENGINE_RACE_RETURN_IF_ERROR(opening == Opening::kFollowing
                                    ? opened->Follow(sight, dir, &recovery)
                                    : recovery.Run(opening == Opening::kReading));
    *log = std::move(opened);
    return Status::Ok();
  }
  opened->context_.staging.Start(options.staging_mode, MemoryLimit(), options.log,
                                 placement->memory());
  SpaceReserve& reserve = opened->context_.reserve;
  reserve.Adopt();
  ENGINE_RACE_RETURN_IF_ERROR(opened->writer_.Init());
  ENGINE_RACE_RETURN_IF_ERROR(recovery.Run());
  opened->mover_.AdoptMoves();
  if (opening == Opening::kWriting) {
    uint64_t opening_id = 0;
    ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(&opening_id));
    const Status noted = opened->context_.files.lock.NoteComplete(opening_id | 1);
    if (!noted.ok()) {
      Log(options.log, LogLevel::kWarning, "no store can follow this one: " + noted.ToString());
    }
  }
  // Not before: on a full disk it would take what the recovery needs.
  reserve.Prepare();
  opened->syncer_.NoteOpened();
  *log = std::move(opened);
  return Status::Ok();
}

Status BucketLog::OpenAs(Opening opening, const Options& options, const std::string& dir,
                         std::unique_ptr<BucketLog>* log) {
  // An unknown node is refused before any file is made.
  numa::StorePlacement placement;
  ENGINE_RACE_RETURN_IF_ERROR(numa::StorePlacement::Plan(options, &placement));
  std::unique_ptr<BucketLog> opened;
  ENGINE_RACE_RETURN_IF_ERROR(OpenPlaced(opening, options, dir, &placement, &opened));
  Journal* journal = nullptr;
  const Status durable = opened->syncer_.EnsureJournal(&journal);
  if (!durable.ok()) {
    Log(options.log, LogLevel::kWarning, "open for reading only, for now: " + durable.ToString());
  }
  *log = std::move(opened);
  return Status::Ok();
}

// Recovers a store that is to be read, by an opening for writing. EAGAIN: another process has it.
Status BucketLog::RecoverToRead(const Options& options, const std::string& dir) {
  Options writing = options;
  writing.read_only = writing.follow = false;
  // Nothing is staged, so nothing need be mapped.
  writing.staging_mode = StagingMode::kWritten;
  std::unique_ptr<BucketLog> recovering;
  ENGINE_RACE_RETURN_IF_ERROR(OpenAs(Opening::kRecovering, writing, dir, &recovering));
  return recovering->CheckNoFailure();
}

// Opens a store for reading only after it has been kIncomplete. Recovers it first, unless another
// opening has done so.
Status BucketLog::OpenRecovered(const Options& options, const std::string& dir,
                                std::unique_ptr<BucketLog>* log) {
  using Clock = std::chrono::steady_clock;
  constexpr Clock::duration kMaxPause = std::chrono::seconds(1);
  const Clock::time_point end = Clock::now() + DirectoryLock::kPatience;
  for (Clock::duration pause = DirectoryLock::kRetryInterval;; pause *= 2) {
    const Status recovered = RecoverToRead(options, dir);
    // Another opening looks whether the store needs a recovery, or recovers it.
    const Clock::time_point begin = Clock::now();
    const bool is_held = recovered.error() == EAGAIN && begin < end;
    const Opening opening = is_held ? Opening::kReadingUndoubted : Opening::kReading;
    Status opened = OpenAs(opening, options, dir, log);
    if (opened.code() != Code::kIncomplete || recovered.ok()) return opened;
    if (!is_held) return NotRecovered(opened, recovered);
    // Each look keeps others from the recovery. So the pauses are longer than the looks, and
    // differ.
    pause = std::max(std::min(pause, kMaxPause), 4 * (Clock::now() - begin));
    std::this_thread::sleep_for(pause + Clock::now().time_since_epoch() % pause);
  }
}

// Takes over what is there, as `sight` says. kBusy: a writer has come or gone meanwhile, so it may
// be anything.
Status BucketLog::Follow(const DirectoryLock::Sight& sight, const std::string& dir,
                         Recovery* recovery) {
  // The process may have another working directory later.
  std::vector<std::string> absolute;
  ENGINE_RACE_RETURN_IF_ERROR(AbsoluteNames({dir}, &absolute));
  follower_ = std::make_unique<Follower>(&context_, absolute.front());
  const bool is_written = sight.writer == DirectoryLock::Writer::kComplete;
  Status adopted = is_written ? follower_->AdoptWritten() : recovery->Run();
  ENGINE_RACE_RETURN_IF_ERROR(follower_->End(sight));
  // Nobody else recovers a store that is open for writing.
  return is_written && adopted.code() == Code::kIncomplete
             ? adopted.Reworded(Code::kIOError, adopted.message())
             : adopted;
}

// Opens a store beside a writer, and without any lock but for a recovery.
Status BucketLog::OpenFollowing(const Options& options, const std::string& dir,
                                std::unique_ptr<BucketLog>* log) {
  const auto end = std::chrono::steady_clock::now() + DirectoryLock::kPatience;
  while (true) {
    Status opened = OpenAs(Opening::kFollowing, options, dir, log);
    if (opened.code() != Code::kBusy && opened.code() != Code::kIncomplete) return opened;
    if (opened.code() == Code::kIncomplete) {
      const Status recovered = RecoverToRead(options, dir);
      if (!recovered.ok() && recovered.error() != EAGAIN) return NotRecovered(opened, recovered);
    }
    if (std::chrono::steady_clock::now() >= end) {
      return Status::IOError("other processes have been opening the store for a minute");
    }
    std::this_thread::sleep_for(DirectoryLock::kRetryInterval);
  }
}

Status BucketLog::Refresh(std::vector<uint32_t>* reset) {
  if (follower_ != nullptr) return follower_->Refresh(reset);
  return Status(Code::kNotSupported, "the store was not opened with Options::follow");
}

Status BucketLog::Outrun() {
  return Status::IOError("the writer of the store uses slots again faster than they are read");
}

BucketLog::~BucketLog() {
  syncer_.Close();
  // An opening that has failed may not know all places.
  if (syncer_.is_opened() && !context_.latch.latched()) {
    context_.files.slots.CutFreeEnds(/*exactly=*/true);
  }
}

Status BucketLog::Open(const Options& options, const std::string& dir,
                       std::unique_ptr<BucketLog>* log) {
  if (options.follow) return OpenFollowing(options, dir, log);
  if (!options.read_only) return OpenAs(Opening::kWriting, options, dir, log);
  Status opened = OpenAs(Opening::kReading, options, dir, log);
  if (opened.code() != Code::kIncomplete) return opened;
  return OpenRecovered(options, dir, log);
}

uint64_t BucketLog::RecordCount() const {
  uint64_t count = 0;
  for (uint32_t b = 0; b < geometry().bucket_count; ++b) count += RecordCount(b);
  return count;
}

std::vector<CutPin> BucketLog::PinRows() {
  std::vector<CutPin> pins;
  pins.reserve(context_.buckets.size());
  for (Bucket& bucket : context_.buckets) {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    pins.emplace_back(&bucket.cut_count);
  }
  return pins;
}

// After a failure the rows of the page cache need not be those of the device.
Status BucketLog::FlushRows() {
  // Acquire pairs with the release in RowKeeper::EnsureFile.
  if (!context_.has_row_file.load(std::memory_order_acquire)) return Status::Ok();
  if (context_.latch.latched()) return context_.latch.status();
  return writer_.FlushRows();
}

Status BucketLog::CheckNoFailure() const {
  const bool has_failed = context_.latch.latched() && !context_.options.read_only;
  return has_failed ? context_.latch.status() : Status::Ok();
}

bool BucketLog::HasNoted(uint64_t backup_id) const {
  const std::lock_guard<std::mutex> lock(context_.manifest_mutex);
  const auto& noted = context_.files.identity.noted_backups;
  return std::find(noted.begin(), noted.end(), backup_id) != noted.end();
}

Status BucketLog::NoteBackup(uint64_t backup_id, uint64_t parent_id) {
  const std::lock_guard<std::mutex> lock(context_.manifest_mutex);
  return context_.reserve.Write([&] {
    return WriteNoteOfBackup(directory_fd(), context_.options.file_mode, backup_id, parent_id,
                             &context_.files.identity);
  });
}

void BucketLog::GiveBackStaging(uint32_t number) noexcept {
  Bucket& bucket = context_.buckets[number];
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    // After a failure a record may count on disk that does not count here.
    if (bucket.damaged || context_.latch.latched() || !bucket.IsStagingIdle()) return;
    // A hole would hide entries that a killed batch has left, and a loss of power bring them back.
    if (!bucket.may_stage && !Guarded([&] { return groups_.PrepareStaging(number); }).ok()) return;
    context_.staging.GiveBack(number);
  }
  context_.reserve.TakeBack(/*has_released=*/true);
}

Status BucketLog::KeepCleanAt(uint32_t bucket, uint64_t record_count) noexcept {
  return Guarded([&] {
    Status kept = context_.staging.ReserveCounts();
    if (kept.ok()) {
      kept = context_.staging.WriteWord(bucket, format::WordKind::kCleanAt, record_count);
    }
    if (!kept.ok()) {
      Log(context_.options.log, LogLevel::kWarning,
          "reclaim: when a bucket is to be cleaned is not kept: " + kept.ToString());
    }
    return kept;
  });
}

AppendStatus BucketLog::Append(uint64_t key, const char* value) noexcept {
  const uint32_t bucket = geometry().BucketOf(key);
  Journal* journal = nullptr;
  Status begun = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(groups_.BeginAppend(bucket));
    return syncer_.EnsureJournal(&journal);
  });
  if (!begun.ok()) [[unlikely]] {
    return begun;
  }
  return groups_.Append(bucket, key, value, journal);
}

// A failure means that nothing was appended, or that writing has ended: a batch is Ok once it is
// committed.
AppendStatus BucketLog::Write(const WriteBatch& batch) noexcept {
  if (batch.empty()) return Status::Ok();
  if (batch.size() == 1) return Append(batch.records()[0].key, batch.records()[0].value);
  return Guarded([&] {
    Journal* journal = nullptr;
    ENGINE_RACE_RETURN_IF_ERROR(syncer_.EnsureJournal(&journal));
    bool too_large = false;
    // A leader that waits for the buckets of a large batch would let all others wait. So they go by
    // themselves then.
    const bool shares_flushes =
        context_.options.sync_mode == SyncMode::kGroup && !large_batches_.any_under_way();
    ENGINE_RACE_RETURN_IF_ERROR(shares_flushes
                                    ? queue_.Write(batch.records(), journal, &too_large)
                                    : batches_.Write(batch.records(), journal, &too_large));
    return too_large ? large_batches_.Write(batch.records()) : Status::Ok();
  });
}

}  // namespace engine_race
