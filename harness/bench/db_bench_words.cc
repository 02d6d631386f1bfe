// Words of db_bench that are missing here. docs/bench.md has the common ones in a table.
#include <algorithm>
#include <iterator>

#include "harness/bench/session.h"

namespace engine_race::harness {
namespace {

struct Word {
  std::string_view name;
  std::string_view why;
};

constexpr std::string_view kOneThread = "one thread gives space back, and writers help it";
constexpr std::string_view kCompact = "compact gives back all space before it returns";
constexpr std::string_view kDirect = "I/O is direct wherever the file system allows it";
constexpr std::string_view kOneBudget =
    "one budget covers all memory: --options memory_budget_bytes=N";
constexpr std::string_view kNoCompression = "values are stored as they are";
constexpr std::string_view kIntervals =
    "--report_interval_seconds=N writes the operations of each interval";
constexpr std::string_view kNoMerge = "there is no merge operator";

constexpr Word kMissingFlags[] = {
    {"benchmark_read_rate_limit", "--rate=N begins N operations a second"},
    {"block_size", "values are read whole, not in blocks"},
    {"bloom_bits", "the index has every key, so there are no filters"},
    {"cache_size", kOneBudget},
    {"compression_ratio", kNoCompression},
    {"compression_type", kNoCompression},
    {"disable_auto_compactions", "--options reclaim=off leaves dead records where they are"},
    {"disable_wal", "the log is the store itself; --options sync_mode=none is its fastest mode"},
    {"max_background_compactions", kOneThread},
    {"max_background_jobs", kOneThread},
    {"max_write_buffer_number", kOneBudget},
    {"mmap_read", kDirect},
    {"open_files", "all files of a store stay open"},
    {"rate_limiter_bytes_per_sec",
     "--options reclaim_bytes_per_second=N limits reclaim, --benchmark_write_rate_limit writes"},
    {"stats_interval", kIntervals},
    {"stats_interval_seconds", kIntervals},
    {"stats_per_interval", "--statistics prints the counters after each benchmark"},
    {"target_file_size_base", "a store has a fixed number of files"},
    {"use_direct_io_for_flush_and_compaction", kDirect},
    {"use_direct_reads", kDirect},
    {"verify_checksum", "--options verify_checksums=false leaves out the comparison of values"},
    {"write_buffer_size", kOneBudget},
};

constexpr Word kMissingBenchmarks[] = {
    {"compactall", kCompact},
    {"deleteseq", "deleterandom deletes in random order"},
    {"fill100K", "all values of a store have one size: --value_size=100000"},
    {"fillbatch", "no benchmark writes batches"},
    {"flush", "there are no memtables; sync makes all writes durable"},
    {"levelstats", "there are no levels; stats prints the counters"},
    {"mergerandom", kNoMerge},
    {"readrandommergerandom", kNoMerge},
    {"readwhilemerging", kNoMerge},
    {"seekrandomwhilemerging", kNoMerge},
    {"sstables", "there are no tables; stats prints the counters"},
    {"verifychecksum", "bin/store verify DIR compares a closed store with its checksums"},
    {"waitforcompaction", kCompact},
};

template <size_t kCount>
std::string WhyOf(const Word (&words)[kCount], std::string_view name) {
  const Word* const found = std::find_if(std::begin(words), std::end(words),
                                         [&](const Word& one) { return one.name == name; });
  return found == std::end(words) ? std::string() : std::string(found->why);
}

}  // namespace

std::string WhyNoFlag(std::string_view argument) {
  if (!argument.starts_with("--")) return {};
  argument.remove_prefix(2);
  return WhyOf(kMissingFlags, argument.substr(0, argument.find('=')));
}

std::string WhyNoBenchmark(std::string_view name) { return WhyOf(kMissingBenchmarks, name); }

}  // namespace engine_race::harness
