#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine_race/base/key.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "harness/tools/store_command.h"

namespace engine_race::harness {
namespace {

constexpr char kKeyHelp[] =
    "auto: 0x and digits are hexadecimal, digits alone decimal, all else is 8 bytes of text; a "
    "number is the key whose bytes it is, read big-endian";

struct CloseFile {
  void operator()(FILE* file) const { static_cast<void>(std::fclose(file)); }
};
using File = std::unique_ptr<FILE, CloseFile>;

KeyFormat FormatOf(const RecordFlags& flags) {
  const auto name = std::find(kKeyFormatNames.begin(), kKeyFormatNames.end(), flags.key_format);
  return static_cast<KeyFormat>(name - kKeyFormatNames.begin());
}

// The first bytes of a value, without the zeros at its end.
std::string ValueText(std::string_view value) {
  constexpr size_t kMostBytes = 64;
  const std::string_view whole = value.substr(0, value.find_last_not_of('\0') + 1);
  return Escaped(whole.substr(0, kMostBytes)) + (whole.size() > kMostBytes ? "..." : "");
}

// Prints a line about a record: of its key alone where there is no value.
Status PrintRecord(const RecordFlags& flags, uint64_t key, std::string_view value) {
  if (!flags.json) {
    const std::string text = value.empty() ? "" : "  " + ValueText(value);
    return Print(KeyText(key, FormatOf(flags)) + text + "\n");
  }
  nlohmann::ordered_json json = {{"key", KeyText(key, KeyFormat::kHex)}};
  if (!value.empty()) json["value"] = HexOf(value);
  return Print(json.dump() + "\n");
}

// Reads at most a byte more than a value has.
Status ReadValueFile(const std::optional<std::string>& path, uint32_t value_bytes,
                     std::string* value) {
  const File opened(path ? std::fopen(path->c_str(), "rb") : nullptr);
  if (path && !opened) return Status::FromErrno("open " + *path, errno);
  FILE* const file = opened ? opened.get() : stdin;
  value->resize(value_bytes + 1);
  value->resize(std::fread(value->data(), 1, value->size(), file));
  if (std::ferror(file) == 0) return Status::Ok();
  return Status::FromErrno("read " + path.value_or("standard input"), errno);
}

Status ReadValue(const RecordFlags& flags, uint32_t value_bytes, std::string* value) {
  if (flags.in_shell && !flags.file && !flags.text) {
    return Status::InvalidArgument("a FILE or --value is needed");
  }
  if (flags.text) {
    *value = *flags.text;
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(ReadValueFile(flags.file, value_bytes, value));
  }
  const std::string wrong = "a value has " + std::to_string(value_bytes) + " bytes, and this one ";
  if (value->size() > value_bytes) return Status::InvalidArgument(wrong + "has more");
  if (value->size() < value_bytes && !flags.pads) {
    return Status::InvalidArgument(wrong + "has " + std::to_string(value->size()) +
                                   "; --pad adds zeros");
  }
  value->resize(value_bytes);
  return Status::Ok();
}

Status WriteValueFile(const std::string& path, std::string_view value) {
  const File file(std::fopen(path.c_str(), "wb"));
  if (!file) return Status::FromErrno("open " + path, errno);
  const bool is_written = std::fwrite(value.data(), 1, value.size(), file.get()) == value.size();
  if (is_written && std::fflush(file.get()) == 0) return Status::Ok();
  return Status::FromErrno("write " + path, errno);
}

// What a command does with an open store. A key that is not there is kNotFound, with a message.
using Action = Status (*)(const RecordFlags& flags, Store* store);

Status ReadKey(const RecordFlags& flags, Store* store, uint64_t key, std::string* value) {
  const Status read = store->Read(KeyBytes(key).view(), value);
  if (read.code() != Code::kNotFound) return read;
  return read.Reworded(Code::kNotFound, "key " + KeyText(key, FormatOf(flags)) + " is not there");
}

Status Get(const RecordFlags& flags, Store* store) {
  uint64_t key = 0;
  std::string value;
  ENGINE_RACE_RETURN_IF_ERROR(ParseKey(flags.key, FormatOf(flags), &key));
  ENGINE_RACE_RETURN_IF_ERROR(ReadKey(flags, store, key, &value));
  if (flags.file) return WriteValueFile(*flags.file, value);
  return flags.json || flags.in_shell ? PrintRecord(flags, key, value) : Print(value);
}

Status Put(const RecordFlags& flags, Store* store) {
  uint64_t key = 0;
  std::string value;
  ENGINE_RACE_RETURN_IF_ERROR(ParseKey(flags.key, FormatOf(flags), &key));
  ENGINE_RACE_RETURN_IF_ERROR(ReadValue(flags, store->value_bytes(), &value));
  ENGINE_RACE_RETURN_IF_ERROR(store->Write(KeyBytes(key).view(), value));
  return store->Sync();
}

// Deletes all keys that are there, and tells of the first one that is not.
Status Delete(const RecordFlags& flags, Store* store) {
  std::vector<uint64_t> keys;
  for (const std::string& text : flags.keys) {
    ENGINE_RACE_RETURN_IF_ERROR(ParseKey(text, FormatOf(flags), &keys.emplace_back()));
  }
  Status missing;
  std::string value;
  for (const uint64_t key : keys) {
    Status status = ReadKey(flags, store, key, &value);
    if (status.code() == Code::kNotFound) {
      if (missing.ok()) missing = std::move(status);
      continue;
    }
    // A damaged record can be deleted.
    if (!status.ok() && status.code() != Code::kCorruption) return status;
    ENGINE_RACE_RETURN_IF_ERROR(store->Delete(KeyBytes(key).view()));
  }
  ENGINE_RACE_RETURN_IF_ERROR(store->Sync());
  return missing;
}

// Walks over the range and calls `visit`, which says whether to go on, at each record.
template <typename VisitFn>
Status Walk(const RecordFlags& flags, Store* store, const VisitFn& visit) {
  std::string from;
  std::string to;
  for (const auto& [given, bound] : {std::pair(&flags.from, &from), std::pair(&flags.to, &to)}) {
    uint64_t key = 0;
    if (!*given) continue;
    ENGINE_RACE_RETURN_IF_ERROR(ParseKey(**given, FormatOf(flags), &key));
    *bound = KeyBytes(key).view();
  }
  IteratorOptions options;
  options.lower_bound = from;
  options.upper_bound = to;
  Iterator iterator;
  ENGINE_RACE_RETURN_IF_ERROR(store->NewIterator(options, &iterator));
  flags.reverse ? iterator.SeekToLast() : iterator.SeekToFirst();
  while (iterator.Valid() && visit(&iterator)) {
    flags.reverse ? iterator.Prev() : iterator.Next();
  }
  return iterator.status();
}

Status Scan(const RecordFlags& flags, Store* store) {
  uint64_t count = 0;
  Status printed;
  const Status walked = Walk(flags, store, [&](Iterator* iterator) {
    const uint64_t key = DecodeKey(iterator->key().data());
    const std::string_view value = flags.keys_only ? std::string_view() : iterator->value();
    if (!iterator->Valid()) return false;
    printed = PrintRecord(flags, key, value);
    return ++count != flags.limit && printed.ok();
  });
  return walked.ok() ? printed : walked;
}

Status Count(const RecordFlags& flags, Store* store) {
  uint64_t count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Walk(flags, store, [&](Iterator*) { return ++count != 0; }));
  const std::string text = std::to_string(count);
  return Print((flags.json ? "{\"count\":" + text + "}" : text) + "\n");
}

struct Command {
  const char* name;
  const char* help;
  Action action;
  bool writes;
};

constexpr std::array<Command, 5> kCommands = {{
    {"get", "write the value of a key to standard output or a file", Get, false},
    {"put", "store a value under a key", Put, true},
    {"delete", "delete keys", Delete, true},
    {"scan", "print the records of a range in order of key", Scan, false},
    {"count", "print how many records a range has", Count, false},
}};

}  // namespace

