#include "engine_race/index/key_log_stream.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/lasting_queue.h"

namespace engine_race {
namespace {

class StreamWorker {
 public:
  StreamWorker(BuildContext* context, uint32_t bucket, const BucketCut& cut,
               std::atomic<uint64_t>* next_slot)
      : context_(context),
        bucket_(bucket),
        slot_end_(cut.logged_slot_end()),
        piece_bytes_(context->limits().piece_bytes),
        next_slot_(next_slot) {}

  Status Run(uint32_t worker, uint32_t pieces_in_flight, const KeyLogPieceFn& visit) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size_t{piece_bytes_} * pieces_in_flight, true,
                                                 &buffer_, context_->log().placement().memory()));
    ENGINE_RACE_RETURN_IF_ERROR(
        io::LastingQueue::Create({context_->options().io_backend, pieces_in_flight},
                                 context_->log().failed_backends(), &queue_));
    pieces_.resize(pieces_in_flight);
    for (uint32_t buffer = 0; buffer < pieces_in_flight; ++buffer) {
      ENGINE_RACE_RETURN_IF_ERROR(Start(buffer));
    }
    std::vector<io::ReadCompletion> completions;
    while (queue_->in_flight() > 0 && !context_->failed()) {
      completions.clear();
      ENGINE_RACE_RETURN_IF_ERROR(queue_->Wait(1, &completions));
      for (const io::ReadCompletion& done : completions) {
        const auto buffer = static_cast<uint32_t>(done.tag);
        const Piece& piece = pieces_[buffer];
        if (done.error != 0) return io::ReadError(*piece.file, done.error);
        const uint64_t read_count = done.read_bytes / format::kKeyEntryBytes;
        const auto* const entries =
            reinterpret_cast<const format::KeyEntry*>(buffer_.data() + BufferOffset(buffer));
        ENGINE_RACE_RETURN_IF_ERROR(
            visit({worker, piece.slot, {entries, read_count}, piece.slot_count - read_count}));
        ENGINE_RACE_RETURN_IF_ERROR(Start(buffer));
      }
    }
    return Status::Ok();
  }

 private:
  size_t BufferOffset(uint32_t buffer) const { return size_t{buffer} * piece_bytes_; }

  // Starts to read the next piece that no thread has taken, if there is one. A piece lies in one
  // piece of a file.
  Status Start(uint32_t buffer) {
    const uint64_t piece_slots = piece_bytes_ / format::kKeyEntryBytes;
    SlotLocation location;
    // Relaxed: each slot must only be handed out once.
    uint64_t slot = next_slot_->load(std::memory_order_relaxed);
    do {
      if (slot >= slot_end_) return Status::Ok();
      location = context_->log().slots().LocateKeys(bucket_, slot,
                                                    std::min(piece_slots, slot_end_ - slot));
    } while (!next_slot_->compare_exchange_weak(slot, slot + location.slot_count,
                                                std::memory_order_relaxed));
    pieces_[buffer] = {location.file, slot, location.slot_count};
    const io::ReadRequest request =
        location.RequestFor(location.slot_count * format::kKeyEntryBytes,
                            buffer_.data() + BufferOffset(buffer), buffer);
    size_t started = 0;
    return queue_->Submit({&request, 1}, &started);
  }

  struct Piece {
    const io::File* file;
    uint64_t slot;
    uint64_t slot_count;
  };

  BuildContext* const context_;
  const uint32_t bucket_;
  const uint64_t slot_end_;
  const uint32_t piece_bytes_;
  std::atomic<uint64_t>* const next_slot_;
  Region buffer_;
  std::vector<Piece> pieces_;
  // Declared after the buffer: its destructor waits for reads into it.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace

Status StreamKeyLog(BuildContext* context, uint32_t bucket, const BucketCut& cut,
                    uint32_t worker_count, uint32_t pieces_in_flight, const KeyLogPieceFn& visit) {
  std::atomic<uint64_t> next_slot{0};
  return context->RunThreads(worker_count, [&](uint32_t worker) {
    const std::span staged(cut.staged_keys);
    for (size_t i = 0; worker == 0 && i < staged.size();) {
      const SlotPiece piece = cut.table.PieceFrom(cut.first_staged() + i, cut.record_count);
      ENGINE_RACE_RETURN_IF_ERROR(
          visit({worker, piece.slot, staged.subspan(i, piece.count), 0, /*staged=*/true}));
      i += piece.count;
    }
    return StreamWorker(context, bucket, cut, &next_slot).Run(worker, pieces_in_flight, visit);
  });
}

}  // namespace engine_race
