#include "test/power/power_run.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "engine_race/log/format.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kMaxLosses = 3;

// Whether the store's manifest names its file of rows.
bool HasRows(const std::string& dir) {
  std::ifstream manifest(dir + "/" + format::kManifestName, std::ios::binary);
  uint32_t row_form = 0;
  manifest.seekg(sizeof(format::Manifest) + offsetof(format::ManifestPaths, row_form));
  manifest.read(reinterpret_cast<char*>(&row_form), sizeof(row_form));
  return manifest.good() && row_form != 0;
}

}  // namespace

PowerRun::PowerRun(uint64_t seed, Life life, PowerTally* tally)
    : seed_(seed), life_(life), tally_(tally), random_(seed), take_random_(seed ^ 0x7a6b) {
  geometry_ = DrawPowerGeometry(life, &random_);
  names_.bucket_count = geometry_.bucket_count;
  // A third path is the store's own directory.
  path_count_ = Chance(&random_, 0.25) ? 2 + static_cast<uint32_t>(Below(&random_, 2)) : 0;
}

PowerRun::~PowerRun() = default;

Options PowerRun::PathsIn(const std::string& dir, Options options) const {
  for (uint32_t i = 0; i < path_count_; ++i) {
    options.paths.push_back(i == 2 ? dir : dir + "/path" + std::to_string(i));
  }
  return options;
}

bool PowerRun::Fail(const std::string& what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (complaint_.empty()) complaint_ = what;
  return false;
}

bool PowerRun::Run(std::string* complaint) {
  State first;
  first.dir = states_.NewDirectory();
  for (const std::string& path : PathsIn(first.dir, {}).paths) {
    std::filesystem::create_directories(path);
  }
  first.event = "creation";
  first.history = std::make_shared<WriteHistory>(names_);
  first.bounds.durable = first.bounds.begun = first.history->Begun();
  waiting_.push_back(std::move(first));
  bool good = true;
  while (good && !waiting_.empty()) {
    // Depth first, so that later losses come up as well.
    State state = std::move(waiting_.back());
    waiting_.pop_back();
    const std::string dir = state.dir;
    good = Live(std::move(state));
    std::filesystem::remove_all(dir);
  }
  *complaint = complaint_;
  return good;
}

// Opens a state, judges it, uses it, and takes the states that follow from it.
bool PowerRun::Live(State state) {
  const uint32_t losses = state.losses;
  if (losses > 0) ++tally_->states;
  if (losses > 0 && path_count_ > 0) ++tally_->striped_states;
  if (std::filesystem::exists(state.dir + "/" + format::kRowsName)) ++tally_->row_states;
  const PowerPhase phase = DrawPowerPhase(life_, &random_);
  const bool goes_on = losses == 0 || (losses < kMaxLosses && Chance(&random_, 0.6));
  PowerDisk disk(state.dir);
  const bool remounted = losses > 0 && Chance(&random_, 0.4);
  if (remounted) ++tally_->remounted_states;
  disk.boot_id_path = remounted ? state.boot_id_path : NewBootId(&states_, &random_);
  disk.mount_number = state.mount_number + (remounted ? 1 : 0);
  disk.punches_holes = !Chance(&random_, 0.2);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    history_ = state.history;
    fixed_bounds_ = state.bounds;
    bounds_are_fixed_ = true;
  }
  if (goes_on) TakeStates(&disk, phase, losses);
  std::atomic<uint64_t> flushes_left{phase.failing_flush};
  disk.fails_flush = [&](const std::string& name) {
    if (!flushes_may_fail_ || phase.failing_flush == 0 || flushes_left-- != 1) return false;
    // The index on disk is derived: the store does without it.
    const std::string file = name.substr(name.rfind('/') + 1);
    if (file == format::kManifestTempName) {
      harmless_flush_failed_ = true;
      return true;
    }
    // Reclaim tries to make its file again later.
    const bool makes_rows = file == format::kRowsName && !HasRows(state.dir);
    if (makes_rows) {
      harmless_flush_failed_ = true;
    } else if (!file.starts_with(format::kIndexFilePrefix)) {
      flush_has_failed_ = true;
    }
    return true;
  };
  const ScopedHook hook(&disk);
  const Options options = DrawPowerOptions(geometry_, phase, &random_);
  std::shared_ptr<WriteHistory> next;
  bool good = OpenState(state, options) && JudgeState(state, &next);
  if (!good) {
    store_.reset();
    complaint_ += "\nthe state was taken " + state.event + ", after " + std::to_string(losses) +
                  " losses of power";
    return false;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    history_ = std::move(next);
    bounds_are_fixed_ = false;
  }
  if (goes_on) {
    good = Use(state.dir, phase, options, &disk);
  } else {
    good = CloseAndVerify(state.dir, options);
  }
  store_.reset();
  if (good && disk.on_event) disk.on_event("after the close");
  return good;
}

