// A judging program whose own names are those of the engine's inside and of libraries that the
// engine uses. It must link, and neither side may end up with the other's definitions.
#include <map>
#include <memory>
#include <stdexcept>

#include "engine_race/engine_race.h"
#include "include/engine.h"
#include "test/judges/judge.h"

std::atomic<int> strangers(0);

// Names of C libraries. Whoever in the engine calls one of these has met a stranger.
extern "C" {
int numa_available() { return ++strangers; }
void* numa_alloc_onnode(size_t, int) { return ++strangers, nullptr; }
int io_setup(int, void*) { return ++strangers; }
int io_submit(void*, long, void*) { return ++strangers; }
int io_getevents(void*, long, long, void*, void*) { return ++strangers; }
int io_destroy(void*) { return ++strangers; }
int io_uring_queue_init_params(unsigned, void*, void*) { return ++strangers; }
int io_uring_enable_rings(void*) { return ++strangers; }
int io_uring_submit_and_wait(void*, unsigned) { return ++strangers; }
unsigned io_uring_peek_batch_cqe(void*, void**, unsigned) { return ++strangers, 0; }
void io_uring_queue_exit(void*) { ++strangers; }
uint64_t XXH64(const void*, size_t, uint64_t) { return ++strangers; }
uint64_t XXH3_64bits(const void*, size_t) { return ++strangers; }
uint64_t XXH3_64bits_withSeed(const void*, size_t, uint64_t) { return ++strangers; }
}

class Status {
 public:
  Status() { ++strangers; }
  bool ok() const;
};
bool Status::ok() const { return ++strangers < 0; }

// The engine's own inner names, with the same signatures where a call could go astray.
namespace engine_race {

class BucketLog {
 public:
  virtual ~BucketLog();
  int Append(uint64_t key, const char* value);
  uint64_t RecordCount(uint32_t bucket) const;
};
BucketLog::~BucketLog() { ++strangers; }
int BucketLog::Append(uint64_t, const char*) { return ++strangers; }
uint64_t BucketLog::RecordCount(uint32_t) const { return ++strangers; }

class Index {
 public:
  virtual ~Index();
  int Prepare(uint32_t bucket);
  uint64_t memory_bytes() const;
};
Index::~Index() { ++strangers; }
int Index::Prepare(uint32_t) { return ++strangers; }
uint64_t Index::memory_bytes() const { return ++strangers; }

class RangeReader {
 public:
  ~RangeReader();
};
RangeReader::~RangeReader() { ++strangers; }

uint64_t Hash64(const void*, size_t, uint64_t) { return ++strangers; }
uint64_t HashValue(const void*, size_t) { return ++strangers; }
// What the engine has as inline functions.
uint64_t DecodeKey(const char*) { return ++strangers; }
void EncodeKey(uint64_t, char*) { ++strangers; }
uint64_t MixWords(uint64_t, uint64_t) { return ++strangers; }
bool ValueMatches(const char*, size_t, uint32_t) { return ++strangers != 0; }

namespace sys {
int PwriteFull(int, const void*, size_t, uint64_t) { return ++strangers; }
int Fsync(int) { return ++strangers; }
}  // namespace sys

namespace io {
class File {
 public:
  int Sync() const;
};
int File::Sync() const { return ++strangers; }
}  // namespace io

}  // namespace engine_race

namespace {

using judge::Key;
using judge::Spread;
using judge::Value;
using polar_race::Engine;
using polar_race::PolarString;

class ThrowingVisitor : public polar_race::Visitor {
 public:
  void Visit(const PolarString&, const PolarString&) { throw std::runtime_error("stop"); }
};

void NobodyMeetsAStranger(const judge::Directory& dir) {
  const uint64_t kRecords = 3000;
  for (int round = 0; round < 2; ++round) {
    Engine* opened = nullptr;
    JUDGE_CHECK(Engine::Open(dir.Store("store"), &opened) == polar_race::kSucc);
    if (opened == nullptr) return;
    const std::unique_ptr<Engine> engine(opened);
    for (uint64_t i = 0; i < kRecords; ++i) {
      JUDGE_CHECK(engine->Write(Key(Spread(i)), Value(i, round)) == polar_race::kSucc);
    }
    std::string value;
    for (uint64_t i = 0; i < kRecords; ++i) {
      JUDGE_CHECK(engine->Read(Key(Spread(i)), &value) == polar_race::kSucc);
      JUDGE_CHECK(value == Value(i, round));
    }
    ThrowingVisitor visitor;
    bool caught = false;
    try {
      engine->Range("", "", visitor);
    } catch (const std::runtime_error&) {
      caught = true;
    }
    JUDGE_CHECK(caught);
  }
  JUDGE_CHECK(strangers == 0);
}

void TheJudgeKeepsItsOwn(const judge::Directory&) {
  const int before = strangers;
  {
    engine_race::BucketLog log;
    engine_race::Index index;
    engine_race::RangeReader reader;
    Status status;
    JUDGE_CHECK(!status.ok());
    log.Append(1, "");
    index.Prepare(1);
    engine_race::HashValue("", 0);
    engine_race::DecodeKey("");
    engine_race::sys::Fsync(0);
    engine_race::io::File().Sync();
    numa_available();
    XXH64("", 0, 0);
  }
  JUDGE_CHECK(strangers == before + 13);
}

}  // namespace

int main() {
  bool held = true;
  held &= judge::RunCase("a clashing judge and the engine keep apart", NobodyMeetsAStranger);
  held &= judge::RunCase("a clashing judge calls its own", TheJudgeKeepsItsOwn);
  return held ? 0 : 1;
}
