#include <fcntl.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine_race/base/key.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/value_layout.h"
#include "engine_race/store.h"
#include "harness/system/child_process.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"
#include "harness/tools/store_command.h"
#include "harness/tools/store_rows.h"

namespace engine_race::harness {
namespace {

using Place = TransferNote::Place;

// What is in memory at once, and what lies between two notes, at most. Or it is one record.
constexpr uint64_t kMaxPieceBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxNoteBytes = uint64_t{512} << 20;

// The transfer, in pieces for values of that size.
Transfer InPiecesFor(Transfer transfer, uint32_t value_bytes) {
  const uint64_t most = std::max<uint64_t>(kMaxPieceBytes / value_bytes, 1);
  transfer.piece_records = std::min(transfer.piece_records, most);
  transfer.note_records = std::min(transfer.note_records, kMaxNoteBytes / value_bytes);
  return transfer;
}

// Opens the store. *told gets its name and its id: another store may come to lie there.
Status OpenStore(const Transfer& transfer, bool read_only, bool creates, uint32_t value_bytes,
                 std::unique_ptr<Store>* store, nlohmann::json* told) {
  Options options = CommandOptions();
  options.value_bytes = value_bytes;
  options.read_only = read_only;
  options.create_if_missing = creates;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, transfer.dir, store));
  StoreIdentity identity;
  ENGINE_RACE_RETURN_IF_ERROR(ReadIdentity(transfer.dir, &identity));
  *told = {{"path", NameOf(transfer.dir)}, {"id", identity.store_id}};
  return Status::Ok();
}

Status CheckKeysFile(const Transfer& transfer) {
  if (!transfer.keys || (IsNpy(transfer.file) && IsNpy(*transfer.keys))) return Status::Ok();
  return Status::InvalidArgument("files of keys are arrays, NAME.npy, and belong to arrays");
}

// Calls `move`, which moves a piece on from *place and says whether it was the last one, until all
// is moved. Notes meanwhile how far it is.
Status MoveAll(const Transfer& transfer, uint64_t total, const ProgressFn& on_progress,
               const std::function<Status(Place* place, bool* is_last)>& move, TransferNote* note,
               TransferReport* report) {
  const uint64_t began_ns = NowNs();
  Place place = note->place();
  const uint64_t before = place.done_count;
  const auto tell = [&] {
    const bool goes_on = on_progress(place.done_count, std::max(total, place.done_count));
    return goes_on ? Status::Ok() : InterruptedStatus();
  };
  Status status = tell();
  for (bool is_last = false; status.ok() && !is_last;) {
    status = move(&place, &is_last);
    if (status.ok()) status = tell();
    const bool is_due = place.done_count - note->place().done_count >= transfer.note_records;
    if (status.ok() && (is_last || is_due)) status = note->Write(place);
  }
  *report = {place.done_count, place.done_count - before, SecondsSince(began_ns)};
  if (status.ok() || place.done_count == note->place().done_count) return status;
  const Status noted = note->Write(place);
  if (noted.ok()) return status;
  // An interrupted call without its note has failed.
  const Code code = status.code() == Code::kIncomplete ? noted.code() : status.code();
  return status.Reworded(code, status.message() + "; no note of it: " + noted.message());
}

