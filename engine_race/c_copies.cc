// Copies of stores in the C API: checkpoints and backups, and closed stores that are read from end
// to end.

#include <cstring>

#include "engine_race/base/guarded.h"
#include "engine_race/c_handles.h"
#include "engine_race/store.h"
#include "include/engine_race_c.h"

using engine_race::BackupReport;
using engine_race::Guarded;
using engine_race::Status;
using engine_race::Store;
using engine_race::VerifyReport;
using engine_race::c_api::Answer;
using engine_race::c_api::BadArgument;
using engine_race::c_api::CallersProgress;
using engine_race::c_api::IsStructSize;
using engine_race::c_api::NullArgument;
using engine_race::c_api::OptionsOf;
using engine_race::c_api::StoreCall;

namespace {

// As of version 0.9; no padding.
constexpr size_t kReportBytes = 6 * sizeof(uint64_t);
static_assert(sizeof(engine_race_report) == kReportBytes);
constexpr size_t kBackupReportBytes = 5 * sizeof(uint64_t);
static_assert(sizeof(engine_race_backup_report) == kBackupReportBytes);

engine_race_report InC(const VerifyReport& found, size_t struct_bytes) {
  return {struct_bytes,          found.record_count,       found.bad_count,
          found.lost_tail_count, found.index_record_count, found.index_unusable_bucket_count};
}

engine_race_backup_report InC(const BackupReport& found, size_t struct_bytes) {
  return {struct_bytes, found.record_count, found.value_count, found.chain_length,
          found.size_bytes};
}

// Calls call(&found) and copies what it found. `report` may be null; its caller may know a newer
// struct, with more than `least_bytes`.
template <typename Found, typename CReport, typename CallFn>
int Report(CReport* report, size_t least_bytes, const CallFn& call) {
  if (report != nullptr && !IsStructSize(report->struct_bytes, least_bytes)) {
    return BadArgument("struct_bytes of the report is not its size");
  }
  Found found;
  const Status status = Guarded([&] { return call(&found); });
  if (report != nullptr) {
    const size_t struct_bytes = report->struct_bytes;
    // Members that a newer header has are 0.
    std::memset(report, 0, struct_bytes);
    *report = InC(found, struct_bytes);
  }
  return Answer(status);
}

}  // namespace

extern "C" {

int engine_race_checkpoint(engine_race_store* store, const char* directory) {
  if (directory == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Answer(Guarded([&] {
    engine_race::CheckpointOptions how;
    how.on_progress = CallersProgress();
    return call->Checkpoint(directory, how);
  }));
}

int engine_race_backup(engine_race_store* store, const char* directory, const char* since,
                       engine_race_backup_report* report) {
  if (directory == nullptr) return NullArgument();
  const StoreCall call(store);
  if (!call.ok()) return call.Refused();
  return Report<BackupReport>(report, kBackupReportBytes, [&](BackupReport* found) {
    engine_race::BackupOptions how;
    if (since != nullptr) how.since = since;
    how.on_progress = CallersProgress();
    return call->Backup(directory, how, found);
  });
}

int engine_race_restore(const char* backup, const char* to, const engine_race_options* options,
                        engine_race_backup_report* report) {
  if (backup == nullptr || to == nullptr) return NullArgument();
  return Report<BackupReport>(report, kBackupReportBytes, [&](BackupReport* found) {
    return Store::Restore(OptionsOf(options), backup, to, found, CallersProgress());
  });
}

int engine_race_verify_backup(const char* backup, const engine_race_options* options,
                              engine_race_backup_report* report) {
  if (backup == nullptr) return NullArgument();
  return Report<BackupReport>(report, kBackupReportBytes, [&](BackupReport* found) {
    return Store::VerifyBackup(OptionsOf(options), backup, found, CallersProgress());
  });
}

int engine_race_verify(const char* directory, const engine_race_options* options,
                       engine_race_report* report) {
  if (directory == nullptr) return NullArgument();
  return Report<VerifyReport>(report, kReportBytes, [&](VerifyReport* found) {
    return Store::Verify(OptionsOf(options), directory, found, {}, CallersProgress());
  });
}

int engine_race_copy(const char* from, const char* to, const engine_race_options* options,
                     engine_race_report* report) {
  if (from == nullptr || to == nullptr) return NullArgument();
  return Report<VerifyReport>(report, kReportBytes, [&](VerifyReport* found) {
    return Store::Copy(OptionsOf(options), from, to, found, {}, CallersProgress());
  });
}

}  // extern "C"
