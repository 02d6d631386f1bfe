#include "harness/crash/trial.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"

namespace engine_race::crash {
namespace {

uint64_t ValueWord(uint64_t base, uint32_t word) {
  return (base ^ (base >> 29)) + word * 0xd6e8feb86659fd93;
}

uint64_t ValueBase(const Oracle& oracle, uint64_t key, uint64_t version) {
  return harness::Mix64(key ^ oracle.salt()) ^ (version * 0xc2b2ae3d27d4eb4f);
}

template <typename... Args>
std::string Format(const char* format, Args... args) {
  char text[320];
  std::snprintf(text, sizeof(text), format, args...);
  return text;
}

std::string VersionName(uint32_t version) {
  return version == kAbsent ? "nothing" : "version " + std::to_string(version);
}

std::string BytesOf(uint64_t key) {
  std::string bytes(kKeyBytes, '\0');
  EncodeKey(key, bytes.data());
  return bytes;
}

}  // namespace

void MakeValue(const Oracle& oracle, uint32_t key_index, uint32_t version, std::string* value) {
  const uint64_t key = oracle.key(key_index);
  const uint64_t base = ValueBase(oracle, key, version);
  const uint64_t names[] = {key, version};
  for (size_t at = 0; at < value->size(); at += sizeof(uint64_t)) {
    const auto i = static_cast<uint32_t>(at / sizeof(uint64_t));
    const uint64_t word = i < 2 ? names[i] : ValueWord(base, i);
    std::memcpy(value->data() + at, &word, std::min(sizeof(word), value->size() - at));
  }
}

void Checker::Judge(const char* call, uint32_t key_index, uint32_t floor, uint32_t version) const {
  const uint64_t key = oracle_->key(key_index);
  if (!oracle_->Allows(key_index, floor, version)) {
    report_->AddViolation(Format("%s of key %016" PRIx64 " (number %u): found %s, expected %s",
                                 call, key, key_index, VersionName(version).c_str(),
                                 oracle_->Describe(key_index, floor).c_str()));
    return;
  }
  uint32_t earlier = 0;
  if (settled_ && !oracle_->Observe(key_index, version, &earlier)) {
    report_->AddViolation(
        Format("%s of key %016" PRIx64
               " (number %u): found %s, but earlier in the same recovered state %s",
               call, key, key_index, VersionName(version).c_str(), VersionName(earlier).c_str()));
  }
}

void Checker::ParseAndJudge(const char* call, uint32_t key_index, uint32_t floor,
                            std::string_view value) const {
  const uint64_t key = oracle_->key(key_index);
  if (value.size() != value_bytes_) {
    report_->AddViolation(
        Format("%s of key %016" PRIx64 ": value of %zu bytes", call, key, value.size()));
    return;
  }
  uint64_t names[2];
  std::memcpy(names, value.data(), sizeof(names));
  std::string right(value_bytes_, '\0');
  MakeValue(*oracle_, key_index, static_cast<uint32_t>(names[1]), &right);
  if (value != right || names[1] == kAbsent || names[1] > UINT32_MAX) {
    const auto first = std::mismatch(value.begin(), value.end(), right.begin()).first;
    report_->AddViolation(Format("%s of key %016" PRIx64
                                 ": wrong bytes, first is byte %td of %u; the value names"
                                 " key %016" PRIx64 " version %" PRIu64 "; expected %s",
                                 call, key, first - value.begin(), value_bytes_, names[0], names[1],
                                 oracle_->Describe(key_index, floor).c_str()));
    return;
  }
  Judge(call, key_index, floor, static_cast<uint32_t>(names[1]));
}

void Checker::CheckRead(uint32_t key_index, std::string* buffer) const {
  const uint32_t floor = oracle_->Floor(key_index);
  const uint64_t key = oracle_->key(key_index);
  const Status status = store_->Read(BytesOf(key), buffer);
  if (status.ok()) {
    ParseAndJudge("Read", key_index, floor, *buffer);
  } else if (status.code() == Code::kNotFound) {
    Judge("Read", key_index, floor, kAbsent);
  } else {
    report_->AddViolation(Format("Read of key %016" PRIx64 ": %s", key, status.ToString().c_str()));
  }
  report_->CountChecked(1);
}

struct Checker::RangeState {
  uint32_t first_rank;
  uint32_t next_rank;
  uint32_t last_rank;
  bool visited_any = false;
  uint64_t previous_key = 0;
  std::vector<uint32_t> floors;

  uint32_t FloorOfRank(uint32_t rank) const { return floors[rank - first_rank]; }
};

void Checker::Visit(RangeState* state, std::string_view key, std::string_view value) const {
  if (key.size() != kKeyBytes) {
    report_->AddViolation(Format("Range visits a key of %zu bytes", key.size()));
    return;
  }
  const uint64_t number = DecodeKey(key.data());
  if (state->visited_any && number <= state->previous_key) {
    report_->AddViolation(Format("Range visits key %016" PRIx64 " after key %016" PRIx64, number,
                                 state->previous_key));
    return;
  }
  state->visited_any = true;
  state->previous_key = number;
  while (state->next_rank < state->last_rank) {
    const uint32_t rank = state->next_rank;
    const uint32_t index = oracle_->IndexOfRank(rank);
    if (oracle_->key(index) > number) break;
    ++state->next_rank;
    if (oracle_->key(index) == number) {
      ParseAndJudge("Range", index, state->FloorOfRank(rank), value);
      return;
    }
    Judge("Range", index, state->FloorOfRank(rank), kAbsent);
  }
  report_->AddViolation(
      Format("Range visits key %016" PRIx64 ", never written or outside its bounds", number));
}

void Checker::CheckRange(uint32_t first_rank, uint32_t last_rank, bool open_bounds) const {
  RangeState state{first_rank, first_rank, last_rank, false, 0, {}};
  state.floors.reserve(last_rank - first_rank);
  for (uint32_t rank = first_rank; rank < last_rank; ++rank) {
    state.floors.push_back(oracle_->Floor(oracle_->IndexOfRank(rank)));
  }
  std::string lower;
  std::string upper;
  if (!open_bounds) {
    if (first_rank < oracle_->key_count()) {
      lower = BytesOf(oracle_->key(oracle_->IndexOfRank(first_rank)));
    }
    if (last_rank < oracle_->key_count()) {
      upper = BytesOf(oracle_->key(oracle_->IndexOfRank(last_rank)));
    }
  }
  const Status status = store_->Range(
      lower, upper,
      [&](std::string_view key, std::string_view value) { Visit(&state, key, value); });
  if (!status.ok()) {
    report_->AddViolation(Format("Range: %s", status.ToString().c_str()));
    return;
  }
  for (; state.next_rank < last_rank; ++state.next_rank) {
    Judge("Range", oracle_->IndexOfRank(state.next_rank), state.FloorOfRank(state.next_rank),
          kAbsent);
  }
  report_->CountChecked(last_rank - first_rank);
}

}  // namespace engine_race::crash
