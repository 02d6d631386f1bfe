#include "engine_race/base/named_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/base/nearest_name.h"

namespace engine_race {
namespace {

// Texts and values. Parse is false for a text that is no value of its type.

bool ParseDigits(std::string_view text, uint64_t* value) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  } else if (text.size() > 1 && text.starts_with('0')) {
    base = 8;
  }
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value, base);
  return error == std::errc() && at == end;
}

bool Parse(std::string_view text, uint64_t* value) {
  constexpr std::string_view kUnits = "kmgt";
  uint32_t shift = 0;
  if (!text.empty()) {
    const size_t unit = kUnits.find(static_cast<char>(text.back() | 0x20));
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<uint32_t>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  uint64_t number = 0;
  if (!ParseDigits(text, &number)) return false;
  if (shift > 0 && number > ~uint64_t{0} >> shift) return false;
  *value = number << shift;
  return true;
}

bool Parse(std::string_view text, uint32_t* value) {
  uint64_t number = 0;
  if (!Parse(text, &number)) return false;
  if (number > std::numeric_limits<uint32_t>::max()) return false;
  *value = static_cast<uint32_t>(number);
  return true;
}

bool Parse(std::string_view text, bool* value) {
  if (text != "true" && text != "false") return false;
  *value = text == "true";
  return true;
}

std::string Print(uint64_t value) { return std::to_string(value); }
std::string Print(uint32_t value) { return std::to_string(value); }
std::string Print(bool value) { return value ? "true" : "false"; }

// A colon ends a path. A backslash takes the next character as it is: names of devices have colons.
constexpr char kPathEnd = ':';
constexpr char kEscape = '\\';

bool Parse(std::string_view text, std::vector<std::string>* paths) {
  std::vector<std::string> parsed;
  if (!text.empty()) parsed.emplace_back();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kPathEnd) {
      parsed.emplace_back();
      continue;
    }
    if (text[i] == kEscape && ++i == text.size()) return false;
    parsed.back() += text[i];
  }
  if (std::any_of(parsed.begin(), parsed.end(), [](const auto& path) { return path.empty(); })) {
    return false;
  }
  *paths = std::move(parsed);
  return true;
}

std::string Print(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    if (!text.empty()) text += kPathEnd;
    for (const char c : path) {
      if (c == kPathEnd || c == kEscape) text += kEscape;
      text += c;
    }
  }
  return text;
}

bool Parse(std::string_view text, std::optional<KeyRange>* range) {
  if (text.empty()) {
    range->reset();
    return true;
  }
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  KeyRange parsed;
  if (!ParseDigits(text.substr(0, dash), &parsed.first)) return false;
  if (!ParseDigits(text.substr(dash + 1), &parsed.last)) return false;
  *range = parsed;
  return true;
}

std::string Print(const std::optional<KeyRange>& range) { return range ? ToString(*range) : ""; }

template <typename Enum>
struct NamedValue {
  std::string_view name;
  Enum value;
};

constexpr NamedValue<IoBackend> kIoBackends[] = {{"auto", IoBackend::kAuto},
                                                 {"psync", IoBackend::kPsync},
                                                 {"libaio", IoBackend::kLibaio},
                                                 {"io_uring", IoBackend::kIoUring}};
constexpr NamedValue<SyncMode> kSyncModes[] = {
    {"none", SyncMode::kNone}, {"every_write", SyncMode::kEveryWrite}, {"group", SyncMode::kGroup}};
constexpr NamedValue<StagingMode> kStagingModes[] = {{"auto", StagingMode::kAuto},
                                                     {"written", StagingMode::kWritten}};
constexpr NamedValue<Reclaim> kReclaims[] = {{"off", Reclaim::kOff},
                                             {"background", Reclaim::kBackground}};
constexpr NamedValue<NumaMode> kNumaModes[] = {
    {"none", NumaMode::kNone}, {"interleave", NumaMode::kInterleave}, {"bind", NumaMode::kBind}};

template <typename Values, typename Enum>
bool ParseNamed(const Values& values, std::string_view text, Enum* value) {
  for (const auto& named : values) {
    if (named.name != text) continue;
    *value = named.value;
    return true;
  }
  return false;
}
template <typename Values, typename Enum>
std::string PrintNamed(const Values& values, Enum value) {
  const auto* const named = std::find_if(std::begin(values), std::end(values),
                                         [&](const auto& one) { return one.value == value; });
  return named == std::end(values) ? "" : std::string(named->name);
}

bool Parse(std::string_view text, IoBackend* value) { return ParseNamed(kIoBackends, text, value); }
bool Parse(std::string_view text, SyncMode* value) { return ParseNamed(kSyncModes, text, value); }
bool Parse(std::string_view text, StagingMode* value) {
  return ParseNamed(kStagingModes, text, value);
}
bool Parse(std::string_view text, Reclaim* value) { return ParseNamed(kReclaims, text, value); }
std::string Print(IoBackend value) { return PrintNamed(kIoBackends, value); }
std::string Print(SyncMode value) { return PrintNamed(kSyncModes, value); }
std::string Print(StagingMode value) { return PrintNamed(kStagingModes, value); }
std::string Print(Reclaim value) { return PrintNamed(kReclaims, value); }

bool Parse(std::string_view text, NumaOptions* numa) {
  NumaOptions parsed;
  const size_t colon = text.find(':');
  if (!ParseNamed(kNumaModes, text.substr(0, colon), &parsed.mode)) return false;
  text = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  // Before each node, a colon or a comma.
  while (!text.empty()) {
    text.remove_prefix(1);
    const size_t comma = std::min(text.find(','), text.size());
    parsed.nodes.emplace_back();
    if (!Parse(text.substr(0, comma), &parsed.nodes.back())) return false;
    text.remove_prefix(comma);
  }
  *numa = std::move(parsed);
  return true;
}

