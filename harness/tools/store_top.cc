#include "harness/tools/store_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <vector>

#include "engine_race/base/clock.h"
#include "engine_race/stats_fields.h"
#include "engine_race/stats_text.h"
#include "harness/measure/table.h"
#include "harness/system/exit_codes.h"

namespace engine_race::harness {
namespace {

// How often the file is looked at, at most.
constexpr std::chrono::milliseconds kLookInterval(50);
constexpr std::chrono::seconds kLeastSilence(5);

std::string Text(const char* format, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string Mib(uint64_t bytes) { return Text("%.1f MiB", static_cast<double>(bytes) / (1 << 20)); }

// The time from one state to the next, and the rates of counters in it.
class Interval {
 public:
  Interval(const PublishedStats& before, const PublishedStats& now)
      : before_(before.stats),
        now_(now.stats),
        seconds_(static_cast<double>(Since(now_.uptime_us, before_.uptime_us)) / 1e6) {}

  double seconds() const { return seconds_; }
  double PerSecond(uint64_t before, uint64_t now) const {
    return seconds_ > 0 ? static_cast<double>(Since(now, before)) / seconds_ : 0;
  }
  double Rate(uint64_t StoreStats::*counter) const {
    return PerSecond(before_.*counter, now_.*counter);
  }
  std::string MibRate(uint64_t StoreStats::*counter) const {
    return Text("%.1f MiB/s", Rate(counter) / (1 << 20));
  }
  // Bytes written for each byte of values written, or "-" when none was.
  std::string WriteAmplification() const {
    const auto values =
        static_cast<double>(Since(now_.written_value_bytes(), before_.written_value_bytes()));
    const auto written =
        static_cast<double>(Since(now_.log_written_bytes, before_.log_written_bytes) +
                            Since(now_.index_written_bytes, before_.index_written_bytes));
    return values > 0 ? Text("%.2f", written / values) : "-";
  }
  // "98.2%", or "-" when there was neither a hit nor a miss.
  std::string HitRate(uint64_t StoreStats::*hits, uint64_t StoreStats::*misses) const {
    const auto hit_count = static_cast<double>(Since(now_.*hits, before_.*hits));
    const auto all = hit_count + static_cast<double>(Since(now_.*misses, before_.*misses));
    return all > 0 ? Text("%.1f%%", 100 * hit_count / all) : "-";
  }

 private:
  static uint64_t Since(uint64_t now, uint64_t before) { return now - std::min(before, now); }

  const StoreStats& before_;
  const StoreStats& now_;
  const double seconds_;
};

LatencyHistogram LatenciesBetween(const PublishedStats& before, const PublishedStats& now,
                                  LatencyKind kind) {
  return now.latencies.Of(kind).Since(before.latencies.Of(kind));
}

std::string Microseconds(const LatencyHistogram& histogram, double fraction) {
  if (histogram.count() == 0) return "-";
  return Text("%.1f", static_cast<double>(histogram.PercentileNs(fraction)) / 1e3);
}

struct Row {
  const char* name;
  uint64_t StoreStats::*counter;  // null: a step that no counter counts
  int kind;                       // of LatencyKind; -1: none
};

int KindOf(LatencyKind kind) { return static_cast<int>(kind); }

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"read", &StoreStats::read_count, KindOf(LatencyKind::kRead)},
      {"multi_read", &StoreStats::multi_read_count, KindOf(LatencyKind::kMultiRead)},
      {"  keys", &StoreStats::multi_read_key_count, -1},
      {"async_read", &StoreStats::async_read_count, KindOf(LatencyKind::kAsyncRead)},
      {"  not found", &StoreStats::read_not_found_count, -1},
      {"write", &StoreStats::write_count, KindOf(LatencyKind::kWrite)},
      {"delete", &StoreStats::delete_count, -1},
      {"range", &StoreStats::range_count, KindOf(LatencyKind::kRange)},
      {"  records", &StoreStats::range_record_count, -1},
      {"sync", &StoreStats::sync_count, KindOf(LatencyKind::kSync)},
      {"group_write", nullptr, KindOf(LatencyKind::kGroupWrite)},
      {"flush", &StoreStats::flush_count, KindOf(LatencyKind::kFlush)},
  };
  return rows;
}

std::string CallTable(const PublishedStats& before, const PublishedStats& now) {
  const Interval interval(before, now);
  const bool measured = now.latencies.measured;
  Table table(measured ? std::vector<std::string>{"", "per second", "p50 us", "p99 us"}
                       : std::vector<std::string>{"", "per second"});
  for (const Row& row : Rows()) {
    if (row.counter == nullptr && !measured) continue;
    LatencyHistogram histogram;
    if (row.kind >= 0) {
      histogram = LatenciesBetween(before, now, static_cast<LatencyKind>(row.kind));
    }
    const double rate = row.counter == nullptr ? interval.PerSecond(0, histogram.count())
                                               : interval.Rate(row.counter);
    std::vector<std::string> cells = {row.name, Text("%.0f", rate)};
    if (measured) {
      cells.push_back(Microseconds(histogram, 0.5));
      cells.push_back(Microseconds(histogram, 0.99));
    }
    table.AddRow(cells);
  }
  return table.ToString();
}