// Lets states be taken of the present store.
void PowerRun::TakeStates(PowerDisk* disk, const PowerPhase& phase, uint32_t losses) {
  const std::lock_guard<std::mutex> lock(mutex_);
  states_to_take_ = std::min(kStatesPerRun - states_made_,
                             losses == 0 ? 2 + Below(&random_, 3) : 1 + Below(&random_, 2));
  take_in_opening_ = Chance(&random_, 0.25);
  take_in_compact_ = !take_in_opening_ && phase.compact_chance > 0 && Chance(&random_, 0.6);
  // Roughly how many events there will be; the last states may find none left.
  constexpr uint64_t kCreationEvents = 100;
  constexpr uint64_t kOpeningEvents = 40;
  const uint64_t events = take_in_opening_ ? (losses == 0 ? kCreationEvents : kOpeningEvents)
                                           : 2 * phase.write_count * phase.thread_count;
  constexpr uint64_t kCompactGap = 40;
  mean_gap_ = take_in_compact_ ? kCompactGap : events / (states_to_take_ + 1) + 1;
  events_to_next_ = Below(&random_, 2 * mean_gap_);
  disk->on_event = [this, disk, losses](const std::string& event) { OnEvent(disk, event, losses); };
}

void PowerRun::OnEvent(PowerDisk* disk, const std::string& event, uint32_t losses) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (states_to_take_ == 0 || (bounds_are_fixed_ && !take_in_opening_)) return;
  if (take_in_compact_ && compacting_count_ == 0) return;
  if (events_to_next_-- > 0) return;
  events_to_next_ = Below(&take_random_, 2 * mean_gap_);
  --states_to_take_;
  TakeState(disk, event, losses);
}

// Under mutex_.
void PowerRun::TakeState(PowerDisk* disk, const std::string& event, uint32_t losses) {
  State state;
  state.dir = states_.NewDirectory();
  state.event = event;
  state.history = history_;
  state.losses = losses + 1;
  state.boot_id_path = disk->boot_id_path;
  state.mount_number = disk->mount_number;
  state.bounds.durable = history_->Durable();
  disk->Crash(&take_random_, state.dir);
  state.bounds.begun = history_->Begun();
  if (bounds_are_fixed_) {
    state.bounds = fixed_bounds_;
    ++(losses == 0 ? tally_->creation_states : tally_->recovery_states);
  }
  if (compacting_count_ > 0) ++tally_->compacting_states;
  ++states_made_;
  waiting_.push_back(std::move(state));
}

bool PowerRun::Open(const std::string& dir, const Options& options) {
  sync_mode_ = options.sync_mode;
  const Status status = Store::Open(AsRun(PathsIn(dir, options)), dir, &store_);
  return status.ok() || Fail("open: " + status.ToString());
}

// Opens a state that a loss of power has left.
bool PowerRun::OpenState(const State& state, const Options& options) {
  if (!Chance(&random_, 0.15)) return Open(state.dir, options);
  uint64_t foretold = 0;
  if (!Verify(state.dir, &foretold) || !Open(state.dir, options)) return false;
  // Verify counts what rows hold.
  return HasRows(state.dir) || store_->Stats().record_count == foretold ||
         Fail("Verify foretold " + std::to_string(foretold) + " records");
}

