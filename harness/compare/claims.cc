#include "harness/compare/comparison.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine_race/base/assert.h"
#include "harness/measure/median.h"
#include "harness/measure/table.h"

namespace engine_race::harness {

namespace {

constexpr char kRocksName[] = "rocksdb";
constexpr char kWriteBest[] = "write_vs_best_peer";
constexpr char kReadBest[] = "read_vs_best_peer";
constexpr char kRangeBest[] = "range_vs_best_peer";
constexpr char kOpenRocks[] = "open_vs_rocksdb";
constexpr char kOpenAfterLoadRocks[] = "open_after_load_vs_rocksdb";
constexpr char kWriteAmplification[] = "write_amplification";
constexpr char kSpaceAmplification[] = "space_amplification_uniform";
// DropPageCache's word for a cache that is empty for certain.
constexpr char kDropped[] = "drop_caches";

// A claim that the comparison measures itself, and the phase that it is about.
struct OwnClaim {
  ClaimTarget target;
  const char* phase;
};

constexpr OwnClaim kOwnClaims[] = {{{kWriteBest, ">= 5"}, kWritePhase},
                                   {{kReadBest, ">= 1.1"}, kReadPhase},
                                   {{kRangeBest, ">= 10"}, kRangePhase},
                                   {{kOpenRocks, ">= 2"}, kOpenPhase},
                                   {{kWriteAmplification, "<= 1.10"}, kWritePhase},
                                   {{kSpaceAmplification, "<= 1.10"}, kWritePhase}};

// The claims that other programs measure.
constexpr ClaimTarget kOtherClaims[] = {{"python_read_many_ratio", ">= 0.9"},
                                        {"python_hot_ratio", ">= 0.6"},
                                        {"embeddings_vs_memmap", ">= 2"},
                                        {"c_api_cost", "<= 0.02"}};

// All claims, the comparison's own first.
constexpr auto kTargets = [] {
  std::array<ClaimTarget, std::size(kOwnClaims) + std::size(kOtherClaims)> targets = {};
  size_t count = 0;
  for (const OwnClaim& own : kOwnClaims) targets[count++] = own.target;
  for (const ClaimTarget& other : kOtherClaims) targets[count++] = other;
  return targets;
}();

// The phase that one of the comparison's own claims is about.
const char* PhaseOf(std::string_view claim) {
  const auto* const own =
      std::find_if(std::begin(kOwnClaims), std::end(kOwnClaims),
                   [&](const OwnClaim& one) { return claim == one.target.name; });
  ENGINE_RACE_ASSERT(own != std::end(kOwnClaims));
  return own->phase;
}

const std::vector<CompareAnswer>& AnswersOf(const RoundAnswers& answers, const std::string& store,
                                            const std::string& phase) {
  static const std::vector<CompareAnswer> kNone;
  const auto phases = answers.find(store);
  if (phases == answers.end()) return kNone;
  const auto found = phases->second.find(phase);
  return found == phases->second.end() ? kNone : found->second;
}

// The median rate of a store. 0 when it did not answer, failed, or reads fewer records than the
// others. A peer whose writing was cut off counts by the rate that it has reached, the engine does
// not.
double RateOf(const RoundAnswers& answers, const std::string& store, const std::string& phase) {
  std::vector<double> rates;
  for (const CompareAnswer& answer : AnswersOf(answers, store, phase)) {
    const bool may_be_cut_off = phase == kWritePhase && store != kEngineName;
    if (!answer.ok() || (!may_be_cut_off && !answer.has_all_records)) return 0;
    rates.push_back(answer.OperationsPerSecond());
  }
  return rates.empty() ? 0 : MedianOf(rates);
}

bool BeganCold(const std::vector<CompareAnswer>& answers) {
  return std::all_of(answers.begin(), answers.end(), [](const CompareAnswer& answer) {
    return answer.run.is_object() && answer.run.value("page_cache_drop", "") == kDropped &&
           answer.run.value("program_locked", false);
  });
}

}  // namespace

CompareClaims::CompareClaims(std::vector<std::string> stores, std::vector<std::string> all_peers)
    : stores_(std::move(stores)), all_peers_(std::move(all_peers)), rounds_(kTargets) {}

bool CompareClaims::TakeOver(const std::string& name, double value) {
  const bool is_claim = std::any_of(std::begin(kTargets), std::end(kTargets),
                                    [&](const ClaimTarget& target) { return name == target.name; });
  if (is_claim) rounds_.Settle(name, value);
  return is_claim;
}

std::vector<std::string> CompareClaims::Unmeasured() const {
  std::vector<std::string> names;
  const std::map<std::string, double> claims = rounds_.Claims();
  for (const ClaimTarget& target : kTargets) {
    if (!claims.contains(target.name)) names.emplace_back(target.name);
  }
  return names;
}

std::string CompareClaims::WhyUnmeasured(const std::string& name,
                                         const std::vector<std::string>& phases,
                                         const std::string& no_cap_reason) const {
  const std::string phase = PhaseOf(name);
  if (std::find(phases.begin(), phases.end(), phase) == phases.end()) {
    return "the phase " + phase + " was not chosen";
  }
  if (cut_off_phases_.contains(phase)) {
    return std::string(kEngineName) + " had fewer records in " + phase +
           ": the time limit of its writing was too short";
  }
  const std::string figure = rounds_.FirstWithPrefix(name + ",");
  if (figure.empty()) return "no round has a full answer of every store that it is about";
  const std::string instead = "the rounds have only the figure \"" + figure + "\"";
  return lacks_cap_ ? "no cap on memory: " + no_cap_reason + "; " + instead : instead;
}

bool CompareClaims::IsOfAnotherProgram(const std::string& name) {
  return std::any_of(std::begin(kOtherClaims), std::end(kOtherClaims),
                     [&](const ClaimTarget& target) { return name == target.name; });
}

// A peer without a rate might be the best one, and without it the engine's ratio would look better.
// Such a ratio has a name of its own and is no claim.
void CompareClaims::NoteBest(const RoundAnswers& answers, const char* claim) {
  const char* const phase = PhaseOf(claim);
  double best = 0;
  std::string without;
  const auto note = [&](const std::string& store) {
    const double rate = RateOf(answers, store, phase);
    best = std::max(best, rate);
    if (rate <= 0) without += (without.empty() ? "" : ", ") + store;
  };
  for (const std::string& peer : all_peers_) note(peer);
  for (const std::string& store : stores_) {
    const bool is_peer = std::find(all_peers_.begin(), all_peers_.end(), store) != all_peers_.end();
    if (store != kEngineName && !is_peer) note(store);
  }
  const std::string name =
      without.empty() ? std::string(claim) : std::string(claim) + ", without " + without;
  NoteRatio(name, RateOf(answers, kEngineName, phase), best);
}

void CompareClaims::NoteOpenings(const RoundAnswers& answers, const char* claim,
                                 const char* phase) {
  for (const std::string& store : stores_) {
    const double rate = RateOf(answers, store, phase);
    if (rate > 0) rounds_.Note(std::string(phase) + ", " + store + ", ms", 1e3 / rate);
  }
  const bool cold = BeganCold(AnswersOf(answers, kEngineName, phase)) &&
                    BeganCold(AnswersOf(answers, kRocksName, phase));
  const std::string name =
      cold ? std::string(claim) : std::string(claim) + ", page cache perhaps warm";
  NoteRatio(name, RateOf(answers, kEngineName, phase), RateOf(answers, kRocksName, phase));
}

void CompareClaims::NoteRatio(const std::string& name, double a, double b) {
  rounds_.NoteRatio(lacks_cap_ ? name + ", without a cap" : name, a, b);
}

void CompareClaims::NoteRound(const RoundAnswers& answers) {
  for (const char* claim : {kWriteBest, kReadBest, kRangeBest}) NoteBest(answers, claim);
  NoteOpenings(answers, kOpenAfterLoadRocks, kOpenAfterLoadPhase);
  NoteOpenings(answers, kOpenRocks, PhaseOf(kOpenRocks));
  for (const auto& [claim, figure] : {std::pair(kWriteAmplification, "write_amplification"),
                                      std::pair(kSpaceAmplification, "space_amplification")}) {
    for (const CompareAnswer& answer : AnswersOf(answers, kEngineName, PhaseOf(claim))) {
      if (!answer.ok() || !answer.has_all_records) continue;
      if (const auto value = answer.Figure(figure)) rounds_.Note(claim, *value);
    }
  }
  for (const OwnClaim& own : kOwnClaims) {
    for (const CompareAnswer& answer : AnswersOf(answers, kEngineName, own.phase)) {
      if (answer.ok() && !answer.has_all_records) cut_off_phases_.insert(own.phase);
    }
  }
}

namespace {

constexpr double kMiB = 1 << 20;

// The runs of one store in one phase.
struct Cell {
  std::string store;
  std::vector<const nlohmann::json*> runs;

