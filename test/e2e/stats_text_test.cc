// Stats as text. What is printed for Prometheus is parsed as its text format 0.0.4 says.
#include "engine_race/stats_text.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "engine_race/stats_fields.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

using Labels = std::map<std::string, std::string>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

struct Family {
  std::string type;
  std::string help;
  std::vector<Sample> samples;
};

bool IsNameChar(char c, bool is_first) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' ||
         (!is_first && std::isdigit(static_cast<unsigned char>(c)) != 0);
}

// Reads one line of a sample; nothing when it breaks the format.
class SampleParser {
 public:
  explicit SampleParser(const std::string& line) : line_(line) {}

  std::optional<Sample> Parse() {
    Sample sample;
    sample.name = Name();
    if (sample.name.empty()) return std::nullopt;
    if (Take('{')) {
      while (!Take('}')) {
        const std::string label = Name();
        std::string value;
        if (label.empty() || !Take('=') || !Quoted(&value)) return std::nullopt;
        if (!sample.labels.emplace(label, value).second) return std::nullopt;
        if (!Take(',') && line_[at_] != '}') return std::nullopt;
      }
    }
    if (!Take(' ')) return std::nullopt;
    const std::string number = line_.substr(at_);
    size_t parsed = 0;
    if (number.empty() || std::isspace(static_cast<unsigned char>(number[0])) != 0) {
      return std::nullopt;
    }
    sample.value = std::stod(number, &parsed);
    if (parsed != number.size()) return std::nullopt;
    return sample;
  }

