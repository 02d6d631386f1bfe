// Puts the page cache out of the way between two phases, so that the next one starts cold.
//
// Stateless; acts on the whole machine where it may.
#ifndef HARNESS_SYSTEM_PAGE_CACHE_H_
#define HARNESS_SYSTEM_PAGE_CACHE_H_

#include <string>

namespace harness {

// Syncs, then drops the cache of the whole machine, or where that is not allowed of the regular
// files directly in `dir`. Says which: "drop_caches", "fadvise", or what went wrong.
std::string DropPageCache(const std::string& dir);

// The second way alone: for a program that runs beside others, whose cache it must not drop.
std::string DropFilesOf(const std::string& dir);

}  // namespace harness

#endif  // HARNESS_SYSTEM_PAGE_CACHE_H_
