// Writes of a store: to the log, and again where reclaim has made space.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_STORE_WRITER_H_
#define ENGINE_RACE_STORE_WRITER_H_

#include <cstdint>
#include <unordered_set>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/log/append_status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/readers.h"
#include "engine_race/reclaim/reclaimer.h"

namespace engine_race {

class StoreWriter {
 public:
  // All outlive it.
  StoreWriter(const Options& options, BucketLog* log, Readers* readers, Reclaimer* reclaimer)
      : reclaims_(options.reclaim != Reclaim::kOff),
        log_(*log),
        readers_(*readers),
        reclaimer_(*reclaimer) {}

  // `value` is null for a deletion.
  Status Append(uint64_t key, const char* value) {
    AppendStatus appended = log_.Append(key, value);
    if (appended.code() == Code::kFull) [[unlikely]] {
      const WantedRooms rooms{{log_.geometry().BucketOf(key), {1, 1}}};
      appended = WriteAgain(rooms, std::move(appended), [&] { return log_.Append(key, value); });
    }
    return Finish(std::move(appended));
  }

  Status Write(const WriteBatch& batch) {
    const KeyRange& keys = log_.geometry().keys();
    if (!keys.HasAllKeys()) {
      for (const WriteBatch::Record& record : batch.records()) {
        ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(keys, KeyBytes(record.key).view()));
      }
    }
    AppendStatus written = log_.Write(batch);
    if (written.code() == Code::kFull) [[unlikely]] {
      written = WriteAgain(RoomsFor(batch), std::move(written), [&] { return log_.Write(batch); });
    }
    return Finish(std::move(written));
  }

 private:
  WantedRooms RoomsFor(const WriteBatch& batch) const {
    WantedRooms rooms;
    std::unordered_set<uint64_t> keys;
    const std::span<const WriteBatch::Record> records = batch.records();
    // From the end: the last record of a key decides.
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      WantedRoom& room = rooms[log_.geometry().BucketOf(record->key)];
      ++room.record_count;
      if (keys.insert(record->key).second && record->value != nullptr) ++room.key_count;
    }
    return rooms;
  }

  // Where a region or the disk is full, space of dead records may be freed at once. Other threads
  // may take it before this one. A record that was appended is not appended again: a Sync makes it
  // durable.
  template <typename WriteFn>
  AppendStatus WriteAgain(const WantedRooms& rooms, AppendStatus written, const WriteFn& write) {
    constexpr int kTries = 1000;
    // A region that was full may have room by now.
    constexpr int kTriesWithRoom = 20;
    int with_room_count = 0;
    const auto try_again = [&] {
      return written.appended() ? AppendStatus::Appended(log_.Sync()) : write();
    };
    for (int i = 0; i < kTries && reclaims_ && written.code() == Code::kFull; ++i) {
      const bool has_room = reclaimer_.HasRoom(rooms);
      if (has_room && ++with_room_count < kTriesWithRoom) {
        written = try_again();
        continue;
      }
      // Every region has room, and the write failed again and again: then the disk is full.
      with_room_count = 0;
      bool freed = false;
      Status made =
          Guarded([&] { return reclaimer_.MakeSpace(rooms, /*disk_is_full=*/has_room, &freed); });
      // Dead records may fill the region. This failure tells why they could not be freed.
      if (!made.ok()) {
        if (written.appended()) return AppendStatus::Appended(std::move(made));
        return made;
      }
      if (!freed) break;
      written = try_again();
    }
    return written;
  }

  Status Finish(Status written) {
    if (!written.ok()) [[unlikely]] {
      return written;
    }
    readers_.MakeRoomForIndex();
    if (reclaimer_.wants_help()) [[unlikely]] {
      reclaimer_.Help();
    }
    return written;
  }

  const bool reclaims_;
  BucketLog& log_;
  Readers& readers_;
  Reclaimer& reclaimer_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_STORE_WRITER_H_
