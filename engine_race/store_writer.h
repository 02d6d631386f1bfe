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
  Status Append(uint64_t key, const char* value) noexcept {
    const bool deletes = value == nullptr;
    return Write(
        deletes, [&] { return log_.Append(key, value); },
        [&] {
          return WantedRooms{{log_.geometry().BucketOf(key), {1, deletes ? 0U : 1U}}};
        });
  }

  Status Write(const WriteBatch& batch) {
    const KeyRange& keys = log_.geometry().keys();
    if (!keys.HasAllKeys()) {
      for (const WriteBatch::Record& record : batch.records()) {
        ENGINE_RACE_RETURN_IF_ERROR(CheckKeyOf(keys, KeyBytes(record.key).view()));
      }
    }
    return Write(
        /*deletes=*/batch.put_count() == 0, [&] { return log_.Write(batch); },
        [&] { return RoomsFor(batch); });
  }

 private:
  // An exception after the append does not hide the append.
  template <typename WriteFn, typename RoomsFn>
  Status Write(bool deletes, const WriteFn& write, const RoomsFn& rooms) noexcept {
    AppendStatus written(Status(Code::kOutOfMemory, {}));
    Status ended = Guarded([&] {
      written = Try(deletes, write);
      if (written.code() == Code::kFull) [[unlikely]] {
        WriteAgain(rooms(), deletes, &written, write);
      }
      return Status::Ok();
    });
    if (!ended.ok() && !written.appended()) [[unlikely]] {
      return ended;
    }
    if (written.ok()) [[likely]] {
      readers_.MakeRoomForIndex();
      if (reclaimer_.wants_help()) [[unlikely]] {
        reclaimer_.Help();
      }
    }
    return written;
  }

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

  // The reserve of a full disk is for deletions: other writes are refused until it was taken back.
  template <typename WriteFn>
  AppendStatus Try(bool deletes, const WriteFn& write) {
    SpaceReserve& reserve = log_.reserve();
    if (!deletes && reserve.is_given_up() && !reserve.TakeBack()) [[unlikely]] {
      return Status::Full("the disk is full: only deletions are taken");
    }
    return write();
  }

  // Where a bucket or the disk is full, space of dead records may be freed at once. Other threads
  // may take it before this one. A record that was appended is not appended again: a Sync makes it
  // durable. *written is the refusal, and becomes the last answer.
  template <typename WriteFn>
  void WriteAgain(const WantedRooms& rooms, bool deletes, AppendStatus* written,
                  const WriteFn& write) {
    constexpr int kTries = 1000;
    // A bucket that was full may have room by now. Tries do not count where others took the room.
    constexpr int kTriesWithRoom = 20;
    int with_room_count = 0;
    const auto wants_space = [&] {
      return written->code() == Code::kFull && (deletes || readers_.IndexHasRoom());
    };
    const auto try_again = [&] {
      return written->appended() ? AppendStatus::Appended(log_.Sync()) : Try(deletes, write);
    };
    if (deletes && reclaimer_.HasRoom(rooms)) {
      // Its status has only the code that says whether to give up more.
      static_cast<void>(log_.reserve().Write(
          [&] {
            *written = try_again();
            return written->ok() ? Status::Ok() : Status(written->code(), {});
          },
          SpaceReserve::kLeftByValues));
    }
    for (int i = 0; i < kTries && reclaims_ && wants_space(); ++i) {
      const bool has_room = reclaimer_.HasRoom(rooms);
      if (has_room && ++with_room_count < kTriesWithRoom) {
        *written = try_again();
        if (!reclaimer_.HasRoom(rooms)) with_room_count = 0;
        continue;
      }
      // Every bucket has room, and the write failed again and again: then the disk is full.
      with_room_count = 0;
      bool freed = false;
      Status made =
          Guarded([&] { return reclaimer_.MakeSpace(rooms, /*disk_is_full=*/has_room, &freed); });
      // Dead records may fill the bucket. This failure tells why they could not be freed.
      if (!made.ok()) {
        *written = written->appended() ? AppendStatus::Appended(std::move(made))
                                       : AppendStatus(std::move(made));
        return;
      }
      if (!freed) break;
      *written = try_again();
    }
  }

  const bool reclaims_;
  BucketLog& log_;
  Readers& readers_;
  Reclaimer& reclaimer_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_STORE_WRITER_H_
