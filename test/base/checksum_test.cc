#include "engine_race/base/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine_race/base/checksum_kernels.h"
#include "engine_race/base/options.h"

namespace engine_race {
namespace {

std::vector<char> RandomValue(uint64_t seed, size_t size = kValueBytes) {
  std::mt19937_64 random(seed);
  std::vector<char> value(size);
  for (char& c : value) c = static_cast<char>(random());
  return value;
}

TEST(ChecksumTest, EveryKernelAgreesWithThePortableHash) {
  size_t kernels = 0;
  for (const ValueHashKernel* kernel = ValueHashKernels(); kernel->name != nullptr; ++kernel) {
    ++kernels;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      for (const size_t size : {8, 17, 100, 240, 241, 512, 1536, 4096, 1 << 20}) {
        const std::vector<char> value = RandomValue(seed, size);
        EXPECT_EQ(kernel->hash(value.data(), size), Hash64(value.data(), size, 0))
            << kernel->name << ", " << size << " bytes";
      }
    }
  }
  EXPECT_GE(kernels, 1u);
}

// The names of the kernels that such a CPU is given, in their order.
std::vector<std::string> KernelNames(const CpuFeatures& cpu) {
  std::vector<std::string> names;
  for (const ValueHashKernel& kernel : ValueHashesOf(cpu)) {
    if (kernel.name != nullptr) names.emplace_back(kernel.name);
  }
  return names;
}

TEST(ChecksumTest, AKernelNeedsEveryFeatureThatItsFileIsCompiledFor) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(KernelNames({}), Names({"baseline"}));
  EXPECT_EQ(KernelNames({.avx2 = true}), Names({"avx2", "baseline"}));
}

// Words of 512 bits slow down everything else that the core does.
TEST(ChecksumTest, NoKernelUsesWordsOf512Bits) {
  const CpuFeatures all = {.avx2 = true, .avx512f = true, .avx512bw = true, .avx512vl = true};
  EXPECT_EQ(KernelNames(all), std::vector<std::string>({"avx2", "baseline"}));
}

TEST(ChecksumTest, AnyFlippedBitChangesTheHash) {
  std::vector<char> value = RandomValue(1);
  const uint64_t whole = HashValue(value.data(), value.size());
  for (size_t bit = 0; bit < kValueBytes * 8; bit += 37) {
    value[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_NE(HashValue(value.data(), value.size()), whole) << bit;
    value[bit / 8] ^= static_cast<char>(1 << (bit % 8));
  }
  EXPECT_EQ(HashValue(value.data(), value.size()), whole);
}

TEST(ChecksumTest, SeedMatters) { EXPECT_NE(Hash64("abc", 3, 1), Hash64("abc", 3, 2)); }

}  // namespace
}  // namespace engine_race
