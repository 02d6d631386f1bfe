#include "engine_race/log/page_cache.h"

#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/base/file_system.h"
#include "engine_race/base/sys.h"

namespace engine_race {

uint32_t PageCacheId(const StoreFiles& files) {
  std::vector<uint64_t> words = {sys::BootId()};
  if (words.front() == 0) return 0;
  sys::MountIdentity mount;
  if (!sys::IdentifyMount(files.directory.get(), &mount).ok()) return 0;
  words.push_back(mount.word);
  for (const ValuePath& path : files.slots.paths()) {
    if (!sys::IdentifyMount(files.slots.value_file(path.first_file).fd(), &mount).ok()) return 0;
    words.push_back(mount.word);
  }
  const auto id =
      static_cast<uint32_t>(Hash64(words.data(), words.size() * sizeof(words[0]), 0) >> 32);
  return id == 0 ? 1 : id;
}

}  // namespace engine_race
