#include "engine_race/copies/copies.h"

#include <memory>
#include <vector>

#include "engine_race/copies/copied_store.h"
#include "engine_race/copies/verify.h"
#include "engine_race/log/store_creation.h"
#include "engine_race/log/store_files.h"

namespace engine_race {
namespace {

// MakeFilledStore syncs the files of directories; the devices are left to its caller.
Status SyncDevices(const SlotFiles& slots) {
  for (const ValuePath& path : slots.paths()) {
    if (path.is_device()) ENGINE_RACE_RETURN_IF_ERROR(slots.value_file(path.first_file).Sync());
  }
  return Status::Ok();
}

}  // namespace

Status CopyStore(const Options& options, const std::string& from, const std::string& to,
                 VerifyReport* report, const BadRecordFn& on_bad, const ProgressFn& on_progress) {
  // Its paths are for the copy, which has values of the source's size.
  Options read = options;
  read.paths.clear();
  read.value_bytes = 0;
  StoreFiles source;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFilesToRead(from, &source, read));
  const Options copied = WithGeometryOf(source.identity.geometry, options);
  ENGINE_RACE_RETURN_IF_ERROR(ValidateOptions(copied));
  return MakeFilledStore(copied, to, Publishing::kUsual, [&](StoreFiles* copy) {
    std::vector<uint64_t> record_counts(copy->identity.geometry.bucket_count);
    const auto make_sink = [&](std::unique_ptr<RecordSink>* sink) {
      return BucketFill::Make(*copy, &record_counts, sink);
    };
    ENGINE_RACE_RETURN_IF_ERROR(VerifyFiles(source, report, on_bad, make_sink, on_progress));
    ENGINE_RACE_RETURN_IF_ERROR(WriteNewCounts(*copy, record_counts, /*page_cache_id=*/0));
    return SyncDevices(copy->slots);
  });
}

}  // namespace engine_race
