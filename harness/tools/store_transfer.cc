#include "harness/tools/store_transfer.h"

#include <fcntl.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/system/child_process.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"
#include "harness/tools/store_command.h"
#include "harness/tools/store_note.h"
#include "harness/tools/store_rows.h"

namespace engine_race::harness {
namespace {

Status OpenStore(const Transfer& transfer, bool read_only, std::unique_ptr<Store>* store) {
  Options options = CommandOptions();
  options.read_only = read_only;
  options.create_if_missing = transfer.creates;
  return Store::Open(options, transfer.dir, store);
}

// Empty where `path` is.
std::string Absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

std::string NotePath(const Transfer& transfer) {
  return transfer.note.empty() ? transfer.file + ".note" : transfer.note;
}

Status CheckKeysFile(const Transfer& transfer) {
  if (transfer.keys.empty() || (IsNpy(transfer.file) && IsNpy(transfer.keys))) return Status::Ok();
  return Status::InvalidArgument("files of keys are arrays, NAME.npy, and belong to arrays");
}

// The file of an import, and the file of its keys if it has one.
class Source {
 public:
  Status Open(const Transfer& transfer) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeysFile(transfer));
    ENGINE_RACE_RETURN_IF_ERROR(OpenRows(transfer.file, &rows_));
    const bool has_records = !IsNpy(transfer.file);
    value_bytes_ = rows_.row_bytes - (has_records ? kKeyBytes : 0);
    if (value_bytes_ > kValueBytes || (value_bytes_ < kValueBytes && !transfer.pads)) {
      return Status::InvalidArgument(
          transfer.file + " has rows of " + std::to_string(value_bytes_) +
          " bytes, and a value has 4096" +
          (value_bytes_ < kValueBytes ? "; --pad fills rows with zeros" : ""));
    }
    if (transfer.keys.empty()) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(OpenRows(transfer.keys, &keys_));
    const std::string& type = keys_.type;
    has_key_bytes_ = type == "|S8" || type == "|V8";
    if (keys_.row_bytes != kKeyBytes || (type != "<u8" && type != "<i8" && !has_key_bytes_)) {
      return Status::InvalidArgument(transfer.keys + " has items of type '" + type +
                                     "': keys are of '<u8', '<i8' or '|S8', in one dimension");
    }
    if (keys_.count == rows_.count) return Status::Ok();
    return Status::InvalidArgument(std::to_string(keys_.count) + " keys for " +
                                   std::to_string(rows_.count) + " rows");
  }

  uint64_t count() const { return rows_.count; }

  Status Read(uint64_t first, uint64_t row_count) {
    first_ = first;
    row_bytes_.resize(row_count * rows_.row_bytes);
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Read(first, row_count, row_bytes_.data()));
    if (!keys_.fd.valid()) return Status::Ok();
    key_bytes_.resize(row_count * kKeyBytes);
    return keys_.Read(first, row_count, key_bytes_.data());
  }

  // The record of a row that was read.
  Status Get(uint64_t row, uint64_t* key, std::string* value) const {
    const char* from = row_bytes_.data() + (row - first_) * rows_.row_bytes;
    *key = row;
    if (keys_.fd.valid()) {
      const char* const bytes = key_bytes_.data() + (row - first_) * kKeyBytes;
      std::memcpy(key, bytes, sizeof(*key));
      if (has_key_bytes_) *key = DecodeKey(bytes);
      if (keys_.type == "<i8" && *key >> 63 != 0) {
        return Status::InvalidArgument("its key is below 0");
      }
    } else if (value_bytes_ < rows_.row_bytes) {
      *key = DecodeKey(from);
      from += kKeyBytes;
    }
    value->assign(from, value_bytes_);
    value->resize(kValueBytes);
    return Status::Ok();
  }

 private:
  RowFile rows_;
  RowFile keys_;
  bool has_key_bytes_ = false;
  uint64_t value_bytes_ = 0;
  uint64_t first_ = 0;
  std::string row_bytes_;
  std::string key_bytes_;
};

// Another store may have come to lie where the noted one lay.
Status CheckNoted(const TransferNote& note, const Source& source, Store* store) {
  if (note.done_count() == 0) return Status::Ok();
  std::string value;
  const Status read = store->Read(KeyBytes(note.last_key()).view(), &value);
  if (note.done_count() <= source.count() && read.code() != Code::kNotFound) return read;
  return Status::InvalidArgument(note.path() + " counts the record of key " +
                                 std::to_string(note.last_key()) +
                                 ", which the store has not; begin without --resume");
}

