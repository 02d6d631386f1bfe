#include "harness/crash/oracle.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "harness/data/mix.h"

namespace engine_race::crash {

namespace {

constexpr uint64_t Pack(uint32_t key_index, uint32_t version) {
  return (uint64_t{key_index} + 1) << 32 | version;
}

void RaiseTo(std::atomic<uint32_t>& value, uint32_t at_least) {
  uint32_t seen = value.load();
  while (seen < at_least && !value.compare_exchange_weak(seen, at_least)) {
  }
}

}  // namespace

Oracle::Oracle(uint32_t max_key_count, uint32_t max_thread_count)
    : states_(max_key_count),
      threads_(max_thread_count),
      keys_(max_key_count),
      by_rank_(max_key_count) {}

void Oracle::Reset(const Shape& shape) {
  key_count_ = shape.key_count;
  delete_permille_ = shape.delete_permille;
  salt_ = shape.seed;
  for (uint32_t i = 0; i < key_count_; ++i) {
    KeyState& state = states_[i];
    state.started.store(0);
    state.floor.store(0);
    state.observed.store(0);
    state.base = 0;
    state.settled = kAbsent;
    keys_[i] = KeyAt(shape, i);
  }
  uint32_t* ranks = by_rank_.data();
  std::iota(ranks, ranks + key_count_, 0);
  std::sort(ranks, ranks + key_count_, [&](uint32_t a, uint32_t b) { return keys_[a] < keys_[b]; });
  for (uint32_t rank = 1; rank < key_count_; ++rank) {
    if (keys_[ranks[rank]] == keys_[ranks[rank - 1]]) {
      throw std::logic_error("two keys of one shape are the same");
    }
  }
  for (size_t t = 0; t < threads_.size(); ++t) threads_[t].acknowledged.store(0);
  StartCycle();
}

void Oracle::StartCycle() {
  for (size_t t = 0; t < threads_.size(); ++t) threads_[t].running.store(0);
}

bool Oracle::Settle() {
  for (uint32_t i = 0; i < key_count_; ++i) {
    if (states_[i].observed.load() == 0) return false;
  }
  for (uint32_t i = 0; i < key_count_; ++i) {
    KeyState& state = states_[i];
    state.settled = state.observed.load() - 1;
    state.base = state.started.load();
    state.floor.store(state.base);
    state.observed.store(0);
  }
  return true;
}

// All accesses are sequentially consistent. Each writer stores `running` before it draws its
// version. So a writer that draws a later version must see that `running`, or that it has ended.
Ticket Oracle::Begin(uint32_t thread, uint32_t key_index) {
  KeyState& state = states_[key_index];
  threads_[thread].running.store(Pack(key_index, state.started.load() + 1));
  Ticket ticket{key_index, state.started.fetch_add(1) + 1, 0};
  ticket.floor = ticket.version;
  for (uint32_t t = 0; t < threads_.size(); ++t) {
    if (t == thread) continue;
    const uint64_t running = threads_[t].running.load();
    if (running >> 32 == Pack(key_index, 0) >> 32) {
      ticket.floor = std::min(ticket.floor, static_cast<uint32_t>(running));
    }
  }
  return ticket;
}

void Oracle::End(uint32_t thread, const Ticket& ticket) {
  RaiseTo(states_[ticket.key_index].floor, ticket.floor);
  threads_[thread].running.store(0);
  threads_[thread].acknowledged.fetch_add(1);
}

bool Oracle::IsDelete(uint32_t key_index, uint32_t version) const {
  return harness::Mix64(salt_ + keys_[key_index] * 31 + version) % 1000 < delete_permille_;
}

bool Oracle::Allows(uint32_t key_index, uint32_t floor, uint32_t version) const {
  const KeyState& state = states_[key_index];
  if (floor <= state.base && version == state.settled) return true;
  const uint32_t first = std::max(floor, state.base + 1);
  const uint32_t last = state.started.load();
  if (version != kAbsent) {
    return version >= first && version <= last && !IsDelete(key_index, version);
  }
  for (uint32_t v = first; v <= last; ++v) {
    if (IsDelete(key_index, v)) return true;
  }
  return false;
}

bool Oracle::Observe(uint32_t key_index, uint32_t version, uint32_t* earlier) {
  uint32_t seen = 0;
  if (states_[key_index].observed.compare_exchange_strong(seen, version + 1)) return true;
  *earlier = seen - 1;
  return seen == version + 1;
}

std::string Oracle::Describe(uint32_t key_index, uint32_t floor) const {
  const KeyState& state = states_[key_index];
  const uint32_t first = std::max(floor, state.base + 1);
  const uint32_t last = state.started.load();
  std::string text;
  if (floor <= state.base) {
    text = state.settled == kAbsent ? "nothing" : "version " + std::to_string(state.settled);
    text += " as last verified";
  }
  if (first > last) return text;
  if (!text.empty()) text += ", or ";
  text += "a version in " + std::to_string(first) + ".." + std::to_string(last);
  std::string deletes;
  for (uint32_t v = first; v <= last && deletes.size() < 40; ++v) {
    if (IsDelete(key_index, v)) deletes += " " + std::to_string(v);
  }
  return text + (deletes.empty() ? " (no deletes)" : " (deletes:" + deletes + ")");
}

uint64_t Oracle::AcknowledgedCount() const {
  uint64_t sum = 0;
  for (size_t t = 0; t < threads_.size(); ++t) sum += threads_[t].acknowledged.load();
  return sum;
}

namespace {

constexpr uint64_t kMib = 1 << 20;

// Of values, each as likely: some share blocks, and some are many blocks.
constexpr uint32_t kSizes[] = {16, 100, 512, 1536, 5000, 16384, 65536, 1 << 20};

// Sizes so small that groups fill, the journal changes halves and key pages are written all the
// time.
void MakeTiny(Rng& rng, Options* geometry) {
  geometry->bucket_count = uint32_t{1} << Uniform(rng, 0, 6);
  geometry->file_count =
      std::min<uint32_t>(geometry->bucket_count, uint32_t{1} << Uniform(rng, 0, 3));
  geometry->value_group_bytes = uint32_t{4096} << Uniform(rng, 0, 2);
  geometry->key_group_bytes = 4096;
  geometry->bucket_capacity_records = uint64_t{1} << Uniform(rng, 20, 26);
}

// No run of the index stays in memory. Extents and roots are written all the time, by Sync and by
// closing alone, or only where memory asks for it.
void PageIndex(Rng& rng, Options* options) {
  options->index_memory_bytes = 0;
  options->memory_budget_bytes = LeastMemoryBudgetBytes(options->value_bytes);
  options->index_idle_ms = Chance(rng, 0.6) ? 1 : 0;
  if (Chance(rng, 0.2)) options->index_sync_bytes = 0;
  if (Chance(rng, 0.2)) options->index_close_bytes = 0;
}

}  // namespace

uint64_t Uniform(Rng& rng, uint64_t low, uint64_t high) {
  return std::uniform_int_distribution<uint64_t>(low, high)(rng);
}

uint64_t LogUniform(Rng& rng, uint64_t low, uint64_t high) {
  const int low_bits = std::bit_width(low) - 1;
  const int high_bits = std::bit_width(high) - 1;
  const uint64_t floor = uint64_t{1} << Uniform(rng, low_bits, high_bits);
  return std::clamp(Uniform(rng, floor, 2 * floor - 1), low, high);
}

bool Chance(Rng& rng, double probability) { return std::bernoulli_distribution(probability)(rng); }

Shape MakeShape(Rng& rng, KeyChoice keys, GeometryChoice geometry, IndexChoice index,
                uint32_t max_key_count) {
  Shape shape;
  shape.index = index;
  shape.seed = rng();
  shape.key_count =
      static_cast<uint32_t>(LogUniform(rng, std::min<uint32_t>(64, max_key_count), max_key_count));
  shape.skewed = keys == KeyChoice::kSkewed || (keys == KeyChoice::kBoth && Chance(rng, 0.5));
  shape.sequential = shape.skewed && Chance(rng, 0.3);
  shape.hot_key_count = std::min<uint32_t>(shape.key_count, uint32_t{1} << Uniform(rng, 0, 4));
  shape.delete_permille = Chance(rng, 0.25) ? 0 : static_cast<uint32_t>(Uniform(rng, 10, 300));
  if (geometry == GeometryChoice::kTiny || Chance(rng, 0.6)) MakeTiny(rng, &shape.geometry);
  if (Chance(rng, 0.5)) shape.geometry.value_bytes = kSizes[Uniform(rng, 0, std::size(kSizes) - 1)];
  return shape;
}

uint64_t KeyAt(const Shape& shape, uint32_t index) {
  const uint64_t x = shape.seed + index;
  if (!shape.skewed || index % 8 == 7) return harness::Mix64(x);
  if (shape.sequential) return index;
  constexpr uint64_t kLowMask = (uint64_t{1} << 48) - 1;
  // An odd factor permutes the 48 bits.
  return (harness::Mix64(shape.seed) & ~kLowMask) | ((x * 0x9e3779b97f4a7c15) & kLowMask);
}

uint32_t PickKey(const Shape& shape, Rng& rng) {
  const uint64_t draw = rng();
  if (shape.skewed && (draw >> 62) < 2) {
    return static_cast<uint32_t>((draw & 0xffff) % shape.hot_key_count);
  }
  return static_cast<uint32_t>((draw & 0xffffffff) % shape.key_count);
}

Options DrawOptions(const Shape& shape, Rng& rng) {
  Options options = shape.geometry;
  options.memory_budget_bytes =
      Chance(rng, 0.3) ? LeastMemoryBudgetBytes(options.value_bytes) : 256 * kMib;
  options.build_thread_count = static_cast<uint32_t>(Uniform(rng, 0, 4));
  options.io_backend = Chance(rng, 0.5)   ? IoBackend::kAuto
                       : Chance(rng, 0.5) ? IoBackend::kPsync
                                          : IoBackend::kLibaio;
  options.verify_checksums = Chance(rng, 0.7);
  options.sync_mode = Chance(rng, 0.6)   ? SyncMode::kNone
                      : Chance(rng, 0.5) ? SyncMode::kEveryWrite
                                         : SyncMode::kGroup;
  options.sync_on_close = Chance(rng, 0.3);
  options.journal_bytes = kMinJournalBytes;
  if (Chance(rng, 0.3)) options.staging_mode = StagingMode::kWritten;
  if (shape.index == IndexChoice::kPaged || Chance(rng, 0.3)) PageIndex(rng, &options);
  return options;
}

std::string Shape::ToString() const {
  std::ostringstream out;
  out << key_count << " keys "
      << (skewed ? sequential ? "(sequential, hot)" : "(skewed, hot)" : "(uniform)") << ", deletes "
      << delete_permille / 10.0 << "%, buckets " << geometry.bucket_count << " in "
      << geometry.file_count << " files, value groups " << geometry.value_group_bytes / 1024
      << " KiB, bucket capacity " << geometry.bucket_capacity_records << ", values of "
      << geometry.value_bytes << " bytes";
  return out.str();
}

}  // namespace engine_race::crash
