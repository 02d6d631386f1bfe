#include "harness/opponents/peers.h"

#include <filesystem>
#include <system_error>

namespace engine_race::harness {
namespace {

struct Peer {
  const char* name;
  OpenKvFn* open;  // null when its library is missing
};

std::vector<Peer> KnownPeers() {
  return {{"rocksdb", OpenRocksDb},
          {"leveldb", OpenLevelDb},
          {"lmdb", OpenLmdb},
          {"wiredtiger", OpenWiredTiger}};
}

// Some of the libraries want a directory that exists.
Status OpenIn(OpenKvFn* open, const KvOptions& options, std::unique_ptr<KvStore>* store) {
  std::error_code failed;
  std::filesystem::create_directories(options.dir, failed);
  if (failed) return Status::FromErrno("mkdir " + options.dir, failed.value());
  return open(options, store);
}

}  // namespace

std::vector<KvStoreKind> Peers() {
  std::vector<KvStoreKind> kinds;
  for (const Peer& peer : KnownPeers()) {
    if (peer.open == nullptr) continue;
    kinds.push_back(
        {peer.name, [open = peer.open](const KvOptions& options, std::unique_ptr<KvStore>* store) {
           return OpenIn(open, options, store);
         }});
  }
  return kinds;
}

std::vector<std::string> MissingPeers() {
  std::vector<std::string> names;
  for (const Peer& peer : KnownPeers()) {
    if (peer.open == nullptr) names.emplace_back(peer.name);
  }
  return names;
}

}  // namespace engine_race::harness