 private:
  bool Take(char c) {
    if (at_ >= line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string Name() {
    const size_t begin = at_;
    while (at_ < line_.size() && IsNameChar(line_[at_], at_ == begin)) ++at_;
    return line_.substr(begin, at_ - begin);
  }
  bool Quoted(std::string* value) {
    if (!Take('"')) return false;
    while (at_ < line_.size() && line_[at_] != '"') {
      char c = line_[at_++];
      if (c == '\\') {
        if (at_ == line_.size()) return false;
        c = line_[at_++];
        if (c == 'n') {
          c = '\n';
        } else if (c != '\\' && c != '"') {
          return false;
        }
      }
      *value += c;
    }
    return Take('"');
  }

  const std::string& line_;
  size_t at_ = 0;
};

// The family that a sample belongs to, by its name.
std::string FamilyOf(const std::string& name, const std::map<std::string, Family>& families) {
  if (families.contains(name)) return name;
  for (const char* suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string base = name.substr(0, name.size() - std::string(suffix).size());
    const auto family = families.find(base);
    if (family != families.end() && family->second.type == "histogram") return base;
  }
  return "";
}

// Checks the order of lines too: HELP and TYPE once, before the samples, and each family in one
// piece.
std::map<std::string, Family> ParseExposition(const std::string& text) {
  std::map<std::string, Family> families;
  EXPECT_TRUE(text.ends_with("\n"));
  std::istringstream lines(text);
  std::string line;
  std::string current;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string hash;
    std::string keyword;
    std::string name;
    if (line.starts_with("#")) {
      words >> hash >> keyword >> name;
      if (keyword == "HELP") {
        EXPECT_FALSE(families.contains(name)) << "twice: " << line;
        current = name;
        std::getline(words >> std::ws, families[name].help);
      } else {
        EXPECT_EQ(keyword, "TYPE") << line;
        EXPECT_EQ(name, current) << line;
        EXPECT_TRUE(families[name].type.empty() && families[name].samples.empty()) << line;
        words >> families[name].type;
      }
      continue;
    }
    const std::optional<Sample> sample = SampleParser(line).Parse();
    if (!sample) {
      ADD_FAILURE() << "no sample: " << line;
      continue;
    }
    EXPECT_EQ(FamilyOf(sample->name, families), current) << line;
    families[current].samples.push_back(*sample);
  }
  return families;
}

StoreStats NumberedStats() {
  StoreStats stats;
  uint64_t number = 1000;
  for (const StatsField& field : StatsFields()) {
    if (field.set != nullptr) field.set(++number, &stats);
  }
  stats.staging_mapped = true;
  for (uint64_t& count : stats.error_counts) count = ++number;
  stats.io_backend = "io_uring";
  stats.write_backend = "psync";
  return stats;
}

StoreLatencies SomeLatencies() {
  StoreLatencies latencies;
  latencies.measured = true;
  LatencyHistogram& reads = latencies.kinds[static_cast<size_t>(LatencyKind::kRead)];
  for (const uint64_t ns : {100, 127, 128, 1000000}) reads.Add(ns);
  reads.Add(uint64_t{1} << 38);
  return latencies;
}

std::string Print(const StoreStats& stats, const StoreLatencies& latencies,
                  const std::vector<StatsLabel>& labels = {}) {
  std::string text;
  const Status status = PrometheusText(stats, latencies, labels, &text);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return text;
}

TEST(PrometheusTextTest, EveryNumberIsASampleOfATypedFamily) {
  const StoreStats stats = NumberedStats();
  const auto families = ParseExposition(Print(stats, {}));
  for (const auto& [name, family] : families) {
    EXPECT_TRUE(name.starts_with("engine_race_")) << name;
    EXPECT_FALSE(family.help.empty()) << name;
    EXPECT_EQ(family.type, name.ends_with("_total") ? "counter" : "gauge") << name;
    std::set<Labels> seen;
    for (const Sample& sample : family.samples) {
      EXPECT_TRUE(seen.insert(sample.labels).second) << name << " has the same labels twice";
    }
  }
  for (const StatsField& field : StatsFields()) {
    const auto family = families.find("engine_race_" + std::string(field.metric));
    ASSERT_NE(family, families.end()) << field.name;
    const double wanted = static_cast<double>(field.get(stats)) * field.unit;
    bool found = false;
    for (const Sample& sample : family->second.samples) {
      std::string label;
      for (const auto& [name, value] : sample.labels) label = name + "=\"" + value + "\"";
      if (label != field.label) continue;
      found = true;
      EXPECT_NEAR(sample.value, wanted, 1e-9 * wanted) << field.name;
    }
    EXPECT_TRUE(found) << field.name;
  }
  const auto& errors = families.at("engine_race_errors_total").samples;
  EXPECT_EQ(errors.size(), kCodeCount - 2);  // neither Ok nor an absent key is an error
  EXPECT_EQ(errors.front().labels.at("code"), "kCorruption");
  EXPECT_FALSE(families.contains("engine_race_latency_seconds"));
}

TEST(PrometheusTextTest, HistogramsAreCumulativeAndWhole) {
  const auto families = ParseExposition(Print(StoreStats(), SomeLatencies(), {{"store", "a"}}));
  const Family& family = families.at("engine_race_latency_seconds");
  EXPECT_EQ(family.type, "histogram");
  std::map<std::string, std::map<double, double>> buckets;
  std::map<std::string, double> counts;
  std::map<std::string, double> sums;
  for (const Sample& sample : family.samples) {
    EXPECT_EQ(sample.labels.at("store"), "a");
    const std::string call = sample.labels.at("call");
    if (sample.name.ends_with("_sum")) sums[call] = sample.value;
    if (sample.name.ends_with("_count")) counts[call] = sample.value;
    if (!sample.name.ends_with("_bucket")) continue;
    const double end = std::stod(sample.labels.at("le"));
    EXPECT_TRUE(buckets[call].empty() || buckets[call].rbegin()->first < end) << "not ascending";
    EXPECT_TRUE(buckets[call].empty() || buckets[call].rbegin()->second <= sample.value);
    buckets[call][end] = sample.value;
  }
  EXPECT_EQ(buckets.size(), kLatencyKindCount);
  for (const auto& [call, ends] : buckets) {
    EXPECT_EQ(ends.rbegin()->first, std::numeric_limits<double>::infinity()) << call;
    EXPECT_EQ(ends.rbegin()->second, counts.at(call)) << call;
  }
  const auto& reads = buckets.at("read");
  EXPECT_EQ(reads.begin()->first, 1.28e-7);
  EXPECT_EQ(reads.begin()->second, 2);  // 100 and 127 ns
  EXPECT_EQ(std::next(reads.begin())->second, 3);
  EXPECT_EQ(std::next(reads.rbegin())->second, 4);  // all but the longest
  EXPECT_EQ(counts.at("read"), 5);
  EXPECT_NEAR(sums.at("read"), (1000355.0 + std::ldexp(1.0, 38)) / 1e9, 1e-6);
}

TEST(PrometheusTextTest, LabelsAreEscaped) {
  const std::string hostile = "a\\b\"c\nd} 7 {\xc3\xa9,=";
  const auto families = ParseExposition(Print(StoreStats(), {}, {{"store", hostile}, {"x_1", ""}}));
  EXPECT_FALSE(families.empty());
  for (const auto& [name, family] : families) {
    EXPECT_FALSE(family.samples.empty()) << name;
    for (const Sample& sample : family.samples) {
      EXPECT_EQ(sample.labels.at("store"), hostile) << name;
      EXPECT_EQ(sample.labels.at("x_1"), "") << name;
    }
  }
}

TEST(PrometheusTextTest, LabelValuesAreUtf8) {
  for (const char* value : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xe0\x80\x80",
                            "\xf4\x90\x80\x80", "\xf0\x8f\xbf\xbf", "\x80"}) {
    std::string text = "as it was";
    const std::vector<StatsLabel> labels = {{"store", value}};
    EXPECT_EQ(PrometheusText({}, {}, labels, &text).code(), Code::kInvalidArgument);
    EXPECT_EQ(text, "as it was");
  }
  for (const char* value :
       {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8f\x81", "\xed\x9f\xbf"}) {
    Print({}, {}, {{"store", value}});
  }
}

// A locale whose decimal point is a comma, where the machine has one, and one that is made here.
TEST(PrometheusTextTest, TheLocaleChangesNoNumber) {
  const std::string expected = Print(NumberedStats(), SomeLatencies());
  const std::string plain = StatsText(NumberedStats(), SomeLatencies());
  TempDir dir;
  const std::string command = "localedef -i de_DE -f UTF-8 " + dir.Join("de_DE.UTF-8") + " 2>&1";
  FILE* const made = ::popen((command + " >/dev/null").c_str(), "r");
  if (made != nullptr) ::pclose(made);
  ::setenv("LOCPATH", dir.path().c_str(), 1);
  const bool is_set = std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr;
  ::unsetenv("LOCPATH");
  const std::string printed = Print(NumberedStats(), SomeLatencies());
  const std::string text = StatsText(NumberedStats(), SomeLatencies());
  std::setlocale(LC_NUMERIC, "C");
  if (!is_set) GTEST_SKIP() << "this machine has no locale with a decimal comma";
  EXPECT_EQ(printed, expected);
  EXPECT_EQ(text, plain);
}

TEST(PrometheusTextTest, LabelsThatNoMetricCanHaveAreRefused) {
  std::string text = "as it was";
  for (const char* name : {"", "1a", "a-b", "a b", "__name__", "le", "call", "code", "\xc3\xa9"}) {
    const std::vector<StatsLabel> labels = {{name, "v"}};
    EXPECT_EQ(PrometheusText({}, {}, labels, &text).code(), Code::kInvalidArgument) << name;
  }
  const std::vector<StatsLabel> twice = {{"a", "1"}, {"a", "2"}};
  EXPECT_EQ(PrometheusText({}, {}, twice, &text).code(), Code::kInvalidArgument);
  EXPECT_EQ(PrometheusText({}, {}, {}, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(text, "as it was");
}

TEST(StatsTextTest, NamesEveryNumberAndTheLatenciesThatWereMeasured) {
  const StoreStats stats = NumberedStats();
  const std::string plain = StatsText(stats);
  for (const StatsField& field : StatsFields()) {
    std::istringstream lines(plain);
    std::string line;
    bool found = false;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string name;
      uint64_t value = 0;
      words >> name >> value;
      found = found || (name == field.name && value == field.get(stats));
    }
    EXPECT_TRUE(found) << field.name << " in\n" << plain;
  }
  EXPECT_NE(plain.find("errors kFull"), std::string::npos);
  EXPECT_EQ(plain.find("latency"), std::string::npos);
  const std::string measured = StatsText(stats, SomeLatencies());
  EXPECT_NE(measured.find("latency, us"), std::string::npos);
  EXPECT_NE(measured.find("\nread "), std::string::npos);
  EXPECT_EQ(measured.find("\nwrite "), std::string::npos);
}

}  // namespace
}  // namespace engine_race::test
