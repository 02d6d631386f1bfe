// Records for the tests of blocks and tables. Their keys are of kinds that are hard for an
// encoding, and each payload proves which key it belongs to.
//
// Header only, stateless but for TableDir, which owns its directory.
#ifndef TEST_HARNESS_LAB_TABLE_TEST_UTIL_H_
#define TEST_HARNESS_LAB_TABLE_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine_race/base/sys.h"
#include "harness/lab/block_shape.h"
#include "harness/lab/table_file.h"
#include "test/test_util.h"

namespace engine_race::test {

inline constexpr std::array kEncodings = {lab::Encoding::kRestart, lab::Encoding::kSquare,
                                          lab::Encoding::kTree};

using Records = std::map<std::string, std::string>;

enum class KeyKind : uint8_t {
  kRandom,
  kLongPrefix,   // only the last three bytes differ
  kEqualWords,   // the first bytes are of two kinds, so that significant words are often equal
  kTwoBytes,     // nothing but 0x00 and 0xff
  kHalfShared,   // the first half is common
  kOnlyTheLast,  // only the last byte differs
};
inline constexpr std::array kKeyKinds = {KeyKind::kRandom,     KeyKind::kLongPrefix,
                                         KeyKind::kEqualWords, KeyKind::kTwoBytes,
                                         KeyKind::kHalfShared, KeyKind::kOnlyTheLast};

inline std::string RandomKey(KeyKind kind, uint32_t key_bytes, std::mt19937_64* random) {
  std::string key(key_bytes, '\0');
  for (char& byte : key) byte = static_cast<char>((*random)());
  const auto fill = [&](uint32_t count, char byte) { key.replace(0, count, count, byte); };
  switch (kind) {
    case KeyKind::kRandom:
      break;
    case KeyKind::kLongPrefix:
      fill(key_bytes - 3, 'p');
      break;
    case KeyKind::kEqualWords: {
      const bool high = (key[0] & 1) != 0;
      fill(key_bytes - 3, '\0');
      key[0] = high ? '\x80' : '\x01';
      break;
    }
    case KeyKind::kTwoBytes:
      for (char& byte : key) byte = (byte & 1) != 0 ? '\xff' : '\0';
      break;
    case KeyKind::kHalfShared:
      fill(key_bytes / 2, 'h');
      break;
    case KeyKind::kOnlyTheLast:
      fill(key_bytes - 1, '\xff');
      break;
  }
  return key;
}

// Depends on every byte of the key, and differs at each place.
inline std::string PayloadOf(const std::string& key, uint32_t payload_bytes) {
  uint64_t word = 0x9e3779b97f4a7c15;
  for (const char byte : key) word = (word ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  std::string payload(payload_bytes, '\0');
  for (uint32_t i = 0; i < payload_bytes; ++i) {
    payload[i] = static_cast<char>((word >> (8 * (i % 8))) + i / 8);
  }
  return payload;
}

// Up to `count` records; fewer if the kind has fewer keys.
inline Records RandomRecords(KeyKind kind, const harness::TableShape& shape, size_t count,
                             std::mt19937_64* random) {
  Records records;
  for (size_t tries = 0; records.size() < count && tries < 4 * count; ++tries) {
    const std::string key = RandomKey(kind, shape.key_bytes, random);
    records[key] = PayloadOf(key, shape.payload_bytes);
  }
  return records;
}

// Keys that lookups could get wrong: those of the records, their neighbours, and some of all kinds.
inline std::vector<std::string> Probes(const Records& records, uint32_t key_bytes, size_t count,
                                       std::mt19937_64* random) {
  std::vector<std::string> probes = {std::string(key_bytes, '\0'), std::string(key_bytes, '\xff')};
  const size_t step = records.size() / count + 1;
  size_t place = 0;
  for (const auto& [key, payload] : records) {
    if (place++ % step != 0) continue;
    probes.push_back(key);
    for (const int delta : {-1, 1}) {
      std::string near = key;
      near.back() = static_cast<char>(near.back() + delta);
      probes.push_back(near);
    }
    std::string changed = key;
    changed[(*random)() % key_bytes] ^= static_cast<char>(1 + (*random)() % 255);
    probes.push_back(changed);
    probes.push_back(RandomKey(kKeyKinds[(*random)() % kKeyKinds.size()], key_bytes, random));
  }
  return probes;
}

// A directory for tables, in memory if the machine has such a file system.
class TableDir {
 public:
  TableDir() : dir_(FastParent()) {
    EXPECT_TRUE(sys::OpenDirectory(dir_.path(), /*create=*/false, &fd_).ok());
  }
  int fd() const { return fd_.get(); }
  std::string Join(const std::string& name) const { return dir_.Join(name); }

  Status Build(const std::string& name, const harness::TableShape& shape, lab::Encoding encoding,
               const Records& records) const {
    std::unique_ptr<lab::TableFileBuilder> builder;
    ENGINE_RACE_RETURN_IF_ERROR(
        lab::TableFileBuilder::Create(fd(), name, encoding, shape, &builder));
    for (const auto& [key, payload] : records) {
      ENGINE_RACE_RETURN_IF_ERROR(builder->Add(key.data(), payload.data()));
    }
    return builder->Finish();
  }

 private:
  TempDir dir_;
  UniqueFd fd_;
};

}  // namespace engine_race::test

#endif  // TEST_HARNESS_LAB_TABLE_TEST_UTIL_H_
