#include "harness/tools/store_command.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

// The bytes of the key that the text is; empty when it is none.
std::string Parsed(const std::string& text, KeyFormat format = KeyFormat::kAuto) {
  uint64_t key = 0;
  const Status status = ParseKey(text, format, &key);
  EXPECT_TRUE(status.ok() || status.code() == Code::kInvalidArgument) << status.ToString();
  return status.ok() ? test::KeyOf(key) : std::string();
}

TEST(StoreKeysTest, TheFormatIsGuessedFromTheText) {
  using std::string_literals::operator""s;
  EXPECT_EQ(Parsed("0x0102"), "\0\0\0\0\0\0\1\2"s);
  EXPECT_EQ(Parsed("0x68656c6c6f212121"), "hello!!!");
  EXPECT_EQ(Parsed("258"), "\0\0\0\0\0\0\1\2"s);
  EXPECT_EQ(Parsed("18446744073709551615"), std::string(8, '\xff'));
  EXPECT_EQ(Parsed("hello!!!"), "hello!!!");
  EXPECT_EQ(Parsed("1234567x"), "1234567x");
  // Eight digits are a number.
  EXPECT_EQ(Parsed("00000258"), "\0\0\0\0\0\0\1\2"s);
  EXPECT_EQ(Parsed("00000258", KeyFormat::kText), "00000258");
  EXPECT_EQ(Parsed("258", KeyFormat::kHex), "\0\0\0\0\0\0\2\x58"s);
  EXPECT_EQ(Parsed("0x258", KeyFormat::kHex), "\0\0\0\0\0\0\2\x58"s);
}

TEST(StoreKeysTest, RefusesWhatIsNoKey) {
  for (const char* const text : {"", "short", "too long!", "0x", "0xfg", "0x12345678123456789",
                                 "-1", "18446744073709551616", " 1", "1 "}) {
    EXPECT_EQ(Parsed(text), "") << text;
  }
  EXPECT_EQ(Parsed("0x10", KeyFormat::kDecimal), "");
  EXPECT_EQ(Parsed("hello!!!", KeyFormat::kDecimal), "");
  EXPECT_EQ(Parsed("hello!!!", KeyFormat::kHex), "");
  EXPECT_EQ(Parsed("0x0102", KeyFormat::kText), "");
}

TEST(StoreKeysTest, PrintedKeysAreParsedAgain) {
  EXPECT_EQ(KeyText(258, KeyFormat::kAuto), "0x0000000000000102");
  EXPECT_EQ(KeyText(258, KeyFormat::kDecimal), "258");
  uint64_t word = 0;
  ASSERT_TRUE(ParseKey("hello!!!", KeyFormat::kText, &word).ok());
  EXPECT_EQ(KeyText(word, KeyFormat::kText), "hello!!!");
  // A terminal shows no control bytes.
  EXPECT_EQ(KeyText(258, KeyFormat::kText), "\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02");
  for (const KeyFormat format : {KeyFormat::kHex, KeyFormat::kDecimal}) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{258}, word, ~uint64_t{0}}) {
      EXPECT_EQ(Parsed(KeyText(key, format), format), test::KeyOf(key));
    }
  }
}

TEST(StoreKeysTest, HexHasTwoDigitsForEachByte) {
  EXPECT_EQ(HexOf(std::string("\0\x0f\xa5\xff", 4)), "000fa5ff");
}

}  // namespace
}  // namespace engine_race::harness
