// A reference to a callable, for functions that call it before they return. Unlike std::function it
// never allocates.
//
// A value of two words. The callable outlives it.
#ifndef ENGINE_RACE_BASE_FUNCTION_REF_H_
#define ENGINE_RACE_BASE_FUNCTION_REF_H_

#include <memory>
#include <utility>

namespace engine_race {

template <typename Signature>
class FunctionRef;

template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename Fn>
  FunctionRef(const Fn& function)
      : object_(std::addressof(function)), call_([](const void* object, Args... args) -> Result {
          return (*static_cast<const Fn*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  const void* object_;
  Result (*call_)(const void* object, Args... args);
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_FUNCTION_REF_H_
