// The contest's contract: what a judging program compiles against. Start reading here.
//
// Keys are exactly 8 bytes, ordered as big-endian unsigned integers; values are exactly 4096 bytes.
// Every call may be made by any number of threads at once. C++11.
#ifndef INCLUDE_ENGINE_H_
#define INCLUDE_ENGINE_H_

#include <string>

#include "polar_string.h"

namespace polar_race {

enum RetCode {
  kSucc = 0,
  kNotFound = 1,
  kCorruption = 2,
  kNotSupported = 3,
  kInvalidArgument = 4,
  kIOError = 5,
  kIncomplete = 6,
  kTimedOut = 7,
  kFull = 8,
  kOutOfMemory = 9
};

class Visitor {
 public:
  virtual ~Visitor() {}
  // `key` and `value` are valid until Visit returns. Visit may call the engine; what it throws
  // leaves Range.
  virtual void Visit(const PolarString& key, const PolarString& value) = 0;
};

class Engine {
 public:
  // Opens the store in directory `name`, made when it is missing, and gives it to the caller, who
  // deletes it. On failure *eptr is null.
  static RetCode Open(const std::string& name, Engine** eptr);

  Engine() {}
  // Closes the store. No other call may be running.
  virtual ~Engine() {}

  // Once this returns kSucc, the record outlives the process, however it ends.
  virtual RetCode Write(const PolarString& key, const PolarString& value) = 0;

  // Sets *value to the 4096 bytes last written under `key`; on failure leaves it as it was.
  virtual RetCode Read(const PolarString& key, std::string* value) = 0;

  // Visits the records of [lower, upper) in ascending order of key, each key once. An empty bound
  // is open on its side; lower >= upper visits nothing and succeeds. Every write acknowledged
  // before the call is seen; later ones may be.
  virtual RetCode Range(const PolarString& lower, const PolarString& upper, Visitor& visitor) = 0;

 private:
  Engine(const Engine&);
  Engine& operator=(const Engine&);
};

}  // namespace polar_race

#endif  // INCLUDE_ENGINE_H_
