// A judging program as the contest has it: C++11, the contest's headers, the archive and no other
// library. Writes, reads and ranges by 64 threads, and what a judge may do beside that.
#include <memory>
#include <stdexcept>

#include "engine_race/engine_race.h"
#include "include/engine.h"
#include "test/judges/judge.h"

namespace {

using judge::Directory;
using judge::Key;
using judge::Number;
using judge::Spread;
using judge::Value;
using polar_race::Engine;
using polar_race::EngineRace;
using polar_race::PolarString;
using polar_race::RetCode;

const int kThreads = 64;
const uint64_t kPerThread = 150;
const uint64_t kRecords = kThreads * kPerThread;

typedef std::unique_ptr<Engine> EnginePtr;

EnginePtr Open(const std::string& dir) {
  Engine* engine = nullptr;
  JUDGE_CHECK(Engine::Open(dir, &engine) == polar_race::kSucc);
  if (engine == nullptr) throw std::runtime_error("Open gave no engine");
  return EnginePtr(engine);
}

void WriteAll(Engine* engine, uint64_t version) {
  judge::InThreads(kThreads, [&](int thread) {
    for (uint64_t i = thread * kPerThread; i < (thread + 1) * kPerThread; ++i) {
      JUDGE_CHECK(engine->Write(Key(Spread(i)), Value(i, version)) == polar_race::kSucc);
    }
  });
}

void ReadAll(Engine* engine, uint64_t version) {
  judge::InThreads(kThreads, [&](int thread) {
    std::string value;
    for (uint64_t i = thread; i < kRecords; i += kThreads) {
      JUDGE_CHECK(engine->Read(Key(Spread(i)), &value) == polar_race::kSucc);
      JUDGE_CHECK(value == Value(i, version));
    }
  });
}

// Counts, and checks that the keys ascend.
class OrderVisitor : public polar_race::Visitor {
 public:
  OrderVisitor() : count(0), last_(0) {}
  void Visit(const PolarString& key, const PolarString& value) {
    JUDGE_CHECK(key.size() == judge::kKeyBytes && value.size() == judge::kValueBytes);
    const uint64_t number = Number(key.data());
    JUDGE_CHECK(count == 0 || number > last_);
    last_ = number;
    ++count;
  }
  uint64_t count;

 private:
  uint64_t last_;
};

struct VisitorFailure : std::runtime_error {
  VisitorFailure() : std::runtime_error("the visitor's own exception") {}
};

class ThrowingVisitor : public polar_race::Visitor {
 public:
  explicit ThrowingVisitor(uint64_t visits) : left_(visits) {}
  void Visit(const PolarString&, const PolarString&) {
    if (left_-- == 0) throw VisitorFailure();
  }

 private:
  uint64_t left_;
};

void ThreePhases(const Directory& dir) {
  { WriteAll(Open(dir.Store("store")).get(), 1); }
  { ReadAll(Open(dir.Store("store")).get(), 1); }
  EnginePtr engine = Open(dir.Store("store"));
  for (int pass = 0; pass < 2; ++pass) {
    judge::InThreads(kThreads, [&](int) {
      OrderVisitor visitor;
      JUDGE_CHECK(engine->Range("", "", visitor) == polar_race::kSucc);
      JUDGE_CHECK(visitor.count == kRecords);
    });
  }
}

void OpenThroughEngineRace(const Directory& dir) {
  Engine* engine = nullptr;
  JUDGE_CHECK(EngineRace::Open(dir.Store("store"), &engine) == polar_race::kSucc);
  if (engine == nullptr) return;
  const EnginePtr owner(engine);
  // The class is one and the same on both sides of the archive.
  JUDGE_CHECK(dynamic_cast<EngineRace*>(engine) != nullptr);
  JUDGE_CHECK(engine->Write(Key(7), Value(7, 1)) == polar_race::kSucc);
  std::string value;
  JUDGE_CHECK(engine->Read(Key(7), &value) == polar_race::kSucc && value == Value(7, 1));
  JUDGE_CHECK(engine->Read(Key(8), &value) == polar_race::kNotFound && value == Value(7, 1));
}

void WritesAfterReopening(const Directory& dir) {
  { WriteAll(Open(dir.Store("store")).get(), 1); }
  EnginePtr engine = Open(dir.Store("store"));
  WriteAll(engine.get(), 2);
  ReadAll(engine.get(), 2);
  engine.reset();
  engine = Open(dir.Store("store"));
  ReadAll(engine.get(), 2);
}

void Bounds(const Directory& dir) {
  EnginePtr engine = Open(dir.Store("store"));
  for (uint64_t i = 10; i < 20; ++i) engine->Write(Key(i), Value(i, 1));
  const struct {
    std::string lower, upper;
    uint64_t count;
  } cases[] = {
      {"", "", 10},          {Key(12), "", 8},      {"", Key(12), 2},        {Key(12), Key(15), 3},
      {Key(12), Key(12), 0}, {Key(15), Key(12), 0}, {Key(0), Key(~0ull), 10}};
  for (const auto& c : cases) {
    OrderVisitor visitor;
    JUDGE_CHECK(engine->Range(c.lower, c.upper, visitor) == polar_race::kSucc);
    JUDGE_CHECK(visitor.count == c.count);
  }
}

void VisitorThrows(const Directory& dir) {
  EnginePtr engine = Open(dir.Store("store"));
  WriteAll(engine.get(), 1);
  judge::InThreads(kThreads, [&](int thread) {
    const uint64_t visits = thread * 100;
    bool caught = false;
    try {
      ThrowingVisitor visitor(visits);
      engine->Range("", "", visitor);
    } catch (const VisitorFailure&) {
      caught = true;
    }
    JUDGE_CHECK(caught);
  });
  OrderVisitor visitor;
  JUDGE_CHECK(engine->Range("", "", visitor) == polar_race::kSucc);
  JUDGE_CHECK(visitor.count == kRecords);
}

// Reads, writes and ranges from inside a visit.
class BusyVisitor : public polar_race::Visitor {
 public:
  explicit BusyVisitor(Engine* engine) : engine_(engine), visits_(0) {}
  void Visit(const PolarString& key, const PolarString& value) {
    if (++visits_ % 64 != 0) return;
    std::string read;
    JUDGE_CHECK(engine_->Read(key, &read) == polar_race::kSucc);
    JUDGE_CHECK(PolarString(read) == value);
    JUDGE_CHECK(engine_->Write(key, read) == polar_race::kSucc);
    OrderVisitor inner;
    const std::string upper = Key(Number(key.data()) + 1);
    JUDGE_CHECK(engine_->Range(key, upper, inner) == polar_race::kSucc);
    JUDGE_CHECK(inner.count == 1);
  }

