#include "harness/compare/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "harness/compare/order.h"
#include "harness/measure/median.h"
#include "harness/measure/table.h"

namespace engine_race::harness {
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
