// Why flags and benchmarks of db_bench are missing here, for error messages.
//
// docs/bench.md has the common ones in a table.
#ifndef HARNESS_BENCH_DB_BENCH_WORDS_H_
#define HARNESS_BENCH_DB_BENCH_WORDS_H_

#include <string>
#include <string_view>

namespace engine_race::harness {

// Why this argument of db_bench, "--name" or "--name=value", cannot be had. Empty for any other
// argument.
std::string WhyNoFlag(std::string_view argument);

// Why this benchmark of db_bench cannot be run. Empty for any other name.
std::string WhyNoBenchmark(std::string_view name);

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_DB_BENCH_WORDS_H_