 private:
  Engine* engine_;
  int visits_;
};

void VisitorCallsTheEngine(const Directory& dir) {
  EnginePtr engine = Open(dir.Store("store"));
  WriteAll(engine.get(), 1);
  judge::InThreads(8, [&](int) {
    BusyVisitor visitor(engine.get());
    JUDGE_CHECK(engine->Range("", Key(~0ull), visitor) == polar_race::kSucc);
  });
  ReadAll(engine.get(), 1);
}

void SeveralEngines(const Directory& dir) {
  const int kEngines = 4;
  std::vector<EnginePtr> engines;
  for (int i = 0; i < kEngines; ++i)
    engines.push_back(Open(dir.Store("store" + std::to_string(i))));
  judge::InThreads(kEngines, [&](int i) {
    for (uint64_t key = 0; key < 500; ++key) {
      JUDGE_CHECK(engines[i]->Write(Key(Spread(key)), Value(key, i)) == polar_race::kSucc);
    }
  });
  for (int i = 0; i < kEngines; ++i) {
    std::string value;
    for (uint64_t key = 0; key < 500; ++key) {
      JUDGE_CHECK(engines[i]->Read(Key(Spread(key)), &value) == polar_race::kSucc);
      JUDGE_CHECK(value == Value(key, i));
    }
  }
}

void SecondOpenerIsRefused(const Directory& dir) {
  EnginePtr first = Open(dir.Store("store"));
  JUDGE_CHECK(first->Write(Key(1), Value(1, 1)) == polar_race::kSucc);
  Engine* second = first.get();
  JUDGE_CHECK(Engine::Open(dir.Store("store"), &second) == polar_race::kIOError);
  JUDGE_CHECK(second == nullptr);
  JUDGE_CHECK(first->Write(Key(2), Value(2, 1)) == polar_race::kSucc);
  std::string value;
  JUDGE_CHECK(first->Read(Key(1), &value) == polar_race::kSucc && value == Value(1, 1));
  JUDGE_CHECK(first->Read(Key(2), &value) == polar_race::kSucc && value == Value(2, 1));
}

void BadArguments(const Directory& dir) {
  EnginePtr engine = Open(dir.Store("store"));
  const std::string good = Value(1, 1);
  std::string value = "as it was";
  OrderVisitor visitor;
  const RetCode bad = polar_race::kInvalidArgument;
  JUDGE_CHECK(engine->Write("short", good) == bad);
  JUDGE_CHECK(engine->Write("", good) == bad);
  JUDGE_CHECK(engine->Write(Key(1), "short") == bad);
  JUDGE_CHECK(engine->Write(PolarString(nullptr, 8), good) == bad);
  JUDGE_CHECK(engine->Write(Key(1), PolarString(nullptr, 4096)) == bad);
  JUDGE_CHECK(engine->Read("123456789", &value) == bad);
  JUDGE_CHECK(engine->Read(Key(1), nullptr) == bad);
  JUDGE_CHECK(engine->Range("short", "", visitor) == bad);
  JUDGE_CHECK(engine->Range("", "123456789", visitor) == bad);
  JUDGE_CHECK(Engine::Open(dir.Store("other"), nullptr) == bad);
  JUDGE_CHECK(value == "as it was");
  JUDGE_CHECK(engine->Range("", "", visitor) == polar_race::kSucc && visitor.count == 0);
}

}  // namespace

int main() {
  bool held = true;
  held &= judge::RunCase("three phases by 64 threads", ThreePhases);
  held &= judge::RunCase("EngineRace::Open", OpenThroughEngineRace);
  held &= judge::RunCase("writes after reopening", WritesAfterReopening);
  held &= judge::RunCase("bounds", Bounds);
  held &= judge::RunCase("a visitor's exception leaves Range", VisitorThrows);
  held &= judge::RunCase("a visitor calls the engine", VisitorCallsTheEngine);
  held &= judge::RunCase("several engines in one process", SeveralEngines);
  held &= judge::RunCase("a second opener is refused", SecondOpenerIsRefused);
  held &= judge::RunCase("bad arguments", BadArguments);
  return held ? 0 : 1;
}