// The file of an import, and the file of its keys if it has one.
class Source {
 public:
  // `value_bytes`: those of the store. 0: of a new one, for this to choose.
  Status Open(const Transfer& transfer, uint32_t value_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeysFile(transfer));
    const bool is_npy = IsNpy(transfer.file);
    const bool is_free = value_bytes == 0;
    value_bytes_ = is_free ? kValueBytes : value_bytes;
    ENGINE_RACE_RETURN_IF_ERROR(OpenRows(transfer.file, value_bytes_, &rows_));
    const uint64_t row_values = rows_.row_bytes - (is_npy ? 0 : kKeyBytes);
    if (is_free && !transfer.pads && row_values >= kMinValueBytes && row_values <= kMaxValueBytes) {
      value_bytes_ = static_cast<uint32_t>(row_values);
    }
    if (row_values > value_bytes_ || (row_values < value_bytes_ && !transfer.pads)) {
      return Status::InvalidArgument(
          transfer.file + " has rows of " + std::to_string(row_values) +
          " bytes, and a value has " + std::to_string(value_bytes_) +
          (row_values < value_bytes_ ? "; --pad fills rows with zeros" : ""));
    }
    if (!transfer.keys) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(OpenRows(*transfer.keys, value_bytes_, &keys_));
    const std::string& type = keys_.type;
    has_key_bytes_ = type == "|S8" || type == "|V8";
    if (keys_.row_bytes != kKeyBytes || keys_.dimension_count != 1 ||
        (type != "<u8" && type != "<i8" && !has_key_bytes_)) {
      return Status::InvalidArgument(*transfer.keys + " has items of type '" + Escaped(type) +
                                     "': keys are of '<u8', '<i8' or '|S8', in one dimension");
    }
    if (keys_.count != rows_.count) {
      return Status::InvalidArgument(std::to_string(keys_.count) + " keys for " +
                                     std::to_string(rows_.count) + " rows");
    }
    return type == "<i8" ? CheckSigns(transfer.piece_records) : Status::Ok();
  }

  uint64_t count() const { return rows_.count; }
  // Of the store, or of the one that is to be made.
  uint32_t value_bytes() const { return value_bytes_; }

  Status Read(uint64_t first, uint64_t row_count) {
    first_ = first;
    row_bytes_.resize(row_count * rows_.row_bytes);
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Read(first, row_count, row_bytes_.data()));
    return keys_.fd.valid() ? ReadKeys(first, row_count) : Status::Ok();
  }

  // The record of a row that was read.
  void Get(uint64_t row, uint64_t* key, std::string* value) const {
    const char* from = row_bytes_.data() + (row - first_) * rows_.row_bytes;
    *key = row;
    if (keys_.fd.valid()) {
      const char* const bytes = key_bytes_.data() + (row - first_) * kKeyBytes;
      std::memcpy(key, bytes, sizeof(*key));
      if (has_key_bytes_) *key = DecodeKey(bytes);
    } else if (!IsNpy(rows_.path)) {
      *key = DecodeKey(from);
      from += kKeyBytes;
    }
    value->assign(from, row_bytes_.data() + (row - first_ + 1) * rows_.row_bytes);
    value->resize(value_bytes_);
  }

 private:
  Status ReadKeys(uint64_t first, uint64_t row_count) {
    key_bytes_.resize(row_count * kKeyBytes);
    return keys_.Read(first, row_count, key_bytes_.data());
  }
  Status CheckSigns(uint64_t piece_records) {
    for (uint64_t first = 0; first < count(); first += piece_records) {
      const uint64_t row_count = std::min(piece_records, count() - first);
      ENGINE_RACE_RETURN_IF_ERROR(ReadKeys(first, row_count));
      for (uint64_t row = 0; row < row_count; ++row) {
        // The sign is in the last byte of a little-endian number.
        if ((key_bytes_[row * kKeyBytes + kKeyBytes - 1] & 0x80) == 0) continue;
        return Status::InvalidArgument("record " + std::to_string(first + row) +
                                       ": its key is below 0");
      }
    }
    return Status::Ok();
  }

  RowFile rows_;
  RowFile keys_;
  bool has_key_bytes_ = false;
  uint32_t value_bytes_ = 0;
  uint64_t first_ = 0;
  std::string row_bytes_;
  std::string key_bytes_;
};

// Writes the next piece of an import. Counts what it has written in *place.
Status ImportPiece(uint64_t piece_records, Source* source, Store* store, Place* place) {
  const uint64_t end = std::min(place->done_count + piece_records, source->count());
  ENGINE_RACE_RETURN_IF_ERROR(source->Read(place->done_count, end - place->done_count));
  std::string value;
  for (; place->done_count < end; ++place->done_count) {
    uint64_t key = 0;
    source->Get(place->done_count, &key, &value);
    const Status status = store->Write(KeyBytes(key).view(), value);
    if (!status.ok()) return status.Prefixed("record " + std::to_string(place->done_count) + ": ");
    place->last_key = key;
  }
  return Status::Ok();
}

}  // namespace

