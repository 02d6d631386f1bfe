// The peers of the engine that this program was linked with. docs/peers.md says how each is tuned.
//
// Every peer is in a mode in which kill -9 loses no acknowledged write.
#ifndef HARNESS_OPPONENTS_PEERS_H_
#define HARNESS_OPPONENTS_PEERS_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/kv/kv_store.h"

namespace engine_race::harness {

std::vector<KvStoreKind> Peers();
// The names of those whose libraries were missing when this program was built.
std::vector<std::string> MissingPeers();

// How each peer is opened and describes its settings. The functions are weak: the address of a
// function that is not linked is null. The Makefile leaves out the file of a peer whose library is
// missing.

using OpenKvFn = Status(const KvOptions& options, std::unique_ptr<KvStore>* store);

[[gnu::weak]] OpenKvFn OpenRocksDb;
[[gnu::weak]] OpenKvFn OpenLevelDb;
[[gnu::weak]] OpenKvFn OpenLmdb;
[[gnu::weak]] OpenKvFn OpenWiredTiger;

// A setting and its reason, for KvStore::Describe.
template <typename Value>
nlohmann::json Why(const Value& value, const char* reason) {
  return {{"value", value}, {"why", reason}};
}

}  // namespace engine_race::harness

#endif  // HARNESS_OPPONENTS_PEERS_H_
