#include "harness/claims/index_load.h"

#include <atomic>
#include <string>

#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/timed.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::Status;
using engine_race::Store;

// Reads what the store held before the load, until `writers_left` is 0.
Status ReadBeside(Store* store, const IndexKeys& keys, uint64_t stream,
                  const std::atomic<uint32_t>& writers_left, TimedThread* self) {
  std::string value;
  uint64_t* const count = &self->tally.request_count;
  for (; writers_left.load() > 0 && self->Running(); ++*count) {
    const uint64_t key = keys.PresentKey(MixAt(stream, *count));
    ENGINE_RACE_RETURN_IF_ERROR(store->Read(KeyBytesOf(key), &value));
  }
  return Status::Ok();
}

Status WriteShare(Store* store, const IndexKeys& keys, const IndexLoad& load, uint32_t writer,
                  TimedThread* self) {
  const ValueMaker values(load.seed);
  std::string value(kValueSize, '\0');
  for (uint64_t i = writer; i < load.write_count && self->Running(); i += load.writer_count) {
    const uint64_t key = LoadKeyAt(keys, load, i);
    values.Fill(key, i, value.data());
    const uint64_t began_ns = NowNs();
    ENGINE_RACE_RETURN_IF_ERROR(store->Write(KeyBytesOf(key), value));
    self->tally.write_latency.Add(NowNs() - began_ns);
  }
  return Status::Ok();
}

}  // namespace

uint64_t LoadKeyAt(const IndexKeys& keys, const IndexLoad& load, uint64_t number) {
  return number % 2 == 0 ? keys.New(load.first_new + number / 2)
                         : keys.PresentKey(MixAt(load.seed, number));
}

Status RunIndexLoad(Store* store, const IndexKeys& keys, const IndexLoad& load,
                    IndexLoadResult* result) {
  std::atomic<uint32_t> writers_left{load.writer_count};
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(
      load.writer_count + load.reader_count, kNoLimitSeconds,
      [&](uint32_t thread, TimedThread* self) {
        self->Start();
        if (thread >= load.writer_count) {
          return ReadBeside(store, keys, MixAt(load.seed + 1, thread), writers_left, self);
        }
        const Status status = WriteShare(store, keys, load, thread, self);
        --writers_left;
        return status;
      },
      &point));
  result->seconds = point.seconds;
  result->read_count = point.request_count;
  result->write_latency = point.write_latency;
  return Status::Ok();
}

}  // namespace harness
