#include "harness/compare/claims.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine_race/base/assert.h"
#include "harness/measure/median.h"

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

}  // namespace engine_race::harness
