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
               std::atomic<uint64_t>* next_piece)
      : context_(context),
        bucket_(bucket),
        log_bytes_(cut.logged_slot_end() * format::kKeyEntryBytes),
        piece_bytes_(context->limits().piece_bytes),
        next_piece_(next_piece) {}

  Status Run(uint32_t worker, uint32_t pieces_in_flight, const KeyLogPieceFn& visit) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size_t{piece_bytes_} * pieces_in_flight, true,
                                                 &buffer_, context_->log().placement().memory()));
    ENGINE_RACE_RETURN_IF_ERROR(
        io::LastingQueue::Create({context_->options().io_backend, pieces_in_flight},
                                 context_->log().failed_backends(), &queue_));
    offsets_.resize(pieces_in_flight);
    for (uint32_t buffer = 0; buffer < pieces_in_flight; ++buffer) {
      ENGINE_RACE_RETURN_IF_ERROR(Start(buffer));
    }
    std::vector<io::ReadCompletion> completions;
    while (queue_->in_flight() > 0 && !context_->failed()) {
      completions.clear();
      ENGINE_RACE_RETURN_IF_ERROR(queue_->Wait(1, &completions));
      for (const io::ReadCompletion& done : completions) {
        const auto buffer = static_cast<uint32_t>(done.tag);
        if (done.error != 0) return io::ReadError(context_->log().KeyFile(bucket_), done.error);
        const uint64_t read_count = done.read_bytes / format::kKeyEntryBytes;
        const auto* const entries =
            reinterpret_cast<const format::KeyEntry*>(buffer_.data() + BufferOffset(buffer));
        ENGINE_RACE_RETURN_IF_ERROR(
            visit({worker,
                   offsets_[buffer] / format::kKeyEntryBytes,
                   {entries, read_count},
                   SizeAt(offsets_[buffer]) / format::kKeyEntryBytes - read_count}));
        ENGINE_RACE_RETURN_IF_ERROR(Start(buffer));
      }
    }
    return Status::Ok();
  }

 private:
  size_t BufferOffset(uint32_t buffer) const { return size_t{buffer} * piece_bytes_; }
  uint64_t SizeAt(uint64_t offset) const {
    return std::min<uint64_t>(piece_bytes_, log_bytes_ - offset);
  }

  // Starts to read the next piece that no thread has taken, if there is one.
  Status Start(uint32_t buffer) {
    // Relaxed: each number must only be handed out once.
    const uint64_t offset = next_piece_->fetch_add(1, std::memory_order_relaxed) * piece_bytes_;
    if (offset >= log_bytes_) return Status::Ok();
    offsets_[buffer] = offset;
    io::ReadRequest request;
    request.fd = context_->log().KeyFile(bucket_).fd();
    request.size_bytes = static_cast<uint32_t>(SizeAt(offset));
    request.offset = context_->log().KeyOffset(bucket_, 0) + offset;
    request.buffer = buffer_.data() + BufferOffset(buffer);
    request.tag = buffer;
    size_t started = 0;
    return queue_->Submit({&request, 1}, &started);
  }

  BuildContext* const context_;
  const uint32_t bucket_;
  const uint64_t log_bytes_;
  const uint32_t piece_bytes_;
  std::atomic<uint64_t>* const next_piece_;
  Region buffer_;
  std::vector<uint64_t> offsets_;
  // Declared after the buffer: its destructor waits for reads into it.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace

Status StreamKeyLog(BuildContext* context, uint32_t bucket, const BucketCut& cut,
                    uint32_t worker_count, uint32_t pieces_in_flight, const KeyLogPieceFn& visit) {
  std::atomic<uint64_t> next_piece{0};
  return context->RunThreads(worker_count, [&](uint32_t worker) {
    const std::span staged(cut.staged_keys);
    for (size_t i = 0; worker == 0 && i < staged.size();) {
      const SlotPiece piece = cut.table.PieceFrom(cut.first_staged() + i, cut.record_count);
      ENGINE_RACE_RETURN_IF_ERROR(
          visit({worker, piece.slot, staged.subspan(i, piece.count), 0, /*staged=*/true}));
      i += piece.count;
    }
    return StreamWorker(context, bucket, cut, &next_piece).Run(worker, pieces_in_flight, visit);
  });
}

}  // namespace engine_race
