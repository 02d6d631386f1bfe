#include "engine_race/stats_text.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "engine_race/stats_fields.h"

namespace engine_race {
namespace {

constexpr std::string_view kPrefix = "engine_race_";
// Buckets of histograms end at 2^7 ns = 128 ns to 2^35 ns = 34 s.
constexpr uint32_t kFirstBucketBits = 7;
constexpr uint32_t kLastBucketBits = 35;
// Labels that metrics have beside those of the caller.
constexpr std::string_view kOwnLabels[] = {"call", "code", "holds",    "io_backend",
                                           "le",   "part", "quantile", "write_backend"};

__attribute__((format(printf, 2, 3))) void Append(std::string* text, const char* format, ...) {
  std::array<char, 256> piece;
  va_list arguments;
  va_start(arguments, format);
  const int size = std::vsnprintf(piece.data(), piece.size(), format, arguments);
  va_end(arguments);
  if (size > 0) text->append(piece.data(), std::min<size_t>(static_cast<size_t>(size), 255));
}

// A number as printf wrote it, with "." as its decimal point: a locale may have another one, of
// several bytes. std::to_chars needs no such step, and brings 115 KB of tables into each program.
std::string WithPoint(const char* printed) {
  std::string number;
  for (; *printed != '\0'; ++printed) {
    if (std::strchr("0123456789+-einfa", *printed) != nullptr) {
      number.push_back(*printed);
    } else if (!number.empty() && number.back() != '.') {
      number.push_back('.');
    }
  }
  return number;
}

// At most 12 significant digits.
std::string SignificantText(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.12g", value);
  return WithPoint(text.data());
}

// With `decimals` digits behind the point. The longest double has 309 digits before it.
std::string FixedText(double value, int decimals) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return WithPoint(text.data());
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  auto size = static_cast<double>(bytes);
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return FixedText(size, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

bool IsLabelName(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  // Prometheus keeps names that begin with two underscores for itself.
  if (name.empty() || !is_letter(name.front()) || name.starts_with("__")) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// Whether the bytes are UTF-8: no byte alone, no overlong form, no surrogate, nothing above
// U+10FFFF.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte_at = [&text](size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned char lead = byte_at(i);
    const size_t size = lead < 0x80   ? 1
                        : lead < 0xc2 ? 0
                        : lead < 0xe0 ? 2
                        : lead < 0xf0 ? 3
                        : lead < 0xf5 ? 4
                                      : 0;
    if (size == 0 || text.size() - i < size) return false;
    for (size_t k = 1; k < size; ++k) {
      if ((byte_at(i + k) & 0xc0) != 0x80) return false;
    }
    const unsigned char second = size > 1 ? byte_at(i + 1) : 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90)) {
      return false;
    }
    i += size;
  }
  return true;
}

std::string EscapedLabel(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else {
      if (c == '\\' || c == '"') text += '\\';
      text += c;
    }
  }
  return text;
}

// Prints metrics, each sample with the labels of the caller.
class Exposition {
 public:
  explicit Exposition(std::string labels) : labels_(std::move(labels)) {}

  void Begin(std::string_view metric, std::string_view type, std::string_view help) {
    const std::string name = std::string(kPrefix).append(metric);
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
    text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
  }
  void Sample(std::string_view metric, std::string_view label, const std::string& value) {
    text_.append(kPrefix).append(metric);
    if (!labels_.empty() || !label.empty()) {
      text_.append("{").append(labels_);
      text_.append(labels_.empty() || label.empty() ? "" : ",").append(label).append("}");
    }
    text_.append(" ").append(value).append("\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  const std::string labels_;
  std::string text_;
};

// Exact for every count below 2^53, as Prometheus' numbers are.
std::string Number(uint64_t value, double unit) {
  if (unit == 1) return std::to_string(value);
  return SignificantText(static_cast<double>(value) * unit);
}

void AddHistogram(LatencyKind kind, const LatencyHistogram& histogram, Exposition* to) {
  std::string call = "call=\"";
  call.append(LatencyKindName(kind)).append("\"");
  // A latency of n whole nanoseconds is below n + 1, so those counted below 2^bits are within it.
  for (uint32_t bits = kFirstBucketBits; bits <= kLastBucketBits; ++bits) {
    const std::string end = Number(uint64_t{1} << bits, 1e-9);
    to->Sample("latency_seconds_bucket", call + ",le=\"" + end + "\"",
               Number(histogram.CountBelow(bits), 1));
  }
  to->Sample("latency_seconds_bucket", call + ",le=\"+Inf\"", Number(histogram.count(), 1));
  to->Sample("latency_seconds_sum", call, Number(histogram.sum_ns(), 1e-9));
  to->Sample("latency_seconds_count", call, Number(histogram.count(), 1));
}

void AddFields(const StoreStats& stats, Exposition* to) {
  for (const StatsField& field : StatsFields()) {
    if (!field.help.empty()) {
      to->Begin(field.metric, field.is_counter() ? "counter" : "gauge", field.help);
    }
    to->Sample(field.metric, field.label, Number(field.get(stats), field.unit));
  }
}

void AddErrors(const StoreStats& stats, Exposition* to) {
  to->Begin("errors_total", "counter", "Calls and keys of MultiRead that failed, by code.");
  for (size_t i = 0; i < kCodeCount; ++i) {
    const auto code = static_cast<Code>(i);
    if (code == Code::kOk || code == Code::kNotFound) continue;
    std::string label = "code=\"";
    label.append(CodeName(code)).append("\"");
    to->Sample("errors_total", label, Number(stats.error_counts[i], 1));
  }
}

Status PrintLabels(std::span<const StatsLabel> labels, std::string* text) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto& [name, value] = labels[i];
    const bool is_taken =
        std::find(std::begin(kOwnLabels), std::end(kOwnLabels), name) != std::end(kOwnLabels) ||
        std::any_of(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(i),
                    [&name = name](const StatsLabel& other) { return other.first == name; });
    if (is_taken || !IsLabelName(name)) {
      return Status::InvalidArgument("\"" + name + "\" is no label that a metric can have" +
                                     (is_taken ? ": it has one of that name" : ""));
    }
    if (!IsUtf8(value)) {
      return Status::InvalidArgument("the value of the label \"" + name + "\" is not UTF-8");
    }
    text->append(i == 0 ? "" : ",").append(name).append("=\"");
    text->append(EscapedLabel(value)).append("\"");
  }
  return Status::Ok();
}

}  // namespace

