#include "engine_race/log/file_part.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine_race/base/memory.h"
#include "engine_race/base/value_layout.h"

namespace engine_race {
namespace {

// Whether the part is these blocks, and its memory fits direct I/O.
bool IsWhole(const Blocks& blocks, const char* data, uint64_t size_bytes) {
  return blocks.size_bytes == size_bytes && reinterpret_cast<uintptr_t>(data) % kIoAlignment == 0;
}

}  // namespace

Status ReadPart(const io::File& file, char* buffer, uint64_t size_bytes, uint64_t offset,
                size_t* read_bytes) {
  const Blocks blocks = BlocksAround(offset, size_bytes);
  if (IsWhole(blocks, buffer, size_bytes))
    return file.ReadSome(buffer, size_bytes, offset, read_bytes);
  Region around;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(blocks.size_bytes, /*huge_pages=*/false, &around));
  size_t found_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(
      file.ReadSome(around.data(), blocks.size_bytes, blocks.offset, &found_bytes));
  found_bytes -= std::min<size_t>(found_bytes, blocks.skip_bytes);
  *read_bytes = std::min<uint64_t>(found_bytes, size_bytes);
  std::memcpy(buffer, around.data() + blocks.skip_bytes, *read_bytes);
  return Status::Ok();
}

Status ReadWholePart(const io::File& file, char* buffer, uint64_t size_bytes, uint64_t offset,
                     uint64_t buffer_bytes) {
  const Blocks blocks = BlocksAround(offset, size_bytes);
  if (IsWhole(blocks, buffer, size_bytes)) return file.Read(buffer, size_bytes, offset);
  if (IsWhole(blocks, buffer, std::min(blocks.size_bytes, buffer_bytes))) {
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(buffer, blocks.size_bytes, blocks.offset));
    if (blocks.skip_bytes != 0) std::memmove(buffer, buffer + blocks.skip_bytes, size_bytes);
    return Status::Ok();
  }
  Region around;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(blocks.size_bytes, /*huge_pages=*/false, &around));
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(around.data(), blocks.size_bytes, blocks.offset));
  std::memcpy(buffer, around.data() + blocks.skip_bytes, size_bytes);
  return Status::Ok();
}

Status WritePart(const io::File& file, const char* data, uint64_t size_bytes, uint64_t offset) {
  const Blocks blocks = BlocksAround(offset, size_bytes);
  if (IsWhole(blocks, data, size_bytes)) return file.Write(data, size_bytes, offset);
  Region around;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(blocks.size_bytes, /*huge_pages=*/false, &around));
  const auto read_block = [&](uint64_t at) {
    size_t read_bytes = 0;
    return file.ReadSome(around.data() + at, kIoAlignment, blocks.offset + at, &read_bytes);
  };
  const uint64_t last = blocks.size_bytes - kIoAlignment;
  const bool begins_within = blocks.skip_bytes != 0;
  const bool ends_within = (offset + size_bytes) % kIoAlignment != 0;
  if (begins_within) ENGINE_RACE_RETURN_IF_ERROR(read_block(0));
  if (ends_within && !(begins_within && last == 0)) ENGINE_RACE_RETURN_IF_ERROR(read_block(last));
  std::memcpy(around.data() + blocks.skip_bytes, data, size_bytes);
  return file.Write(around.data(), blocks.size_bytes, blocks.offset);
}

}  // namespace engine_race
