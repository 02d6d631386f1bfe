// The peers of the engine that this program was linked with. docs/peers.md says how each is tuned.
//
// Every peer is in a mode in which kill -9 loses no acknowledged write.
#ifndef HARNESS_OPPONENTS_PEERS_H_
#define HARNESS_OPPONENTS_PEERS_H_

#include <string>
#include <vector>

#include "harness/kv/kv_store.h"

namespace engine_race::harness {

std::vector<KvStoreKind> Peers();
// The names of those whose libraries were missing when this program was built.
std::vector<std::string> MissingPeers();

}  // namespace engine_race::harness

#endif  // HARNESS_OPPONENTS_PEERS_H_
