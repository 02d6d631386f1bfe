#include "test/faults/scenario.h"

#include <iterator>

#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kBucketBits = 2;
constexpr uint64_t kBucketStep = uint64_t{1} << (64 - kBucketBits);

class ScenarioMaker {
 public:
  explicit ScenarioMaker(Reads reads) : reads_(reads) {}

  void Add(Step::Kind kind, uint64_t key = 0) {
    const bool reads = kind == Step::Kind::kRead || kind == Step::Kind::kRange;
    if (reads && reads_ == Reads::kWithout) return;
    Step step;
    step.kind = kind;
    step.key = key;
    step.version = kind == Step::Kind::kWrite ? ++version_ : 0;
    steps_.push_back(step);
  }
  void Write(uint64_t bucket, uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i) {
      Add(Step::Kind::kWrite, bucket * kBucketStep + i % kKeysPerBucket);
    }
  }
  void Read(uint64_t bucket, uint64_t number) {
    Add(Step::Kind::kRead, bucket * kBucketStep + number);
  }
  void Reopen() {
    Add(Step::Kind::kClose);
    Add(Step::Kind::kOpen);
  }
  std::vector<Step> Take() { return std::move(steps_); }

  static constexpr uint64_t kKeysPerBucket = 40;

 private:
  const Reads reads_;
  uint64_t version_ = 0;
  std::vector<Step> steps_;
};

}  // namespace

Options ScenarioOptions(SyncMode sync_mode) {
  Options options;
  options.bucket_count = uint32_t{1} << kBucketBits;
  options.file_count = 2;
  options.bucket_capacity_records = 512;
  options.value_group_bytes = 4 * kValueBytes;
  options.memory_budget_bytes = kMinMemoryBudgetBytes;
  options.build_thread_count = 1;
  options.io_backend = IoBackend::kPsync;
  options.sync_mode = sync_mode;
  options.journal_bytes = kMinJournalBytes;
  return options;
}

uint32_t SweptValueBytes() {
  constexpr uint32_t kSizes[] = {kValueBytes, 1536, 16384};
  return kSizes[SweepSeed() / 7 % std::size(kSizes)];
}

Options StripedIn(const std::string& dir, Options options) {
  options.paths = {dir + "/path0", dir + "/path1"};
  return options;
}

std::vector<Step> MakeScenario(Reads reads, Life life) {
  ScenarioMaker maker(reads);
  maker.Add(Step::Kind::kOpen);
  // Beside full groups every bucket gets a partial one.
  for (uint64_t bucket = 0; bucket < 3; ++bucket) maker.Write(bucket, 0, 5);
  maker.Add(Step::Kind::kSync);
  maker.Write(3, 0, 6);
  maker.Write(0, 3, 4);
  maker.Read(0, 1);
  maker.Add(Step::Kind::kRange);
  maker.Add(Step::Kind::kDelete, 1);
  maker.Add(Step::Kind::kDelete, kBucketStep + 2);
  maker.Write(1, 3, 5);
  maker.Reopen();
  maker.Read(0, 1);
  maker.Read(2, 2);
  maker.Read(3, 30);
  maker.Write(2, 4, 6);
  maker.Add(Step::Kind::kSync);
  maker.Write(3, 4, 3);
  maker.Add(Step::Kind::kRange);
  if (life != Life::kShort) {
    maker.Write(0, 7, 255);
    if (life == Life::kLong) {
      for (uint64_t bucket = 1; bucket < 3; ++bucket) maker.Write(bucket, 0, 200);
    }
    maker.Reopen();
    maker.Add(Step::Kind::kRange);
    maker.Write(0, 20, 3);
  }
  maker.Add(Step::Kind::kDelete, 3 * kBucketStep);
  maker.Add(Step::Kind::kSync);
  maker.Write(1, 9, 2);
  maker.Add(Step::Kind::kClose);
  return maker.Take();
}

uint32_t ScenarioBucketOf(uint64_t key) { return static_cast<uint32_t>(key / kBucketStep); }

Contents ContentsAfter(const std::vector<Step>& steps, size_t step_count, uint32_t bucket) {
  Contents contents;
  for (size_t i = 0; i < step_count; ++i) {
    const Step& step = steps[i];
    if (bucket != kAllBuckets && ScenarioBucketOf(step.key) != bucket) continue;
    if (step.kind == Step::Kind::kWrite) contents[step.key] = step.version;
    if (step.kind == Step::Kind::kDelete) contents.erase(step.key);
  }
  return contents;
}

Contents ReadContents(Store* store, const std::vector<Step>& steps, std::string* problem) {
  Contents contents;
  uint64_t last_key = 0;
  const Status ranged = store->Range("", "", [&](std::string_view key, std::string_view value) {
    const uint64_t number = DecodeKey(key.data());
    uint64_t version = 0;
    if (!ParseValue(number, value, &version, store->value_bytes())) {
      *problem += "wrong bytes under key " + std::to_string(number) + "; ";
    }
    if (!contents.empty() && number <= last_key) *problem += "Range does not ascend; ";
    last_key = number;
    contents[number] = version;
  });
  if (!ranged.ok()) *problem += "Range: " + ranged.ToString() + "; ";
  std::set<uint64_t> keys;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::kWrite) keys.insert(step.key);
  }
  for (const uint64_t key : keys) {
    std::string value;
    const Status read = store->Read(KeyOf(key), &value);
    uint64_t version = 0;
    if (read.code() != Code::kNotFound &&
        !(read.ok() && ParseValue(key, value, &version, store->value_bytes()))) {
      *problem += "Read of key " + std::to_string(key) + ": " + read.ToString() + "; ";
    }
    const auto ranged_version = contents.find(key);
    if (version != (ranged_version == contents.end() ? 0 : ranged_version->second)) {
      *problem += "Read and Range differ at key " + std::to_string(key) + "; ";
    }
  }
  return contents;
}

void Model::Answered(uint64_t key, uint64_t version, bool acknowledged) {
  std::set<uint64_t>& versions = versions_[key];
  if (acknowledged) {
    versions.clear();
  } else if (versions.empty()) {
    versions.insert(0);
  }
  versions.insert(version);
}

bool Model::Allows(uint64_t key, uint64_t version) const {
  const auto versions = versions_.find(key);
  return versions == versions_.end() ? version == 0 : versions->second.contains(version);
}

std::string Model::Check(const Contents& contents) const {
  std::string problem;
  const auto say = [&problem](uint64_t key, uint64_t version) {
    problem += "key " + std::to_string(key) + " has version " + std::to_string(version) + "; ";
  };
  for (const auto& [key, version] : contents) {
    if (!Allows(key, version)) say(key, version);
  }
  for (const auto& [key, versions] : versions_) {
    if (!contents.contains(key) && !versions.contains(0)) say(key, 0);
  }
  return problem;
}

void Model::Settle(const Contents& contents) {
  versions_.clear();
  for (const auto& [key, version] : contents) versions_[key] = {version};
}

std::string ToString(const Contents& contents) {
  std::string text;
  for (const auto& [key, version] : contents) {
    text += std::to_string(key) + ":" + std::to_string(version) + " ";
  }
  return text;
}

}  // namespace engine_race::test