// Writes the next piece of an import. Counts what it has written in *done_count.
Status ImportPiece(uint64_t piece_records, Source* source, Store* store, uint64_t* done_count,
                   uint64_t* last_key) {
  const uint64_t end = std::min(*done_count + piece_records, source->count());
  ENGINE_RACE_RETURN_IF_ERROR(source->Read(*done_count, end - *done_count));
  std::string value;
  for (; *done_count < end; ++*done_count) {
    uint64_t key = 0;
    Status status = source->Get(*done_count, &key, &value);
    if (status.ok()) status = store->Write(KeyBytes(key).view(), value);
    if (!status.ok()) return status.Prefixed("record " + std::to_string(*done_count) + ": ");
    *last_key = key;
  }
  return Status::Ok();
}

Status Cancelled() { return Status(Code::kIncomplete, "cancelled"); }

}  // namespace

Status Import(const Transfer& transfer, const ProgressFn& on_progress, TransferReport* report) {
  const uint64_t began_ns = NowNs();
  Source source;
  ENGINE_RACE_RETURN_IF_ERROR(source.Open(transfer));
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStore(transfer, /*read_only=*/false, &store));
  TransferNote note(NotePath(transfer), {{"import", DescribeFile(transfer.file)},
                                         {"keys", DescribeFile(transfer.keys)},
                                         {"store", Absolute(transfer.dir)}});
  if (transfer.resumes) ENGINE_RACE_RETURN_IF_ERROR(note.Read());
  ENGINE_RACE_RETURN_IF_ERROR(CheckNoted(note, source, store.get()));
  const uint64_t before = note.done_count();
  uint64_t done = before;
  uint64_t last_key = note.last_key();
  // A place where no note can be written is found now.
  Status status = note.Write(done, last_key);
  const auto write_note = [&] {
    ENGINE_RACE_RETURN_IF_ERROR(store->Sync());
    return note.Write(done, last_key);
  };
  while (status.ok() && done < source.count()) {
    status = ImportPiece(transfer.piece_records, &source, store.get(), &done, &last_key);
    if (status.ok() && !on_progress(done, source.count())) status = Cancelled();
    if (status.ok() && done - note.done_count() >= transfer.note_records) status = write_note();
  }
  if (status.ok()) {
    status = store->Sync();
    if (status.ok()) status = note.Remove();
  } else if (done > note.done_count()) {
    // The first failure is the one that is told.
    static_cast<void>(write_note());
  }
  *report = {done, done - before, SecondsSince(began_ns)};
  return status;
}

namespace {

// The files of an export: rows, and keys of their own where those were asked for.
class Target {
 public:
  explicit Target(const Transfer& transfer)
      : transfer_(transfer), is_npy_(IsNpy(transfer.file)), part_(transfer.file + ".part") {}

  // Goes on behind `done_count` records.
  Status Open(uint64_t done_count) {
    done_count_ = done_count;
    const uint64_t row_bytes = is_npy_ ? kValueBytes : kRecordBytes;
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Open(part_, is_npy_, row_bytes, done_count));
    if (transfer_.keys.empty()) return Status::Ok();
    return keys_.Open(transfer_.keys, /*is_npy=*/true, kKeyBytes, done_count);
  }

  Status Add(std::string_view key_bytes, std::string_view value) {
    const uint64_t key = DecodeKey(key_bytes.data());
    if (!is_npy_) {
      rows_.Add(key_bytes);
    } else if (keys_.is_open()) {
      keys_.Add({reinterpret_cast<const char*>(&key), sizeof(key)});
    } else if (key != done_count_ + pending_count_) {
      return Status::InvalidArgument("key " + std::to_string(key) +
                                     " is not the number of its row: --keys is needed");
    }
    rows_.Add(value);
    pending_key_ = key;
    return ++pending_count_ < transfer_.piece_records ? Status::Ok() : Flush();
  }

  Status Flush() {
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Flush());
    if (keys_.is_open()) ENGINE_RACE_RETURN_IF_ERROR(keys_.Flush());
    if (pending_count_ > 0) last_key_ = pending_key_;
    done_count_ += pending_count_;
    pending_count_ = 0;
    return Status::Ok();
  }

  Status Sync() {
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Sync());
    return keys_.is_open() ? keys_.Sync() : Status::Ok();
  }

  // Completes the files. The rows get their name last, and so are there with all of their keys.
  Status Finish() {
    ENGINE_RACE_RETURN_IF_ERROR(Flush());
    if (keys_.is_open()) ENGINE_RACE_RETURN_IF_ERROR(keys_.Finish("<u8", ""));
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Finish("|u1", " " + std::to_string(kValueBytes)));
    if (keys_.is_open()) ENGINE_RACE_RETURN_IF_ERROR(SyncDirectoryOf(transfer_.keys));
    ENGINE_RACE_RETURN_IF_ERROR(sys::Rename(AT_FDCWD, part_, transfer_.file));
    return SyncDirectoryOf(transfer_.file);
  }

  // Of what was flushed.
  uint64_t done_count() const { return done_count_; }
  uint64_t last_key() const { return last_key_; }

 private:
  const Transfer& transfer_;
  const bool is_npy_;
  const std::string part_;
  RowWriter rows_;
  RowWriter keys_;
  uint64_t done_count_ = 0;
  uint64_t last_key_ = 0;
  uint64_t pending_count_ = 0;
  uint64_t pending_key_ = 0;
};

