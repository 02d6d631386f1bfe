// The commit that this program was built from.
#ifndef HARNESS_BENCH_GIT_HASH_H_
#define HARNESS_BENCH_GIT_HASH_H_

#include <string>

namespace engine_race::harness {

// 40 hexadecimal digits, with "-dirty" behind them when files had changed since the commit.
// "unknown" for a build outside of a repository.
std::string GitHash();

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_GIT_HASH_H_
