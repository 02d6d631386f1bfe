// The part of the door that works on stores which nobody has open.
#include <string>

#include "engine_race/base/guarded.h"
#include "engine_race/copies/copies.h"
#include "engine_race/store.h"

namespace engine_race {

Status Store::Verify(const Options& options, const std::string& dir, VerifyReport* report,
                     const BadRecordFn& on_bad, const ProgressFn& on_progress) {
  if (report == nullptr) return Status::InvalidArgument("the report to fill is null");
  *report = VerifyReport();
  const Status verified =
      Guarded([&] { return VerifyStore(dir, report, on_bad, options, on_progress); });
  if (!verified.ok()) {
    Log(options.log, LogLevel::kError, "verify " + dir + ": " + verified.ToString());
  }
  return verified.ok() ? Status::Ok() : verified.At(dir);
}

Status Store::Copy(const Options& options, const std::string& from, const std::string& to,
                   VerifyReport* report, const BadRecordFn& on_bad, const ProgressFn& on_progress) {
  if (report == nullptr) return Status::InvalidArgument("the report to fill is null");
  *report = VerifyReport();
  const Status copied =
      Guarded([&] { return CopyStore(options, from, to, report, on_bad, on_progress); });
  if (!copied.ok()) {
    Log(options.log, LogLevel::kError, "copy " + from + " to " + to + ": " + copied.ToString());
  }
  return copied;
}

Status Store::Restore(const Options& options, const std::string& backup, const std::string& to,
                      BackupReport* report, const ProgressFn& on_progress) {
  Status restored = Guarded([&] { return RestoreStore(options, backup, to, report, on_progress); });
  if (!restored.ok()) {
    Log(options.log, LogLevel::kError,
        "restore " + backup + " to " + to + ": " + restored.ToString());
  }
  return restored;
}

Status Store::VerifyBackup(const Options& options, const std::string& backup, BackupReport* report,
                           const ProgressFn& on_progress) {
  Status verified = Guarded([&] { return VerifyBackupFiles(backup, report, on_progress); });
  if (!verified.ok()) {
    Log(options.log, LogLevel::kError, "verify backup " + backup + ": " + verified.ToString());
  }
  return verified.ok() ? Status::Ok() : verified.At(backup);
}

}  // namespace engine_race
