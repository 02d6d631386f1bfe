// How each peer is opened. The functions are weak: the address of a function that is not linked is
// null. The Makefile leaves out the file of a peer whose library is missing.
#ifndef HARNESS_OPPONENTS_OPEN_PEERS_H_
#define HARNESS_OPPONENTS_OPEN_PEERS_H_

#include <memory>

#include "harness/kv/kv_store.h"

namespace harness {

using OpenKvFn = engine_race::Status(const KvOptions& options, std::unique_ptr<KvStore>* store);

[[gnu::weak]] OpenKvFn OpenRocksDb;
[[gnu::weak]] OpenKvFn OpenLevelDb;
[[gnu::weak]] OpenKvFn OpenLmdb;
[[gnu::weak]] OpenKvFn OpenWiredTiger;

}  // namespace harness

#endif  // HARNESS_OPPONENTS_OPEN_PEERS_H_
