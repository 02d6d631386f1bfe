// Shared-nothing execution: worker threads pinned one to a core, each with tables, frames and
// epochs that no other thread touches.
//
// Clients hand over requests in batches and get them back in batches; between foreground threads
// nothing else is shared. Tables are split among the workers, whole or by ranges of keys
// ("sub-tables"); which worker has which is a routing table that is replaced as a whole. A hot
// sub-table can be moved to another worker, or split in two, while requests are under way: a worker
// that gets a request for what it no longer has passes it on.
//
// Thread-safe, but for what is said otherwise.
#ifndef ENGINE_RACE_L1_CORE_SHARDS_H_
#define ENGINE_RACE_L1_CORE_SHARDS_H_

#endif  // ENGINE_RACE_L1_CORE_SHARDS_H_
