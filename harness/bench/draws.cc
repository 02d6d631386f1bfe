#include "harness/bench/draws.h"

#include <thread>

namespace engine_race::harness {

WordStream::WordStream(const BenchConfig& config, uint32_t thread) {
  uint64_t name = 0;
  for (const char letter : config.benchmark) name = Mix64(name ^ static_cast<uint8_t>(letter));
  seed_ = MixAt(MixAt(config.seed, name), thread);
}

uint64_t WriteDraw::NumberAt(uint64_t call) const {
  const uint64_t turn = call * config_.thread_count + thread_;
  switch (order_) {
    case WriteOrder::kSequential:
      return turn;
    case WriteOrder::kUnique:
      return MixBelow(config_.seed, turn, config_.num);
    case WriteOrder::kRandom:
      break;
  }
  return AsBelow(words_.At(call), config_.num);
}

std::optional<uint64_t> AckedCounter::Claim(FunctionRef<bool()> goes_on) {
  // Relaxed: numbers need only be distinct.
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  // A number shares its bit with the one that is a window before it.
  while (number - count() >= done_.size()) {
    if (!goes_on()) return std::nullopt;
    std::this_thread::yield();
  }
  return number;
}

void AckedCounter::Ack(uint64_t number) {
  const std::lock_guard lock(mutex_);
  done_[number % done_.size()] = true;
  // Relaxed: the mutex orders it.
  uint64_t acked = acked_.load(std::memory_order_relaxed);
  while (done_[acked % done_.size()]) {
    done_[acked % done_.size()] = false;
    ++acked;
  }
  // Release: pairs with the acquire in count().
  acked_.store(acked, std::memory_order_release);
}

uint64_t YcsbDraw::NumberFrom(uint64_t word, uint64_t count) const {
  switch (distribution_) {
    case Distribution::kUniform:
      return AsBelow(word, count);
    case Distribution::kZipfian: {
      uint64_t number = scattered_.IndexFrom(word);
      while (number >= count) {
        word = MixAt(word, 0);
        number = scattered_.IndexFrom(word);
      }
      return number;
    }
    case Distribution::kLatest:
      break;
  }
  return count - 1 - std::min(ranks_.RankAt(AsFraction(word)), count - 1);
}

}  // namespace engine_race::harness
