#include "engine_race/engine_race.h"

#include <memory>
#include <new>
#include <string_view>

#include "engine_race/base/memory_limit.h"
#include "engine_race/store.h"

namespace polar_race {
namespace {

using engine_race::Code;
using engine_race::Status;

static_assert(static_cast<int>(Code::kOk) == kSucc);
static_assert(static_cast<int>(Code::kNotFound) == kNotFound);
static_assert(static_cast<int>(Code::kCorruption) == kCorruption);
static_assert(static_cast<int>(Code::kNotSupported) == kNotSupported);
static_assert(static_cast<int>(Code::kInvalidArgument) == kInvalidArgument);
static_assert(static_cast<int>(Code::kIOError) == kIOError);
static_assert(static_cast<int>(Code::kIncomplete) == kIncomplete);
static_assert(static_cast<int>(Code::kTimedOut) == kTimedOut);
static_assert(static_cast<int>(Code::kFull) == kFull);
static_assert(static_cast<int>(Code::kOutOfMemory) == kOutOfMemory);

RetCode ToRetCode(const Status& status) {
  return static_cast<RetCode>(static_cast<int>(status.code()));
}

std::string_view View(const PolarString& s) { return std::string_view(s.data(), s.size()); }

}  // namespace

RetCode Engine::Open(const std::string& name, Engine** eptr) {
  return EngineRace::Open(name, eptr);
}

RetCode EngineRace::Open(const std::string& name, Engine** eptr) {
  if (eptr == nullptr) return kInvalidArgument;
  *eptr = nullptr;
  std::unique_ptr<engine_race::Store> store;
  engine_race::Options options;
  // The contest gives so much to a process. Where there is clearly less, the store takes its usual
  // share. Machines that are sold with 2 GiB report a little less.
  constexpr uint64_t kContestBytes = uint64_t{2} << 30;
  if (engine_race::MemoryLimit() >= kContestBytes / 8 * 7) {
    options.memory_budget_bytes = kContestBytes;
  }
  // A judge may keep files of its own beside the store.
  options.create_among_files = true;
  const Status opened = engine_race::Store::Open(options, name, &store);
  if (!opened.ok()) return ToRetCode(opened);
  *eptr = new (std::nothrow) EngineRace(store.get());
  if (*eptr == nullptr) return kOutOfMemory;
  static_cast<void>(store.release());  // owned by the engine now
  return kSucc;
}

EngineRace::~EngineRace() { delete store_; }

RetCode EngineRace::Write(const PolarString& key, const PolarString& value) {
  return ToRetCode(store_->Write(View(key), View(value)));
}

RetCode EngineRace::Read(const PolarString& key, std::string* value) {
  return ToRetCode(store_->Read(View(key), value));
}

RetCode EngineRace::Range(const PolarString& lower, const PolarString& upper, Visitor& visitor) {
  return ToRetCode(store_->Range(
      View(lower), View(upper), [&visitor](std::string_view key, std::string_view value) {
        visitor.Visit(PolarString(key.data(), key.size()), PolarString(value.data(), value.size()));
      }));
}

}  // namespace polar_race
