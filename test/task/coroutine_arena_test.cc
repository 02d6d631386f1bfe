#include "engine_race/task/coroutine_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace engine_race {
namespace {

TEST(CoroutineArenaTest, AFreedFrameServesTheNextOneOfItsSize) {
  CoroutineArena arena;
  void* const frame = arena.Allocate(100);
  ASSERT_NE(frame, nullptr);
  std::memset(frame, 0x5a, 100);
  const uint64_t bytes = arena.memory_bytes();
  EXPECT_GE(bytes, 100u);
  arena.Free(frame, 100);
  EXPECT_EQ(arena.Allocate(128), frame) << "sizes go in steps of 64 bytes";
  EXPECT_EQ(arena.memory_bytes(), bytes);
  void* const larger = arena.Allocate(129);
  EXPECT_NE(larger, frame);
  EXPECT_GT(arena.memory_bytes(), bytes);
  arena.Free(frame, 128);
  arena.Free(larger, 129);
}

TEST(CoroutineArenaTest, LivingFramesDoNotOverlap) {
  CoroutineArena arena;
  std::vector<char*> frames;
  for (size_t i = 0; i < 50; ++i) {
    frames.push_back(static_cast<char*>(arena.Allocate(200)));
    std::memset(frames.back(), static_cast<int>(i), 200);
  }
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(frames[i][0], static_cast<char>(i));
    EXPECT_EQ(frames[i][199], static_cast<char>(i));
    arena.Free(frames[i], 200);
  }
}

TEST(CoroutineArenaTest, LargeFramesGoBackToTheHeap) {
  CoroutineArena arena;
  void* const frame = arena.Allocate(5000);
  ASSERT_NE(frame, nullptr);
  EXPECT_GE(arena.memory_bytes(), 5000u);
  arena.Free(frame, 5000);
  EXPECT_EQ(arena.memory_bytes(), 0u);
}

}  // namespace
}  // namespace engine_race
