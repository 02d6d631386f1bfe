#include "harness/load/drawn_reads.h"

#include <string_view>

#include "harness/data/mix.h"
#include "harness/load/read_loops.h"
#include "harness/load/store_basics.h"

namespace engine_race::harness {

Status DrawnReads::Open(const StoreShape& shape, const Options& options,
                        std::unique_ptr<DrawnReads>* reads) {
  std::unique_ptr<DrawnReads> opened(new DrawnReads(shape));
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, shape.dir, &opened->store_));
  std::string value;
  ENGINE_RACE_RETURN_IF_ERROR(opened->store_->Read(KeyBytesOf(opened->KeyAt(0)), &value));
  *reads = std::move(opened);
  return Status::Ok();
}

Status DrawnReads::Run(const RecordDraw& draw, const ReadShape& shape, uint64_t seed,
                       TimedPoint* point, FrameCounts* frames) {
  const StoreStats before = store_->Stats();
  const double seconds = shape.read_count > 0 ? kNoLimitSeconds : shape.seconds;
  const auto get = [this](uint64_t key, std::string* value) {
    return store_->Read(KeyBytes(key).view(), value);
  };
  const Status status = RunTimed(
      shape.thread_count, seconds,
      [&](uint32_t thread, TimedThread* self) {
        const uint64_t stream = MixAt(seed, thread);
        const auto key_at = [&](uint64_t i) { return KeyAt(draw.IndexFrom(MixAt(stream, i))); };
        const uint64_t share = (shape.read_count + thread) / shape.thread_count;
        const auto more = [&](uint64_t i) {
          if (shape.read_count > 0 && i >= share) return false;
          return i % kReadsPerClockLook != 0 || self->Running();
        };
        self->Start();
        uint64_t* const count = &self->tally.request_count;
        return shape.keys_per_call == 0
                   ? ReadOneByOne(get, values_, key_at, more, count)
                   : ReadMany(store_.get(), values_, shape.keys_per_call, key_at, more, count);
      },
      point);
  point->byte_count = point->request_count * kValueSize;
  const StoreStats after = store_->Stats();
  if (frames != nullptr) {
    frames->hit_count = after.frame_hit_count - before.frame_hit_count;
    frames->miss_count = after.frame_miss_count - before.frame_miss_count;
    frames->admission_count = after.frame_admission_count - before.frame_admission_count;
  }
  return status;
}

Status DrawnReads::ReadEachOnce(uint32_t thread_count, uint32_t keys_per_call) {
  TimedPoint unused;
  return RunTimed(
      thread_count, kNoLimitSeconds,
      [&](uint32_t thread, TimedThread* self) {
        const uint64_t begin = keys_.record_count() * thread / thread_count;
        const uint64_t count = keys_.record_count() * (thread + 1) / thread_count - begin;
        self->Start();
        return ReadMany(
            store_.get(), values_, keys_per_call, [&](uint64_t i) { return KeyAt(begin + i); },
            [&](uint64_t i) { return i < count && self->Running(); }, &self->tally.request_count);
      },
      &unused);
}

Status DrawnReads::RangeOnce(uint32_t thread_count, TimedPoint* point) {
  const Status status = RunTimed(
      thread_count, kNoLimitSeconds,
      [&](uint32_t, TimedThread* self) {
        uint64_t count = 0;
        self->Start();
        ENGINE_RACE_RETURN_IF_ERROR(
            store_->Range("", "", [&count](std::string_view, std::string_view) { ++count; }));
        return count == keys_.record_count()
                   ? Status::Ok()
                   : Status::Corruption("a range saw " + std::to_string(count) + " records");
      },
      point);
  point->request_count = keys_.record_count();
  point->byte_count = point->request_count * kValueSize;
  return status;
}

}  // namespace engine_race::harness
