#include "engine_race/base/lower_bound.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "test/test_util.h"

namespace engine_race {
namespace {

size_t Expected(const std::vector<uint64_t>& keys, uint64_t key) {
  return static_cast<size_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin());
}

TEST(LowerBoundTest, AgreesWithTheStandardForEverySize) {
  std::mt19937_64 random(1);
  for (size_t count = 0; count <= 300; ++count) {
    std::vector<uint64_t> keys(count);
    // Few distinct keys, so that equal neighbours and exact hits are common.
    for (uint64_t& key : keys) key = random() % (2 * count + 1);
    std::sort(keys.begin(), keys.end());
    for (uint64_t key = 0; key <= 2 * count + 2; ++key) {
      ASSERT_EQ(LowerBound(keys.data(), count, key), Expected(keys, key)) << count << " " << key;
    }
    ASSERT_EQ(LowerBound(keys.data(), count, ~uint64_t{0}), count);
  }
}

TEST(LowerBoundTest, OrdersKeysAsUnsignedNumbers) {
  const std::vector<uint64_t> keys = {0, 1, uint64_t{1} << 63, ~uint64_t{0} - 1, ~uint64_t{0}};
  for (const uint64_t key : keys) {
    EXPECT_EQ(LowerBound(keys.data(), keys.size(), key), Expected(keys, key)) << key;
  }
  EXPECT_EQ(LowerBound(keys.data(), keys.size(), 2), 2U);
}

TEST(LowerBoundTest, EmptyNeedsNoMemory) { EXPECT_EQ(LowerBound(nullptr, 0, 5), 0U); }

// Sanitizers add branches of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// One instruction of the kernel as objdump prints it.
struct Instruction {
  uint64_t address = 0;
  std::string mnemonic;
  std::string operands;

  bool conditional_jump() const {
    return mnemonic.size() > 1 && mnemonic[0] == 'j' && mnemonic != "jmp";
  }
  uint64_t target() const { return std::stoull(operands, nullptr, 16); }
};

std::vector<Instruction> Disassemble(const std::string& symbol) {
  const std::string command = "objdump -d --no-show-raw-insn --disassemble=" + symbol + " /proc/" +
                              std::to_string(::getpid()) + "/exe 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::vector<Instruction> code;
  if (pipe == nullptr) return code;
  std::array<char, 512> line{};
  bool inside = false;
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    const std::string text(line.data());
    if (text.find('<' + symbol + ">:") != std::string::npos) {
      inside = true;
      continue;
    }
    if (!inside || text.find(":\t") == std::string::npos) continue;
    std::istringstream words(text.substr(text.find(":\t") + 2));
    Instruction instruction;
    instruction.address = std::stoull(text, nullptr, 16);
    words >> instruction.mnemonic;
    std::getline(words >> std::ws, instruction.operands);
    code.push_back(instruction);
  }
  return code;
}

// The loop may branch only on its count. The comparison of keys must select data.
TEST(LowerBoundTest, MachineCodeOfTheLoopHasNoOtherBranch) {
  const std::vector<Instruction> code = Disassemble("_ZN11engine_race10LowerBoundEPKmmm");
  if (code.empty() && std::system("objdump --version > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no objdump";
  }
  ASSERT_FALSE(code.empty());
  const Instruction* back_edge = nullptr;
  for (const Instruction& instruction : code) {
    if (instruction.conditional_jump() && instruction.target() <= instruction.address) {
      ASSERT_EQ(back_edge, nullptr) << "two loops";
      back_edge = &instruction;
    }
  }
  ASSERT_NE(back_edge, nullptr) << "no loop";
  bool selects = false;
  for (const Instruction& instruction : code) {
    const bool in_loop =
        instruction.address >= back_edge->target() && instruction.address <= back_edge->address;
    if (instruction.conditional_jump() && &instruction != back_edge) {
      EXPECT_FALSE(in_loop) << "a branch in the loop: " << instruction.mnemonic << " "
                            << instruction.operands;
    }
    selects |= in_loop && (instruction.mnemonic.starts_with("cmov") ||
                           instruction.mnemonic.starts_with("sbb") ||
                           instruction.mnemonic.starts_with("setb"));
  }
  EXPECT_TRUE(selects) << "the comparison's outcome goes nowhere";
}

#endif  // no sanitizer

}  // namespace
}  // namespace engine_race