std::string Print(const NumaOptions& numa) {
  std::string text = PrintNamed(kNumaModes, numa.mode);
  for (size_t i = 0; i < numa.nodes.size(); ++i) {
    text += (i == 0 ? ":" : ",") + std::to_string(numa.nodes[i]);
  }
  return text;
}

// A size, or "auto".
bool ParseAuto(std::string_view text, uint64_t* value) {
  if (text != "auto") return Parse(text, value);
  *value = kAutoBytes;
  return true;
}
std::string PrintAuto(uint64_t value) {
  return value == kAutoBytes ? "auto" : std::to_string(value);
}

// The mode of files: octal, with a leading 0 or without.
bool ParseMode(std::string_view text, uint32_t* value) {
  const char* const end = text.data() + text.size();
  uint32_t mode = 0;
  const auto [at, error] = std::from_chars(text.data(), end, mode, 8);
  if (error != std::errc() || at != end) return false;
  *value = mode;
  return true;
}
std::string PrintMode(uint32_t value) {
  char digits[16] = "0";
  const std::to_chars_result end = std::to_chars(digits + 1, std::end(digits), value, 8);
  return {digits, end.ptr};
}

struct Field {
  std::string_view name;
  bool (*set)(std::string_view text, Options* options);
  std::string (*get)(const Options& options);
};

#define ENGINE_RACE_FIELD(member, parse, print)                                                   \
  Field {                                                                                         \
#member, [](std::string_view text, Options* options) { return parse(text, &options->member); }, \
        [](const Options& options) { return print(options.member); } \
  }
#define ENGINE_RACE_OPTION(member) ENGINE_RACE_FIELD(member, Parse, Print)
#define ENGINE_RACE_AUTO(member) ENGINE_RACE_FIELD(member, ParseAuto, PrintAuto)
#define ENGINE_RACE_MODE(member) ENGINE_RACE_FIELD(member, ParseMode, PrintMode)

// Every member of Options but the log function, in their order there.
constexpr Field kFields[] = {
    ENGINE_RACE_OPTION(value_bytes),
    ENGINE_RACE_OPTION(bucket_count),
    ENGINE_RACE_OPTION(file_count),
    ENGINE_RACE_OPTION(bucket_capacity_records),
    ENGINE_RACE_OPTION(value_group_bytes),
    ENGINE_RACE_OPTION(key_group_bytes),
    ENGINE_RACE_OPTION(paths),
    ENGINE_RACE_OPTION(key_range),
    ENGINE_RACE_MODE(directory_mode),
    ENGINE_RACE_MODE(file_mode),
    ENGINE_RACE_AUTO(memory_budget_bytes),
    ENGINE_RACE_AUTO(hot_value_bytes),
    ENGINE_RACE_AUTO(index_memory_bytes),
    ENGINE_RACE_OPTION(index_close_bytes),
    ENGINE_RACE_OPTION(index_sync_bytes),
    ENGINE_RACE_OPTION(index_idle_ms),
    ENGINE_RACE_OPTION(build_thread_count),
    ENGINE_RACE_OPTION(io_backend),
    ENGINE_RACE_OPTION(io_uring_iopoll),
    ENGINE_RACE_OPTION(io_uring_sqpoll),
    ENGINE_RACE_OPTION(page_cache),
    ENGINE_RACE_OPTION(worker_count),
    ENGINE_RACE_OPTION(tasks_per_worker),
    ENGINE_RACE_OPTION(async_read_limit),
    ENGINE_RACE_OPTION(async_read_waits),
    ENGINE_RACE_OPTION(overwrite_devices),
    ENGINE_RACE_OPTION(staging_mode),
    ENGINE_RACE_OPTION(sync_mode),
    ENGINE_RACE_OPTION(sync_on_close),
    ENGINE_RACE_OPTION(cache_iterators),
    ENGINE_RACE_OPTION(journal_bytes),
    ENGINE_RACE_OPTION(reclaim),
    ENGINE_RACE_OPTION(reclaim_dead_percent),
    ENGINE_RACE_OPTION(reclaim_bytes_per_second),
    ENGINE_RACE_OPTION(verify_checksums),
    ENGINE_RACE_OPTION(latency_stats),
    ENGINE_RACE_OPTION(stats_interval_ms),
    ENGINE_RACE_OPTION(read_only),
    ENGINE_RACE_OPTION(follow),
    ENGINE_RACE_OPTION(create_if_missing),
    ENGINE_RACE_OPTION(create_among_files),
    ENGINE_RACE_OPTION(numa),
};

const Field* FieldNamed(std::string_view name) {
  const Field* const field = std::find_if(std::begin(kFields), std::end(kFields),
                                          [&](const Field& one) { return one.name == name; });
  return field == std::end(kFields) ? nullptr : field;
}

Status NoOption(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Field& field : kFields) names.push_back(field.name);
  return Status::InvalidArgument("there is no option \"" + std::string(name) + "\"" +
                                 DidYouMean(name, names));
}

}  // namespace

size_t NamedOptionCount() { return std::size(kFields); }

std::string_view OptionName(size_t index) { return kFields[index].name; }

Status SetOption(std::string_view name, std::string_view value, Options* options) {
  const Field* const field = FieldNamed(name);
  if (field == nullptr) return NoOption(name);
  if (field->set(value, options)) return Status::Ok();
  return Status::InvalidArgument("option " + std::string(name) + ": cannot parse \"" +
                                 std::string(value) + "\"");
}

Status GetOption(std::string_view name, const Options& options, std::string* value) {
  const Field* const field = FieldNamed(name);
  if (field == nullptr) return NoOption(name);
  *value = field->get(options);
  return Status::Ok();
}

}  // namespace engine_race