uint64_t MemoryBytes(const StoreStats& stats) {
  return stats.log_memory_bytes + stats.index_memory_bytes + stats.range_memory_bytes +
         stats.task_memory_bytes + stats.iterator_memory_bytes + stats.frame_memory_bytes;
}

std::string ErrorLine(const StoreStats& stats) {
  std::string line;
  for (size_t i = 0; i < kCodeCount; ++i) {
    if (stats.error_counts[i] == 0) continue;
    line += (line.empty() ? "" : ", ") + std::to_string(stats.error_counts[i]) + " " +
            std::string(CodeName(static_cast<Code>(i)));
  }
  return line.empty() ? "" : "errors      " + line + " since the store was opened\n";
}

int Refuse(const std::string& dir, const Status& status) {
  const bool is_plain = status.code() == Code::kNotFound || status.code() == Code::kNotSupported ||
                        status.code() == Code::kIncomplete;
  std::fprintf(stderr, "store top: %s: %s\n", dir.c_str(),
               is_plain ? status.message().c_str() : status.ToString().c_str());
  return kExitRefused;
}

int TellEnd(const std::string& dir) {
  std::fprintf(stderr,
               "store top: %s: the store was closed, its process has ended, or its stats file was "
               "removed\n",
               dir.c_str());
  return kExitFailure;
}

// kExitDone, or kExitRefused with a message.
int Put(const std::string& text) {
  if (PrintAll(text)) return kExitDone;
  std::fprintf(stderr, "store top: the output cannot be written: %s\n",
               std::generic_category().message(errno).c_str());
  return kExitRefused;
}

// How long a store that runs as it should may leave its stats as they are.
std::chrono::milliseconds LongestSilence(const PublishedStats& stats) {
  return std::max<std::chrono::milliseconds>(kLeastSilence,
                                             3 * std::chrono::milliseconds(stats.interval_ms));
}

void TellSilence(const std::string& dir, std::chrono::milliseconds silence) {
  std::fprintf(stderr, "store top: %s: the store has not written its stats for %.0f s\n",
               dir.c_str(), std::chrono::duration<double>(silence).count());
}

int PrintPrometheus(const std::string& dir, const PublishedStats& now, uint64_t now_ms) {
  const std::chrono::milliseconds age(now_ms - std::min(now.taken_at_ms, now_ms));
  if (age > LongestSilence(now)) {
    TellSilence(dir, age);
    return kExitRefused;
  }
  std::string text;
  const Status printed = TopPrometheus(dir, now, &text);
  return printed.ok() ? Put(text) : Refuse(dir, printed);
}

int Print(const std::string& dir, TopForm form, const PublishedStats& before,
          const PublishedStats& now) {
  if (form == TopForm::kJson) return Put(TopJson(dir, before, now) + "\n");
  // On a terminal each table takes the place of the one before.
  const char* const clear = ::isatty(STDOUT_FILENO) != 0 ? "\x1b[H\x1b[J" : "";
  return Put(clear + TopTable(dir, before, now) + "\n");
}

// Waits until the store has written its stats again, or has ended.
Status AwaitNext(const std::string& dir, const StatsReader& reader, uint64_t last_sequence,
                 PublishedStats* next, bool* has_ended) {
  const auto began = std::chrono::steady_clock::now();
  bool has_told = false;
  while (true) {
    const Status read = reader.Read(next, has_ended);
    if (!read.ok() || *has_ended || next->sequence != last_sequence) return read;
    const std::chrono::milliseconds silence = LongestSilence(*next);
    if (!has_told && std::chrono::steady_clock::now() - began > silence) {
      has_told = true;
      TellSilence(dir, silence);
    }
    std::this_thread::sleep_for(std::clamp(std::chrono::milliseconds(next->interval_ms / 4),
                                           std::chrono::milliseconds(1), kLookInterval));
  }
}

}  // namespace

