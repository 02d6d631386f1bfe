// The door that judging programs use: the contest's Engine on top of a Store with default options.
//
// C++11, because judges include it. The C++20 interface is engine_race/store.h.
#ifndef ENGINE_RACE_ENGINE_RACE_H_
#define ENGINE_RACE_ENGINE_RACE_H_

#include <string>

#include "include/engine.h"

namespace engine_race {
class Store;
}

namespace polar_race {

class EngineRace : public Engine {
 public:
  // As Engine::Open.
  static RetCode Open(const std::string& name, Engine** eptr);

  // Owns `store`. Judges call Open instead.
  explicit EngineRace(engine_race::Store* store) : store_(store) {}
  ~EngineRace();

  RetCode Write(const PolarString& key, const PolarString& value);
  RetCode Read(const PolarString& key, std::string* value);
  RetCode Range(const PolarString& lower, const PolarString& upper, Visitor& visitor);

 private:
  engine_race::Store* store_;
};

}  // namespace polar_race

#endif  // ENGINE_RACE_ENGINE_RACE_H_