// No file is replaced, but for the keys of an export that was begun.
Status CheckTarget(const Transfer& transfer, bool is_begun) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckKeysFile(transfer));
  for (const std::string& name : {transfer.file, transfer.keys}) {
    bool exists = false;
    if (!name.empty()) ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, name, &exists));
    if (exists && !(is_begun && name == transfer.keys)) {
      return Status::InvalidArgument(name + " is there already");
    }
  }
  return Status::Ok();
}

}  // namespace

Status Export(const Transfer& transfer, const ProgressFn& on_progress, TransferReport* report) {
  const uint64_t began_ns = NowNs();
  TransferNote note(NotePath(transfer), {{"export", Absolute(transfer.file)},
                                         {"keys", Absolute(transfer.keys)},
                                         {"store", Absolute(transfer.dir)}});
  const Status noted = note.Read();
  if (transfer.resumes) ENGINE_RACE_RETURN_IF_ERROR(noted);
  ENGINE_RACE_RETURN_IF_ERROR(CheckTarget(transfer, note.is_found()));
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStore(transfer, /*read_only=*/true, &store));
  const uint64_t before = transfer.resumes ? note.done_count() : 0;
  const uint64_t total = store->Stats().live_bytes / kValueBytes;
  Target target(transfer);
  // First, because it says whose the files are that are made now.
  ENGINE_RACE_RETURN_IF_ERROR(note.Write(before, note.last_key()));
  ENGINE_RACE_RETURN_IF_ERROR(target.Open(before));
  const auto write_note = [&] {
    ENGINE_RACE_RETURN_IF_ERROR(target.Sync());
    return note.Write(target.done_count(), target.last_key());
  };
  // Takes the next record.
  const auto take = [&](std::string_view key, std::string_view value) {
    const uint64_t done = target.done_count();
    ENGINE_RACE_RETURN_IF_ERROR(target.Add(key, value));
    if (target.done_count() == done) return Status::Ok();
    if (!on_progress(target.done_count(), std::max(total, target.done_count()))) return Cancelled();
    return target.done_count() - note.done_count() < transfer.note_records ? Status::Ok()
                                                                           : write_note();
  };
  Status status;
  const KeyBytes next(note.last_key() + 1);
  if (before == 0 || note.last_key() != ~uint64_t{0}) {
    struct Ended {};
    try {
      const Status ranged = store->Range(before == 0 ? std::string_view() : next.view(), {},
                                         [&](std::string_view key, std::string_view value) {
                                           status = take(key, value);
                                           if (!status.ok()) throw Ended();
                                         });
      if (status.ok()) status = ranged;
    } catch (const Ended&) {
      // Only an exception ends a range before its last record.
    }
  }
  if (status.ok()) status = target.Finish();
  if (status.ok()) {
    status = note.Remove();
  } else if (target.done_count() > note.done_count()) {
    // The first failure is the one that is told.
    static_cast<void>(write_note());
  }
  *report = {target.done_count(), target.done_count() - before, SecondsSince(began_ns)};
  return status;
}

int RunTransfer(bool is_import, const Transfer& transfer) {
  const std::string command = is_import ? "import" : "export";
  CatchInterrupts();
  TransferReport report;
  Status status;
  {
    Reading reading(command);
    status = (is_import ? Import : Export)(
        transfer,
        [&](uint64_t done, uint64_t total) {
          return reading.NoteProgress(done, total) && !Interrupted();
        },
        &report);
  }
  const double rate =
      report.seconds > 0 ? static_cast<double>(report.moved_count) / report.seconds : 0;
  if (status.ok() || report.moved_count > 0) {
    std::printf("%" PRIu64 " records %sed, %" PRIu64 " of them now, in %.1f s: %.0f records/s\n",
                report.record_count, command.c_str(), report.moved_count, report.seconds, rate);
  }
  if (status.ok()) return kExitDone;
  if (!Interrupted()) return Refuse(command, transfer.dir, status);
  std::fprintf(stderr, "store %s: interrupted; --resume goes on\n", command.c_str());
  return kExitInterrupted;
}

}  // namespace engine_race::harness