bool PowerRun::ReadAll(Contents* contents) {
  std::string wrong;
  const Status ranged = store_->Range("", "", [&](std::string_view key, std::string_view value) {
    const uint64_t number = DecodeKey(key.data());
    uint64_t version = 0;
    if (!ParseValue(number, value, &version, geometry_.value_bytes)) wrong = "a mixed value";
    if (!contents->empty() && contents->rbegin()->first >= number) wrong = "a range out of order";
    contents->emplace(number, version);
  });
  if (!ranged.ok()) return Fail("range: " + ranged.ToString());
  if (!wrong.empty()) return Fail(wrong);
  for (const auto& [key, version] : *contents) {
    std::string value;
    uint64_t read_version = 0;
    const Status read = store_->Read(test::KeyOf(key), &value);
    if (!read.ok()) return Fail("read of a key that Range has: " + read.ToString());
    if (!ParseValue(key, value, &read_version, geometry_.value_bytes) || read_version != version) {
      return Fail("Read and Range differ");
    }
  }
  return true;
}

bool PowerRun::JudgeState(const State& state, std::shared_ptr<WriteHistory>* next) {
  const StoreStats stats = store_->Stats();
  Contents seen;
  if (!ReadAll(&seen)) return false;
  *next = std::make_shared<WriteHistory>(names_);
  WriteHistory::Outcome outcome = state.history->Judge(state.bounds, seen, next->get());
  if (!outcome.good) return Fail(outcome.complaint);
  // Keys that Range has not must not be read either.
  for (int i = 0; i < 8; ++i) {
    const uint64_t key = names_.KeyOf(
        static_cast<uint32_t>(Below(&random_, names_.bucket_count)),
        static_cast<uint32_t>(Below(&random_, LaneNames::kThreadCount)), Below(&random_, 512));
    std::string value;
    const Code code = store_->Read(test::KeyOf(key), &value).code();
    if (code != (seen.contains(key) ? Code::kOk : Code::kNotFound)) {
      return Fail("read: " + std::string(CodeName(code)));
    }
  }
  if (stats.record_count < outcome.least_records || stats.record_count > outcome.most_records) {
    return Fail("there are " + std::to_string(stats.record_count) + " records, not " +
                std::to_string(outcome.least_records) + " to " +
                std::to_string(outcome.most_records));
  }
  if (state.is_verified && stats.synced_record_count != stats.record_count) {
    return Fail("of " + std::to_string(stats.record_count) + " records found after a power loss " +
                std::to_string(stats.synced_record_count) + " are synced");
  }
  tally_->lost_writes += outcome.lost_writes;
  if (outcome.lost_writes > 0) {
    ++tally_->lossy_states;
  } else if (state.bounds.durable != state.bounds.begun) {
    ++tally_->whole_states;
  }
  return true;
}

bool PowerRun::Use(const std::string& dir, const PowerPhase& phase, const Options& options,
                   PowerDisk* disk) {
  Options now = options;
  for (uint64_t done = 0; done < phase.write_count;) {
    const uint64_t count = Chance(&random_, phase.reopen_chance * 10)
                               ? 1 + Below(&random_, phase.write_count - done)
                               : phase.write_count - done;
    std::vector<std::thread> threads;
    const auto steps = [&](uint32_t thread, uint64_t seed) {
      Random random(seed);
      for (uint64_t i = 0; i < count && !flush_has_failed_; ++i) {
        if (!Step(phase, thread, &random, disk)) return;
      }
    };
    flushes_may_fail_ = true;
    for (uint32_t t = 1; t < phase.thread_count; ++t) threads.emplace_back(steps, t, random_());
    steps(0, random_());
    for (std::thread& thread : threads) thread.join();
    flushes_may_fail_ = false;
    if (!complaint_.empty()) return false;
    if (flush_has_failed_ && !ReopenAfterFailure(dir, now)) return false;
    done += count;
    if (done >= phase.write_count) break;
    if (!CloseAndVerify(dir, now)) return false;
    now = DrawPowerOptions(geometry_, phase, &random_);
    if (!Open(dir, now) || !CheckWhole("after a reopening")) return false;
  }
  return CheckWhole("at the end") && CloseAndVerify(dir, now);
}