  std::vector<double> Values(const nlohmann::json::json_pointer& name) const {
    std::vector<double> values;
    for (const nlohmann::json* run : runs) {
      if (run->contains(name) && run->at(name).is_number()) values.push_back(run->at(name));
    }
    return values;
  }
  double Rate() const {
    return MedianOf(Values(nlohmann::json::json_pointer("/operations_per_s")));
  }
  // Whether every run has this flag set, or does not know it.
  bool All(const char* flag) const {
    return std::all_of(runs.begin(), runs.end(),
                       [flag](const nlohmann::json* run) { return run->value(flag, true); });
  }
  std::string Note() const {
    if (!All("finished")) return "unfinished";
    return All("has_all_records") ? "" : "fewer records";
  }
};

struct PhaseCells {
  std::string phase;
  std::vector<Cell> cells;
};

// In the order of the first runs.
std::vector<PhaseCells> CellsOf(const nlohmann::json& runs) {
  std::vector<PhaseCells> phases;
  for (const nlohmann::json& run : runs) {
    const std::string phase = run.at("phase");
    const std::string store = run.at("store");
    auto in = std::find_if(phases.begin(), phases.end(),
                           [&](const PhaseCells& one) { return one.phase == phase; });
    if (in == phases.end()) in = phases.insert(in, PhaseCells{phase, {}});
    auto cell = std::find_if(in->cells.begin(), in->cells.end(),
                             [&](const Cell& one) { return one.store == store; });
    if (cell == in->cells.end()) cell = in->cells.insert(cell, Cell{store, {}});
    cell->runs.push_back(&run);
  }
  return phases;
}

// The median of a figure in units of `unit`; "-" where no run has it.
std::string Median(const Cell& cell, const char* pointer, double unit, int digits) {
  const std::vector<double> values = cell.Values(nlohmann::json::json_pointer(pointer));
  return values.empty() ? "-" : Fixed(MedianOf(values) / unit, digits);
}

std::string MedianTime(const Cell& cell, const char* pointer) {
  const std::vector<double> values = cell.Values(nlohmann::json::json_pointer(pointer));
  return values.empty() ? "-" : Duration(MedianOf(values));
}

std::vector<std::string> RowOf(const Cell& cell) {
  const std::vector<double> rates = cell.Values(nlohmann::json::json_pointer("/operations_per_s"));
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  const int digits = cell.Rate() < 100 ? 2 : 0;
  return {cell.store,
          Fixed(cell.Rate(), digits),
          Fixed(*least, digits),
          Fixed(*most, digits),
          Median(cell, "/seconds", 1, 2),
          Median(cell, "/open_s", 1, 2),
          Median(cell, "/close_s", 1, 2),
          MedianTime(cell, "/latency_ns/p50"),
          MedianTime(cell, "/latency_ns/p99"),
          Median(cell, "/cpu_user_s", 1, 1),
          Median(cell, "/cpu_system_s", 1, 1),
          Median(cell, "/rss_peak_bytes", kMiB, 0),
          Median(cell, "/device_read_bytes", kMiB, 0),
          Median(cell, "/device_written_bytes", kMiB, 0),
          Median(cell, "/write_amplification", 1, 2),
          Median(cell, "/space_amplification", 1, 2),
          cell.Note()};
}

void AddNote(const std::string& words, std::string* note) {
  note->append(note->empty() ? "" : "; ").append(words);
}

// Which stores failed in any phase: a phase may lack them.
std::string FailuresNote(const nlohmann::json& failed_runs) {
  std::set<std::string> stores;
  for (const nlohmann::json& run : failed_runs) stores.insert(run.at("store"));
  std::string note;
  for (const std::string& store : stores) AddNote(store + ": failed", &note);
  return note;
}

}  // namespace

std::string PhaseTables(const nlohmann::json& runs) {
  std::string text;
  for (const PhaseCells& phase : CellsOf(runs)) {
    Table table({phase.phase, "ops/s", "least", "most", "seconds", "open s", "close s", "p50",
                 "p99", "user s", "system s", "RSS MiB", "read MiB", "written MiB", "write amp",
                 "space amp", ""});
    for (const Cell& cell : phase.cells) table.AddRow(RowOf(cell));
    text += table.ToString() + "\n";
  }
  return text;
}

std::string WinsTable(const nlohmann::json& runs, const nlohmann::json& failed_runs) {
  Table table({"phase", "engine_race", "best other", "", "ratio", "", ""});
  const std::string failures = FailuresNote(failed_runs);
  bool has_rows = false;
  for (const PhaseCells& phase : CellsOf(runs)) {
    const Cell* engine = nullptr;
    const Cell* best = nullptr;
    std::string note = failures;
    for (const Cell& cell : phase.cells) {
      const bool has_all = cell.All("has_all_records");
      if (!has_all) AddNote(cell.store + ": fewer records", &note);
      if (cell.store == kEngineName) {
        engine = &cell;
      } else if (has_all && (best == nullptr || cell.Rate() > best->Rate())) {
        best = &cell;
      }
    }
    if (engine == nullptr || best == nullptr || best->Rate() <= 0) continue;
    const double ratio = engine->Rate() / best->Rate();
    const int digits = best->Rate() < 100 ? 2 : 0;
    const bool counts = engine->All("has_all_records");
    table.AddRow({phase.phase, Fixed(engine->Rate(), digits), Fixed(best->Rate(), digits),
                  best->store, Fixed(ratio, 2),
                  !counts      ? "-"
                  : ratio >= 1 ? "win"
                               : "LOSS",
                  note});
    has_rows = true;
  }
  return has_rows ? table.ToString() : std::string();
}

}  // namespace engine_race::harness