std::string StatsText(const StoreStats& stats, const StoreLatencies& latencies) {
  std::string text;
  for (const StatsField& field : StatsFields()) {
    const uint64_t value = field.get(stats);
    Append(&text, "%-27s %" PRIu64, std::string(field.name).c_str(), value);
    if (field.is_bytes() && value >= 1024) text += " (" + HumanBytes(value) + ")";
    text += "\n";
  }
  for (size_t i = 0; i < kCodeCount; ++i) {
    if (stats.error_counts[i] == 0) continue;
    const std::string name = "errors " + std::string(CodeName(static_cast<Code>(i)));
    Append(&text, "%-27s %" PRIu64 "\n", name.c_str(), stats.error_counts[i]);
  }
  text += "io_backend                  " + stats.io_backend + "\n";
  text += "write_backend               " + stats.write_backend + "\n";
  if (!latencies.measured) return text;
  Append(&text, "\n%-12s %12s %10s %10s %10s %10s %10s %10s %10s\n", "latency, us", "count", "mean",
         "p50", "p90", "p99", "p99.9", "p99.99", "max");
  for (size_t i = 0; i < kLatencyKindCount; ++i) {
    const LatencyHistogram& histogram = latencies.kinds[i];
    if (histogram.count() == 0) continue;
    const std::string name(LatencyKindName(static_cast<LatencyKind>(i)));
    Append(&text, "%-12s %12" PRIu64 " %10s", name.c_str(), histogram.count(),
           FixedText(histogram.mean_ns() / 1e3, 2).c_str());
    for (const double fraction : {0.5, 0.9, 0.99, 0.999, 0.9999}) {
      Append(&text, " %10s",
             FixedText(static_cast<double>(histogram.PercentileNs(fraction)) / 1e3, 2).c_str());
    }
    Append(&text, " %10s\n", FixedText(static_cast<double>(histogram.max_ns()) / 1e3, 2).c_str());
  }
  return text;
}

Status PrometheusText(const StoreStats& stats, const StoreLatencies& latencies,
                      std::span<const StatsLabel> labels, std::string* text) {
  if (text == nullptr) return Status::InvalidArgument("the text to print into is null");
  std::string common;
  ENGINE_RACE_RETURN_IF_ERROR(PrintLabels(labels, &common));
  Exposition exposition(std::move(common));
  AddFields(stats, &exposition);
  AddErrors(stats, &exposition);
  exposition.Begin("store_info", "gauge", "1, with what the store uses as labels.");
  exposition.Sample("store_info",
                    "io_backend=\"" + EscapedLabel(stats.io_backend) + "\",write_backend=\"" +
                        EscapedLabel(stats.write_backend) + "\"",
                    "1");
  if (latencies.measured) {
    exposition.Begin("latency_seconds", "histogram", "How long calls and steps took.");
    for (size_t i = 0; i < kLatencyKindCount; ++i) {
      AddHistogram(static_cast<LatencyKind>(i), latencies.kinds[i], &exposition);
    }
  }
  *text = exposition.Take();
  return Status::Ok();
}

}  // namespace engine_race