std::string TopTable(const std::string& dir, const PublishedStats& before,
                     const PublishedStats& now) {
  const Interval interval(before, now);
  const StoreStats& stats = now.stats;
  std::string text = dir + ": process " + std::to_string(now.process_id) + ", open for " +
                     Text("%.0f s", static_cast<double>(stats.uptime_us) / 1e6) + ", " +
                     std::to_string(stats.record_count) + " records, " + stats.io_backend + "\n";
  text += CallTable(before, now);
  text += "hits        values " +
          interval.HitRate(&StoreStats::frame_hit_count, &StoreStats::frame_miss_count) +
          ", blocks of the index " +
          interval.HitRate(&StoreStats::block_hit_count, &StoreStats::block_miss_count) + "\n";
  text += "memory      " + Mib(MemoryBytes(stats)) + " of " + Mib(stats.memory_budget_bytes) +
          ": log " + Mib(stats.log_memory_bytes) + ", index " + Mib(stats.index_memory_bytes) +
          ", frames " + Mib(stats.frame_memory_bytes) + ", ranges " +
          Mib(stats.range_memory_bytes) + "\n";
  text += "written     log " + interval.MibRate(&StoreStats::log_written_bytes) + ", index " +
          interval.MibRate(&StoreStats::index_written_bytes) + "; write amplification " +
          interval.WriteAmplification() + "\n";
  text += "space       live " + Mib(stats.live_bytes) + ", dead " + Mib(stats.dead_bytes) +
          "; reclaim read " + interval.MibRate(&StoreStats::reclaim_read_bytes) + ", wrote again " +
          interval.MibRate(&StoreStats::reclaim_moved_bytes) + ", freed " +
          interval.MibRate(&StoreStats::reclaim_freed_bytes) + "\n";
  text += "process     read " + interval.MibRate(&StoreStats::process_read_bytes) + ", written " +
          interval.MibRate(&StoreStats::process_written_bytes) + "\n";
  text += ErrorLine(stats);
  if (!now.latencies.measured) {
    text += "Latencies are not measured: Options::latency_stats is off.\n";
  }
  return text;
}

std::string TopJson(const std::string& dir, const PublishedStats& before,
                    const PublishedStats& now) {
  const Interval interval(before, now);
  nlohmann::json json;
  json["store"] = dir;
  json["process_id"] = now.process_id;
  json["interval_seconds"] = interval.seconds();
  json["io_backend"] = now.stats.io_backend;
  for (const StatsField& field : StatsFields()) {
    const std::string name(field.name);
    json["stats"][name] = field.get(now.stats);
    if (field.is_counter()) {
      json["per_second"][name] = interval.PerSecond(field.get(before.stats), field.get(now.stats));
    }
  }
  for (size_t i = 0; i < kCodeCount; ++i) {
    if (now.stats.error_counts[i] == 0) continue;
    json["errors"][std::string(CodeName(static_cast<Code>(i)))] = now.stats.error_counts[i];
  }
  for (size_t i = 0; now.latencies.measured && i < kLatencyKindCount; ++i) {
    const auto kind = static_cast<LatencyKind>(i);
    const LatencyHistogram histogram = LatenciesBetween(before, now, kind);
    nlohmann::json& of_kind = json["latencies"][std::string(LatencyKindName(kind))];
    of_kind["count"] = histogram.count();
    of_kind["mean_seconds"] = histogram.mean_ns() / 1e9;
    const std::pair<const char*, double> fractions[] = {
        {"p50_seconds", 0.5}, {"p99_seconds", 0.99}, {"p99.9_seconds", 0.999}};
    for (const auto& [name, fraction] : fractions) {
      of_kind[name] = static_cast<double>(histogram.PercentileNs(fraction)) / 1e9;
    }
    of_kind["max_seconds"] = static_cast<double>(histogram.max_ns()) / 1e9;
  }
  // A directory's name need not be UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status TopPrometheus(const std::string& dir, const PublishedStats& now, std::string* text) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::canonical(dir, error);
  if (error) absolute = std::filesystem::absolute(dir, error);
  // Prometheus takes UTF-8 alone, which a directory's name need not be.
  const std::string whole = nlohmann::json(absolute.string())
                                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::array<StatsLabel, 1> labels = {
      {{"store", nlohmann::json::parse(whole).get<std::string>()}}};
  return PrometheusText(now.stats, now.latencies, labels, text);
}

int RunTop(const std::string& dir, TopForm form, bool once) {
  StatsReader reader;
  if (const Status opened = StatsReader::Open(dir, &reader); !opened.ok()) {
    return Refuse(dir, opened);
  }
  PublishedStats before;
  bool has_ended = false;
  if (const Status read = reader.Read(&before, &has_ended); !read.ok()) return Refuse(dir, read);
  if (form == TopForm::kPrometheus) {
    return has_ended ? TellEnd(dir) : PrintPrometheus(dir, before, BootTimeMs());
  }
  while (!has_ended) {
    PublishedStats now;
    const Status read = AwaitNext(dir, reader, before.sequence, &now, &has_ended);
    if (!read.ok() && !has_ended) return Refuse(dir, read);
    // The last stats of a store that has ended are printed if they are new.
    if (read.ok() && now.sequence != before.sequence) {
      const int printed = Print(dir, form, before, now);
      if (printed != 0 || once) return printed;
    }
    before = std::move(now);
  }
  return TellEnd(dir);
}

}  // namespace engine_race::harness
