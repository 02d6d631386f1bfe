// Keys as the commands of bin/store take and print them.
//
// Stateless, thread-safe.
#ifndef HARNESS_TOOLS_STORE_KEYS_H_
#define HARNESS_TOOLS_STORE_KEYS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// "auto": 0x and digits are hexadecimal, digits alone decimal, all else is the key's 8 bytes.
enum class KeyFormat { kAuto, kHex, kDecimal, kText };
inline const std::vector<std::string> kKeyFormatNames = {"auto", "hex", "decimal", "text"};

// Reads a key as the number that its bytes are. kInvalidArgument when the text is no such key.
Status ParseKey(std::string_view text, KeyFormat format, uint64_t* key);

// The key in its format: "0x" and 16 digits by kAuto and kHex, Escaped by kText.
std::string KeyText(uint64_t key, KeyFormat format);

// The bytes, but for `\x` and two digits where one is a backslash or not printable ASCII.
std::string Escaped(std::string_view bytes);

// Two hexadecimal digits for each byte.
std::string HexOf(std::string_view bytes);

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_KEYS_H_