// Whether a call failed because of the flush that was made to fail.
bool PowerRun::ExpectedFailure(const Status& status) {
  // The history goes on after a reopening, which shows whether the write is there.
  if (harmless_flush_failed_) flush_has_failed_ = true;
  // Nothing can be freed of a full bucket then.
  return flush_has_failed_ && (status.code() == Code::kIOError || status.code() == Code::kFull);
}

// A store that has seen a flush fail takes nothing any more until it is opened again, and has then
// all that it acknowledged.
bool PowerRun::ReopenAfterFailure(const std::string& dir, const Options& options) {
  // A failed flush of the manifest's draft or of new rows fails a move alone.
  State state;
  state.is_verified = !harmless_flush_failed_.exchange(false);
  if (state.is_verified) {
    const Status synced = store_->Sync();
    if (synced.code() != Code::kIOError) return Fail("sync after failure: " + synced.ToString());
    const uint64_t key = names_.KeyOf(0, 0, 0);
    const Status written = store_->Write(test::KeyOf(key), ValueOf(key, 1, geometry_.value_bytes));
    if (written.code() != Code::kIOError) return Fail("write after failure: " + written.ToString());
  }
  store_.reset();
  flush_has_failed_ = false;
  state.history = history_;
  state.bounds = {history_->Acknowledged(), history_->Begun()};
  std::shared_ptr<WriteHistory> next;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // States taken in this opening: nothing is durable but what was before.
    fixed_bounds_ = {history_->Durable(), history_->Begun()};
    bounds_are_fixed_ = true;
  }
  if (!Open(dir, options) || !JudgeState(state, &next)) {
    complaint_ += "\nin the opening after a failed flush";
    return false;
  }
  // The history begins anew with records that are durable.
  if (!state.is_verified) {
    const Status synced = store_->Sync();
    if (!synced.ok()) return Fail("sync after a batch failed: " + synced.ToString());
  }
  ++tally_->failed_flushes;
  const std::lock_guard<std::mutex> lock(mutex_);
  history_ = std::move(next);
  bounds_are_fixed_ = false;
  return true;
}

bool PowerRun::Step(const PowerPhase& phase, uint32_t thread, Random* random, PowerDisk* disk) {
  if (Chance(random, phase.look_chance)) disk->Look();
  if (Chance(random, phase.sync_chance) && !SyncOne()) return false;
  if (Chance(random, 0.03) && !ReadOne(phase, random)) return false;
  if (Chance(random, phase.compact_chance) && !CompactOne()) return false;
  const bool wrote = Chance(random, phase.batch_chance) ? WriteMany(phase, thread, random)
                                                        : WriteOne(phase, thread, random);
  if (!wrote) return false;
  if (disk->on_event) disk->on_event("between two writes");
  return true;
}

bool PowerRun::CheckWhole(const char* when) {
  Contents seen;
  if (!ReadAll(&seen)) return false;
  return seen == history_->Whole() || Fail(std::string("the store differs ") + when);
}

bool PowerRun::CloseAndVerify(const std::string& dir, const Options& options) {
  TallyReclaim();
  store_.reset();
  if (options.sync_on_close) history_->MarkDurable(history_->Acknowledged());
  uint64_t record_count = 0;
  return !Chance(&random_, 0.1) || Verify(dir, &record_count);
}

// *record_count: how many records the next opening will find.
bool PowerRun::Verify(const std::string& dir, uint64_t* record_count) {
  VerifyReport report;
  std::string bad;
  const Status status =
      Store::Verify(PathsIn(dir, geometry_), dir, &report, [&](const BadRecord& record) {
        bad += " " + record.file + " slot " + std::to_string(record.slot) + ": " + record.what;
      });
  *record_count = report.record_count;
  // A creation that was cut short has left no store.
  return status.ok() || status.code() == Code::kNotFound ||
         Fail("verify: " + status.ToString() + bad);
}

}  // namespace engine_race::test
