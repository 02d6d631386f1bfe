// Damaged copies of stores: what a store looked like before, what is done to it, and what may be
// expected of it then.
//
// Everything follows from a seed, but for the ids of the stores, which the engine draws. Without
// googletest, so that a fuzzer can use it.
#ifndef TEST_E2E_DAMAGED_STORE_H_
#define TEST_E2E_DAMAGED_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "test/e2e/store_image.h"
#include "test/e2e/store_judge.h"

namespace engine_race::test {

using Rng = std::mt19937_64;

// How a base store is made.
struct BaseShape {
  std::string name;
  Options options;
  uint32_t record_count = 0;
  uint32_t key_count = 0;
  // Records that are written after the last Sync; kNeverSynced: there is none.
  uint32_t unsynced_count = kNeverSynced;
  // The store is compacted each time that it has so many more records; 0: never.
  uint32_t compacted_every = 0;
  // The image is taken while the store is open, as if its process had been killed.
  bool killed = false;

  static constexpr uint32_t kNeverSynced = ~uint32_t{0};
};

// A sound store, older states of it, and another store of the same shape.
struct BaseStore {
  // Makes it in `dir`, which is left empty.
  BaseStore(const BaseShape& shape, const std::string& dir);

  std::string name;
  // Filled while `image` is made, so before it.
  StoreTruth truth{Geometry()};
  std::vector<StoreImage> older;
  StoreImage image;
  StoreImage other;
  StoreLayout layout;
  // The 512-byte sectors of each file that hold anything but zeros.
  std::map<std::string, std::vector<uint64_t>> used_sectors;

 private:
  StoreImage Make(const BaseShape& shape, const std::string& dir, uint64_t seed, bool keep);
};

// Damages a copy of a base.
class Damager {
 public:
  Damager(const BaseStore& base, uint64_t seed);

  const StoreImage& image() const { return image_; }
  const std::string& description() const { return description_; }
  // Tells the judge what the damage explains. With `other_boot` the machine is said to have been
  // started anew since the store was written.
  void Instruct(StoreJudge* judge, bool other_boot) const;
  // As Instruct, before another opening in one boot. A damaged store that was written to may have
  // been found in doubt meanwhile.
  void InstructOfDoubt(StoreJudge* judge) const;
  // Only bytes of some buckets were touched: the store must open, and all the other buckets answer.
  bool local() const { return !whole_store_; }
  // Counts that are sound but say something else than the truth, as restored older ones do: no
  // checksum tells them apart.
  bool lying_counts() const { return lying_counts_; }

 private:
  using Edit = void (Damager::*)();

  void FlipBits();
  void ZeroBlock();
  void WriteGarbage();
  void SwapSlots();
  void RestoreOlder();
  void MoveBytes();
  void ChangeCountsWord();
  void ChangeCountsLine();
  void ChangeSize();
  void PutForeignFile();
  void RemoveFile();
  void PutAnotherKind();

  std::string PickFile();
  Extent PickUsed(uint64_t size_bytes);
  void Overwrite(const Extent& extent, const std::string& bytes);
  std::string BytesAt(const StoreImage& image, const Extent& extent) const;
  void JudgeCounts();
  void JudgeRows();
  void JudgeKeptEntries();
  void Say(const std::string& what);

  const BaseStore& base_;
  Rng rng_;
  StoreImage image_;
  std::string description_;
  bool whole_store_ = false;
  bool lying_counts_ = false;
  bool staging_touched_ = false;
  std::set<uint32_t> touched_;
  std::set<uint32_t> unreadable_;
  std::set<uint32_t> lying_;
  // Rows or entries are others that no checksum tells from the true ones.
  std::set<uint32_t> passing_;
  bool rows_touched_ = false;
};

// The counts or the rows of a bucket in a damaged file, compared with those in a sound one.
enum class MetadataState {
  kSame,
  kUnreadable,  // a check fails
  kOther,       // sound in itself, but not the truth
};
MetadataState CompareCounts(const StoreLayout& layout, const std::string& sound,
                            const std::string& damaged, uint32_t bucket);
// kOther: of the head, or of some image of a row, no byte is known to be other than at some moment.
// Only the bytes that an opening looks at count. A head of zeros is kSame: each entry that no
// longer lies in the slot of its number tells.
MetadataState CompareRows(const BaseStore& base, const std::string& damaged, uint32_t bucket);

}  // namespace engine_race::test

#endif  // TEST_E2E_DAMAGED_STORE_H_