void AddValueSize(CLI::App* app, uint32_t* value_bytes, const std::string& what) {
  app->add_option("--value_size", *value_bytes,
                  "the size of the values " + what + " " + std::to_string(kValueBytes))
      ->check(CLI::Range(kMinValueBytes, kMaxValueBytes));
}

void AddRecordCommands(CLI::App* app, RecordFlags* flags) {
  for (const Command& command : kCommands) {
    CLI::App* const added = app->add_subcommand(command.name, command.help);
    if (!flags->in_shell) added->add_option("DIR", flags->dir, "the store")->required();
    if (command.action == Scan || command.action == Count) {
      added->add_option("--from", flags->from, "the first key; by default the store's");
      added->add_option("--to", flags->to, "the key before which the range ends");
    } else if (command.action == Delete) {
      added->add_option("KEY", flags->keys, "the keys")->required();
    } else {
      added->add_option("KEY", flags->key, "the key")->required();
    }
    added->add_option("--key_format", flags->key_format, kKeyHelp)
        ->check(OneOf("format", kKeyFormatNames));
    if (!command.writes) {
      added->add_flag("--json", flags->json, "a line of JSON: key and value in hexadecimal");
    }
  }
  CLI::App* const get = app->get_subcommand("get");
  get->add_option("--out", flags->file, "the file that is to have the value");
  CLI::App* const put = app->get_subcommand("put");
  CLI::Option* const file = put->add_option(
      "FILE", flags->file,
      flags->in_shell ? "has the value" : "has the value; by default standard input");
  put->add_option("--value", flags->text, "the value itself, instead")->excludes(file);
  put->add_flag("--pad", flags->pads, "fill a value that is too short with zeros");
  if (!flags->in_shell) {
    put->add_flag("--create", flags->creates, "make the store if need be");
    AddValueSize(put, &flags->value_bytes, "of a store that is made; by default");
  }
  CLI::App* const scan = app->get_subcommand("scan");
  scan->add_option("--limit", flags->limit, "print so many records at most");
  scan->add_flag("--keys-only", flags->keys_only, "print no values");
  scan->add_flag("--reverse", flags->reverse, "begin with the last key");
}

std::optional<int> RunRecordCommand(const CLI::App& app, const RecordFlags& flags,
                                    Store* open_store) {
  const auto* const command =
      std::find_if(kCommands.begin(), kCommands.end(),
                   [&](const Command& one) { return app.got_subcommand(one.name); });
  if (command == kCommands.end()) return std::nullopt;
  std::unique_ptr<Store> own_store;
  if (open_store == nullptr) {
    Options options = CommandOptions();
    options.read_only = !command->writes;
    options.create_if_missing = flags.creates;
    options.value_bytes = flags.value_bytes;
    const Status opened = Store::Open(options, flags.dir, &own_store);
    if (!opened.ok()) return Refuse(command->name, flags.dir, opened);
    open_store = own_store.get();
  }
  Status status = command->action(flags, open_store);
  const Status flushed = FlushOutput();
  if (status.ok()) status = flushed;
  if (status.ok()) return kExitDone;
  if (status.code() != Code::kNotFound) return Refuse(command->name, flags.dir, status);
  Refuse("store " + std::string(command->name), flags.dir + ": " + status.message());
  return kExitFailure;
}

}  // namespace engine_race::harness
