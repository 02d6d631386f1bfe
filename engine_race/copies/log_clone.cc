#include "engine_race/copies/log_clone.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/key_log_cut.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/power_recovery.h"
#include "engine_race/log/row_file.h"
#include "engine_race/log/store_creation.h"

namespace engine_race {
namespace {

bool HaveOneShape(const Geometry& a, const Geometry& b) {
  return a.path_count == 0 && b.path_count == 0 && a.bucket_count == b.bucket_count &&
         a.layout == b.layout && a.file_count == b.file_count &&
         a.bucket_capacity_records == b.bucket_capacity_records &&
         a.value_group_bytes == b.value_group_bytes && a.key_group_bytes == b.key_group_bytes &&
         a.keys() == b.keys();
}

Status CloneFile(const io::File& from, const io::File& to) {
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::CloneFile(from.fd(), to.fd(), &supported));
  return supported ? Status::Ok()
                   : Status::IOError(to.name() + " cannot share blocks, as another file could");
}

// Leaves the rows of a cut of `record_count` records. Rows that are moving are moved ones in the
// clone, which is durable before it is a store.
void CutTable(uint64_t record_count, SlotTable* table) {
  CutRows(record_count, record_count, table);
  for (uint32_t index = 0; index < table->rows().size(); ++index) {
    Row row = table->rows()[index];
    if (!row.is_moving()) continue;
    row.kind = format::RowKind::kUsed;
    table->SetRow(index, row);
  }
}

Status WriteTables(const std::vector<SlotTable>& tables, mode_t file_mode, StoreFiles* clone) {
  if (std::ranges::none_of(tables, &SlotTable::has_rows)) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(CreateRowFile(*clone, file_mode, &clone->rows));
  clone->identity.has_rows = true;
  for (uint32_t bucket = 0; bucket < tables.size(); ++bucket) {
    if (!tables[bucket].has_rows()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(WriteTable(*clone, bucket, tables[bucket]));
  }
  return clone->rows.Sync();
}

}  // namespace

Status CanCloneLogs(const StoreFiles& source, const StoreFiles& clone, bool* can) {
  *can = HaveOneShape(source.identity.geometry, clone.identity.geometry);
  if (!*can) return Status::Ok();
  return sys::CloneFile(source.slots.key_file(0).fd(), clone.slots.key_file(0).fd(), can);
}

Status CloneLogs(const StoreFiles& source, const std::vector<uint64_t>& record_counts,
                 std::vector<SlotTable> tables, mode_t file_mode, StoreFiles* clone) {
  const Geometry& geometry = clone->identity.geometry;
  ENGINE_RACE_ASSERT(HaveOneShape(source.identity.geometry, geometry));
  for (uint32_t number = 0; number < source.slots.file_count(); ++number) {
    // A file that is not open has no record of the cut.
    if (!source.slots.is_open(number)) continue;
    ENGINE_RACE_RETURN_IF_ERROR(
        CloneFile(source.slots.key_file(number), clone->slots.key_file(number)));
    ENGINE_RACE_RETURN_IF_ERROR(
        CloneFile(source.slots.value_file(number), clone->slots.value_file(number)));
  }
  // Last: it has the segments of all records of the cut, and maybe of later ones.
  ENGINE_RACE_RETURN_IF_ERROR(CloneFile(source.slots.table_file(), clone->slots.table_file()));
  clone->identity.other_seed_id = source.identity.seed_id();
  uint64_t damaged_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(clone->slots.Load(clone->identity.seed_id(), &damaged_count));
  if (damaged_count != 0) {
    return Status::Corruption(source.slots.table_file().name() + ": entries are damaged");
  }
  ENGINE_RACE_RETURN_IF_ERROR(clone->slots.OpenUsed(/*read_only=*/false));
  // Appends to the source went on: its logs have had records behind the cut.
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    CutTable(record_counts[bucket], &tables[bucket]);
  }
  ENGINE_RACE_RETURN_IF_ERROR(WriteTables(tables, file_mode, clone));
  ENGINE_RACE_RETURN_IF_ERROR(ForEachNumber(geometry.bucket_count, [&](uint32_t bucket) {
    return CutKeyLog(*clone, bucket, tables[bucket], record_counts[bucket]);
  }));
  return WriteNewCounts(*clone, record_counts, /*page_cache_id=*/0);
}

}  // namespace engine_race
