#include "harness/tools/store_keys.h"

#include <charconv>
#include <system_error>

#include "engine_race/base/key.h"

namespace engine_race::harness {
namespace {

KeyFormat FormatOf(std::string_view text) {
  if (text.starts_with("0x")) return KeyFormat::kHex;
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  return is_number ? KeyFormat::kDecimal : KeyFormat::kText;
}

}  // namespace

Status ParseKey(std::string_view text, KeyFormat format, uint64_t* key) {
  if (format == KeyFormat::kAuto) format = FormatOf(text);
  const std::string shown = "'" + std::string(text) + "'";
  if (format == KeyFormat::kText) {
    if (!IsKey(text)) {
      return Status::InvalidArgument(shown + " is no key: 0x and digits, digits, or " +
                                     std::to_string(kKeyBytes) + " bytes of text");
    }
    *key = DecodeKey(text.data());
    return Status::Ok();
  }
  const bool is_hex = format == KeyFormat::kHex;
  if (is_hex && text.starts_with("0x")) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *key, is_hex ? 16 : 10);
  if (error == std::errc::result_out_of_range) {
    return Status::InvalidArgument(shown + " does not fit the 8 bytes of a key");
  }
  if (error != std::errc() || at != end) {
    return Status::InvalidArgument(shown + " is no " + (is_hex ? "hexadecimal" : "decimal") +
                                   " key");
  }
  return Status::Ok();
}

std::string HexOf(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string Escaped(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const bool is_shown = byte >= ' ' && byte <= '~' && byte != '\\';
    text += is_shown ? std::string(1, byte) : "\\x" + HexOf({&byte, 1});
  }
  return text;
}

std::string KeyText(uint64_t key, KeyFormat format) {
  const KeyBytes bytes(key);
  if (format == KeyFormat::kDecimal) return std::to_string(key);
  if (format == KeyFormat::kText) return Escaped(bytes.view());
  return "0x" + HexOf(bytes.view());
}

}  // namespace engine_race::harness