Status Import(const Transfer& asked, const ProgressFn& on_progress, TransferReport* report) {
  StoreIdentity identity;
  const Status found = ReadIdentity(asked.dir, &identity);
  if (found.code() != Code::kNotFound) ENGINE_RACE_RETURN_IF_ERROR(found);
  const bool is_own = asked.value_bytes == 0 && found.ok();
  Source source;
  ENGINE_RACE_RETURN_IF_ERROR(
      source.Open(asked, is_own ? identity.geometry.value_bytes() : asked.value_bytes));
  const Transfer transfer = InPiecesFor(asked, source.value_bytes());
  TransferNote note(transfer.file + ".note", "import");
  ENGINE_RACE_RETURN_IF_ERROR(note.Read());
  nlohmann::json told = {{"import", DescribeFile(transfer.file)},
                         {"keys", DescribeFile(transfer.keys)}};
  std::unique_ptr<Store> store;
  // The store of a note was there.
  const bool creates = transfer.creates && !(transfer.resumes && note.is_found());
  ENGINE_RACE_RETURN_IF_ERROR(OpenStore(transfer, /*read_only=*/false, creates,
                                        source.value_bytes(), &store, &told["store"]));
  ENGINE_RACE_RETURN_IF_ERROR(
      note.Begin(std::move(told), transfer.resumes, [&] { return store->Sync(); }));
  // A place where no note can be written is found now.
  ENGINE_RACE_RETURN_IF_ERROR(note.Write(note.place()));
  const auto move = [&](Place* place, bool* is_last) {
    *is_last = place->done_count + transfer.piece_records >= source.count();
    return ImportPiece(transfer.piece_records, &source, store.get(), place);
  };
  ENGINE_RACE_RETURN_IF_ERROR(MoveAll(transfer, source.count(), on_progress, move, &note, report));
  return note.Remove();
}

namespace {

// The files of an export: rows, and keys of their own where those were asked for.
class Target {
 public:
  Target(const Transfer& transfer, uint32_t value_bytes)
      : transfer_(transfer),
        value_bytes_(value_bytes),
        is_npy_(IsNpy(transfer.file)),
        part_(transfer.file + ".part") {}

  // To go on behind `done_count` records. Changes no file that is there.
  Status Open(uint64_t done_count, bool is_begun) {
    const uint64_t row_bytes = (is_npy_ ? 0 : kKeyBytes) + uint64_t{value_bytes_};
    if (transfer_.keys) {
      ENGINE_RACE_RETURN_IF_ERROR(
          keys_.Open(*transfer_.keys, /*is_npy=*/true, kKeyBytes, done_count, is_begun));
    }
    return rows_.Open(part_, is_npy_, row_bytes, done_count, is_begun);
  }

  Status Begin() {
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Begin());
    return keys_.is_open() ? keys_.Begin() : Status::Ok();
  }

  // Writes the records from the iterator's on, a piece at most. Counts them in *place.
  Status Write(Iterator* iterator, Place* place) {
    Place next = *place;
    for (uint64_t count = 0; count < transfer_.piece_records; ++count, iterator->Next()) {
      const std::string_view value = iterator->value();
      if (!iterator->Valid()) break;
      next = {next.done_count + 1, DecodeKey(iterator->key().data())};
      if (!is_npy_) rows_.Add(iterator->key());
      const auto* const bytes = reinterpret_cast<const char*>(&next.last_key);
      if (keys_.is_open()) keys_.Add({bytes, kKeyBytes});
      rows_.Add(value);
    }
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Flush());
    if (keys_.is_open()) ENGINE_RACE_RETURN_IF_ERROR(keys_.Flush());
    *place = next;
    return iterator->status();
  }

  Status Sync() {
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Sync());
    return keys_.is_open() ? keys_.Sync() : Status::Ok();
  }

  // Completes the files. The rows get their name last, and so are there with all of their keys.
  Status Finish() {
    if (keys_.is_open()) {
      ENGINE_RACE_RETURN_IF_ERROR(keys_.Finish("<u8", ""));
      ENGINE_RACE_RETURN_IF_ERROR(SyncDirectoryOf(*transfer_.keys));
    }
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Finish("|u1", " " + std::to_string(value_bytes_)));
    ENGINE_RACE_RETURN_IF_ERROR(sys::RenameToNew(AT_FDCWD, part_, transfer_.file));
    return SyncDirectoryOf(transfer_.file);
  }

 private:
  const Transfer& transfer_;
  const uint32_t value_bytes_;
  const bool is_npy_;
  const std::string part_;
  RowWriter rows_;
  RowWriter keys_;
};

// Checks the names alone. *is_done says that an export was ended when only its note was left to be
// removed.
Status CheckTarget(const Transfer& transfer, bool is_begun, bool* is_done) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckKeysFile(transfer));
  if (transfer.keys && NameOf(*transfer.keys) == NameOf(transfer.file)) {
    return Status::InvalidArgument("rows and keys cannot both be in " + transfer.file);
  }
  bool has_rows = false;
  bool has_part = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, transfer.file, &has_rows));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(AT_FDCWD, transfer.file + ".part", &has_part));
  *is_done = transfer.resumes && is_begun && has_rows && !has_part;
  if (*is_done || !has_rows) return Status::Ok();
  return Status::InvalidArgument(transfer.file + " is there already");
}

