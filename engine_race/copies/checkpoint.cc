#include "engine_race/copies/copies.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine_race/copies/copied_store.h"
#include "engine_race/copies/log_clone.h"
#include "engine_race/copies/view_walk.h"
#include "engine_race/log/store_creation.h"
#include "engine_race/scan/snapshot.h"

namespace engine_race {
namespace {

Status CopyRecords(const Options& options, const BucketLog& log, EnsureIndexFn ensure_index,
                   const ProgressFn& on_progress, StoreFiles* to, bool* is_stale) {
  Index* index = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(ensure_index(&index));
  ViewRegistry::View view;
  ENGINE_RACE_RETURN_IF_ERROR(index->views().Take(&view));
  const Snapshot pinned(view);
  std::vector<uint64_t> record_counts(log.geometry().bucket_count);
  const auto make_sink = [&](std::unique_ptr<ViewSink>* sink) {
    return BucketFill::Make(*to, &record_counts, sink);
  };
  ENGINE_RACE_RETURN_IF_ERROR(
      WalkView(log, *index, options, view.version, on_progress, make_sink, is_stale));
  return WriteNewCounts(*to, record_counts, /*page_cache_id=*/0);
}

// *cloned: false where the files cannot be cloned, and nothing was done.
Status CloneRecords(const Options& options, BucketLog* log, StoreFiles* to, bool* cloned) {
  ENGINE_RACE_RETURN_IF_ERROR(CanCloneLogs(log->files(), *to, cloned));
  if (!*cloned) return Status::Ok();
  // Before the cut: its records stay where they are.
  const std::vector<CutPin> pins = log->PinRows();
  std::vector<uint64_t> record_counts;
  std::vector<SlotTable> tables;
  ENGINE_RACE_RETURN_IF_ERROR(log->TakeCut(&record_counts, &tables));
  // Brings every record of the cut into the logs.
  ENGINE_RACE_RETURN_IF_ERROR(log->Sync());
  ENGINE_RACE_RETURN_IF_ERROR(
      CloneLogs(log->files(), record_counts, std::move(tables), options.file_mode, to));
  return log->CheckNoFailure();
}

}  // namespace

Status MakeCheckpoint(const Options& options, BucketLog* log, EnsureIndexFn ensure_index,
                      const std::string& dir, const CheckpointOptions& how) {
  Options made = WithGeometryOf(log->geometry(), options);
  made.paths.clear();
  made.read_only = false;
  // Shared logs must hold all records, and a store that is only read may have some staged.
  const bool clones = how.reflink && !options.read_only;
  return WithFreshViews([&](bool* is_stale) {
    return MakeFilledStore(made, dir, Publishing::kFromUnfinished, [&](StoreFiles* to) {
      bool cloned = false;
      if (clones) ENGINE_RACE_RETURN_IF_ERROR(CloneRecords(options, log, to, &cloned));
      return cloned ? Status::Ok()
                    : CopyRecords(options, *log, ensure_index, how.on_progress, to, is_stale);
    });
  });
}

}  // namespace engine_race
