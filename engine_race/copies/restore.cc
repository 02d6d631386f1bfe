#include "engine_race/copies/copies.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/shared_progress.h"
#include "engine_race/copies/backup_chain.h"
#include "engine_race/copies/copied_store.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/store_creation.h"

namespace engine_race {
namespace {

// Records between two looks at the progress: at most 1 MiB of values, or one.
uint64_t ProgressRecords(const Geometry& geometry) {
  constexpr uint64_t kProgressBytes = uint64_t{1} << 20;
  return std::clamp<uint64_t>(kProgressBytes / geometry.value_bytes(), 1, 1024);
}

// Checks the records of one bucket, and copies them into `fill` unless that is null.
Status TakeBucket(const BackupChain& chain, uint32_t bucket, SharedProgress* progress,
                  BucketFill* fill) {
  const uint64_t step = ProgressRecords(chain.newest().geometry);
  const uint32_t value_bytes = chain.newest().geometry.value_bytes();
  uint64_t count = 0;
  const auto take = [&](uint64_t key, const char* value) {
    if (fill != nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(fill->Take(bucket, key, value, HashValue(value, value_bytes)));
    }
    return ++count % step == 0 ? progress->Add(step) : Status::Ok();
  };
  ENGINE_RACE_RETURN_IF_ERROR(chain.WalkBucket(bucket, take));
  ENGINE_RACE_RETURN_IF_ERROR(progress->Add(count % step));
  return fill == nullptr ? Status::Ok() : fill->Finish(bucket);
}

// Checks all records of the chain, and copies them into the logs of `to` unless that is null. Sets
// *record_counts, one for each bucket of `to`; the caller writes them there.
Status WalkChain(const BackupChain& chain, const ProgressFn& on_progress, const StoreFiles* to,
                 std::vector<uint64_t>* record_counts) {
  const format::BackupManifest& manifest = chain.newest().manifest;
  SharedProgress progress(on_progress, manifest.record_count);
  ENGINE_RACE_RETURN_IF_ERROR(RunWorkers(
      manifest.bucket_count,
      [&](NumberQueue* queue) {
        std::unique_ptr<BucketFill> fill;
        if (to != nullptr) ENGINE_RACE_RETURN_IF_ERROR(BucketFill::Make(*to, record_counts, &fill));
        for (uint32_t bucket = 0; queue->Take(&bucket);) {
          ENGINE_RACE_RETURN_IF_ERROR(TakeBucket(chain, bucket, &progress, fill.get()));
        }
        return Status::Ok();
      },
      &progress));
  if (progress.done_count() == manifest.record_count) return Status::Ok();
  return Status::Corruption("the backup has " + std::to_string(progress.done_count()) +
                            " records, its manifest counts " +
                            std::to_string(manifest.record_count));
}

}  // namespace

Status RestoreStore(const Options& options, const std::string& backup, const std::string& to,
                    BackupReport* report, const ProgressFn& on_progress) {
  BackupChain chain;
  ENGINE_RACE_RETURN_IF_ERROR(chain.Open(backup));
  Options made = WithGeometryOf(chain.newest().geometry, options);
  made.paths.clear();
  ENGINE_RACE_RETURN_IF_ERROR(ValidateOptions(made));
  ENGINE_RACE_RETURN_IF_ERROR(
      MakeFilledStore(made, to, Publishing::kFromUnfinished, [&](StoreFiles* files) {
        std::vector<uint64_t> record_counts(files->identity.geometry.bucket_count);
        ENGINE_RACE_RETURN_IF_ERROR(WalkChain(chain, on_progress, files, &record_counts));
        return WriteNewCounts(*files, record_counts, /*page_cache_id=*/0);
      }));
  chain.newest().Describe(report);
  return Status::Ok();
}

Status VerifyBackupFiles(const std::string& backup, BackupReport* report,
                         const ProgressFn& on_progress) {
  BackupChain chain;
  ENGINE_RACE_RETURN_IF_ERROR(chain.Open(backup));
  ENGINE_RACE_RETURN_IF_ERROR(WalkChain(chain, on_progress, nullptr, nullptr));
  chain.newest().Describe(report);
  return Status::Ok();
}

}  // namespace engine_race