// Refuses a store whose keys are not the numbers of its records.
Status CheckKeysAreRowNumbers(Store* store) {
  Iterator iterator;
  ENGINE_RACE_RETURN_IF_ERROR(store->NewIterator({}, &iterator));
  uint64_t row = 0;
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    const uint64_t key = DecodeKey(iterator.key().data());
    if (key == row++) continue;
    return Status::InvalidArgument("key " + std::to_string(key) +
                                   " is not the number of its row: --keys is needed");
  }
  return iterator.status();
}

}  // namespace

Status Export(const Transfer& asked, const ProgressFn& on_progress, TransferReport* report) {
  TransferNote note(asked.file + ".note", "export");
  ENGINE_RACE_RETURN_IF_ERROR(note.Read());
  nlohmann::json told = {{"export", NameOf(asked.file)}, {"keys", nullptr}};
  if (asked.keys) told["keys"] = NameOf(*asked.keys);
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(
      OpenStore(asked, /*read_only=*/true, /*creates=*/false, 0, &store, &told["store"]));
  const uint32_t value_bytes = store->value_bytes();
  const Transfer transfer = InPiecesFor(asked, value_bytes);
  Target target(transfer, value_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(
      note.Begin(std::move(told), transfer.resumes, [&] { return target.Sync(); }));
  bool is_done = false;
  ENGINE_RACE_RETURN_IF_ERROR(CheckTarget(transfer, note.is_begun(), &is_done));
  if (is_done) {
    RowFile rows;
    ENGINE_RACE_RETURN_IF_ERROR(OpenRows(transfer.file, value_bytes, &rows));
    *report = {rows.count, 0, 0};
    ENGINE_RACE_RETURN_IF_ERROR(SyncDirectoryOf(transfer.file));
    return note.Remove();
  }
  if (IsNpy(transfer.file) && !transfer.keys) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckKeysAreRowNumbers(store.get()));
  }
  const Place begin = note.place();
  ENGINE_RACE_RETURN_IF_ERROR(target.Open(begin.done_count, note.is_begun()));
  // Before a file changes, because the note says whose the files are.
  ENGINE_RACE_RETURN_IF_ERROR(note.Write(begin));
  ENGINE_RACE_RETURN_IF_ERROR(target.Begin());
  Iterator iterator;
  ENGINE_RACE_RETURN_IF_ERROR(store->NewIterator({}, &iterator));
  const KeyBytes last_key(begin.last_key);
  iterator.Seek(last_key.view());
  if (begin.done_count > 0 && iterator.key() == last_key.view()) iterator.Next();
  const auto move = [&](Place* place, bool* is_last) {
    const Status moved = target.Write(&iterator, place);
    *is_last = !iterator.Valid();
    return moved;
  };
  const uint64_t total = store->Stats().live_bytes / ValueLayout(value_bytes).slot_bytes();
  ENGINE_RACE_RETURN_IF_ERROR(MoveAll(transfer, total, on_progress, move, &note, report));
  ENGINE_RACE_RETURN_IF_ERROR(target.Finish());
  return note.Remove();
}

int RunTransfer(bool is_import, const Transfer& transfer) {
  const std::string command = is_import ? "import" : "export";
  CatchInterrupts();
  TransferReport report;
  Status status;
  {
    CommandProgress progress(command);
    status = (is_import ? Import : Export)(
        transfer,
        [&](uint64_t done, uint64_t total) { return progress.Note(done, total) && !Interrupted(); },
        &report);
  }
  const double rate =
      report.seconds > 0 ? static_cast<double>(report.moved_count) / report.seconds : 0;
  if (status.ok() || report.moved_count > 0) {
    std::printf("%" PRIu64 " records %sed, %" PRIu64 " of them now, in %.1f s: %.0f records/s\n",
                report.record_count, command.c_str(), report.moved_count, report.seconds, rate);
  }
  if (status.ok()) return kExitDone;
  if (status.code() != Code::kIncomplete) return Refuse(command, transfer.dir, status);
  std::fprintf(stderr, "store %s: interrupted; --resume goes on\n", command.c_str());
  return kExitInterrupted;
}

}  // namespace engine_race::harness
