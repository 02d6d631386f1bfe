// Assertions: what the code around them relies on, stated so that tests find out when it is wrong.
//
// In checked builds a condition that does not hold traps. So a test fails at the assertion itself
// and not where the damage shows. Checked are builds with ENGINE_RACE_CHECKED defined and those
// under a sanitizer or the fuzzer. In all other builds, the released library's among them, the
// condition is compiled but never evaluated: the library does not end its caller's process. So an
// assertion has no side effects. No assertion is about what a caller, a disk or another process can
// bring about: a Status answers that in every build.
//
// An invariant is stated where it is made and again where it is relied on.
#ifndef ENGINE_RACE_BASE_ASSERT_H_
#define ENGINE_RACE_BASE_ASSERT_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ENGINE_RACE_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ENGINE_RACE_IS_SANITIZED 1
#endif
#endif

namespace engine_race {

// For what only a checked build can afford, such as a walk over a whole structure.
#if defined(ENGINE_RACE_CHECKED) || defined(ENGINE_RACE_IS_SANITIZED)
inline constexpr bool kIsChecked = true;
#else
inline constexpr bool kIsChecked = false;
#endif

}  // namespace engine_race

// Constant in each build: the compiler leaves out what is never evaluated.
#define ENGINE_RACE_ASSERT(condition) \
  static_cast<void>(!::engine_race::kIsChecked || (condition) || (__builtin_trap(), false))

#undef ENGINE_RACE_IS_SANITIZED

#endif  // ENGINE_RACE_BASE_ASSERT_H_
