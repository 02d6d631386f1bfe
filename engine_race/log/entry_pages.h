// Changes entries in the key log of a bucket, and leaves those beside them as they are.
//
// Entries are best put in order of their slots. Each time that another page is put to, it is read,
// and the one before is written.
//
// One thread at a time for a page. Owner of one page.
#ifndef ENGINE_RACE_LOG_ENTRY_PAGES_H_
#define ENGINE_RACE_LOG_ENTRY_PAGES_H_

#include <array>
#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/log/format.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

class EntryPages {
 public:
  // Works on the files, which outlive it.
  EntryPages(const StoreFiles& files, uint32_t bucket) : files_(files), bucket_(bucket) {}

  Status Put(uint64_t slot, const format::KeyEntry& entry);
  // Writes the last page. To be called once all are put.
  Status Finish();

 private:
  const StoreFiles& files_;
  const uint32_t bucket_;
  uint64_t page_number_ = ~uint64_t{0};
  bool changed_ = false;
  alignas(kIoAlignment) std::array<format::KeyEntry, format::kPageEntries> page_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ENTRY_PAGES_H_
