// Chains: the records of a batch in the journal, which count together or not at all.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/sys.h"
#include "engine_race/log/journal.h"
#include "engine_race/log/journal_replay.h"
#include "test/eventually.h"
#include "test/log/batch_test_util.h"
#include "test/log/entry_test_util.h"
#include "test/watched_thread.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kChainStoreId = 77;

class JournalChainTest : public ::testing::Test {
 protected:
  JournalChainTest() {
    EXPECT_TRUE(sys::OpenAt(AT_FDCWD, dir_.path(), O_RDONLY | O_DIRECTORY, 0, &directory_).ok());
    Journal::Callbacks callbacks;
    callbacks.checkpoint = [this] {
      ++checkpoint_count_;
      return Status::Ok();
    };
    callbacks.on_failure = [](const Status&) {};
    EXPECT_TRUE(Journal::Open(directory_.get(), OwnIds(kChainStoreId), kValueBytes,
                              kMinJournalBytes, 0600,
                              /*batch_records=*/1, Placement(), std::move(callbacks), &journal_)
                    .ok());
  }

  // Records of slots [begin, end) of bucket 1; every fifth is a tombstone.
  static std::vector<JournalRecord> Records(uint32_t begin, uint32_t end,
                                            const std::string* value) {
    std::vector<JournalRecord> records;
    for (uint32_t slot = begin; slot < end; ++slot) {
      KeyRecord record;
      record.key = slot;
      record.sequence = record.slot = slot;
      record.tombstone = slot % 5 == 4;
      record.value_hash = record.tombstone ? 0 : HashValue(value->data(), value->size());
      records.push_back({{EntryCodec(kChainStoreId, 1).Encode(record, slot), /*bucket=*/1, 0},
                         record.tombstone ? nullptr : value->data()});
    }
    return records;
  }
  void Single(uint32_t slot) {
    const std::vector<JournalRecord> records = Records(slot, slot + 1, &value_);
    JournalRequest request;
    request.descriptor = records[0].descriptor;
    request.value = records[0].value;
    journal_->Enqueue(&request);
    ASSERT_TRUE(journal_->Await(&request).ok());
  }
  uint64_t Replayed() const {
    JournalReplay replay;
    EXPECT_TRUE(replay.Read(directory_.get(), OwnIds(kChainStoreId), kValueBytes).ok());
    return replay.RecordsOf(1).size();
  }
  void Zero(uint64_t block) {
    LoseBytes(dir_.Join(format::kJournalName), block * format::kJournalBlockBytes,
              format::kJournalBlockBytes);
  }

  const std::string value_ = ValueOf(1, 1);
  TempDir dir_;
  UniqueFd directory_;
  std::atomic<int> checkpoint_count_{0};
  std::unique_ptr<Journal> journal_;
};

TEST_F(JournalChainTest, ItsRecordsAreFoundBetweenSingleOnes) {
  uint32_t half = 9;
  Single(0);
  ASSERT_TRUE(journal_->WriteChain(Records(1, 401, &value_), &half).ok());
  EXPECT_EQ(half, 0u);
  journal_->SettleChain(half);
  Single(401);
  ASSERT_TRUE(journal_->WriteChain(Records(402, 404, &value_), &half).ok());
  journal_->SettleChain(half);
  JournalReplay replay;
  ASSERT_TRUE(replay.Read(directory_.get(), OwnIds(kChainStoreId), kValueBytes).ok());
  ASSERT_EQ(replay.RecordsOf(1).size(), 404u);
  Region buffer;
  ASSERT_TRUE(Region::Allocate(kValueBytes, false, &buffer).ok());
  for (uint32_t slot = 0; slot < 404; ++slot) {
    const JournalReplay::Record* const record = replay.Find(1, slot);
    ASSERT_NE(record, nullptr) << slot;
    if (slot % 5 == 4) continue;
    ASSERT_TRUE(replay.ReadValue(*record, buffer.data()).ok());
    EXPECT_EQ(std::string(buffer.data(), kValueBytes), value_) << slot;
  }
  EXPECT_EQ(journal_->durable_record_count(), 404u);
}

// Each block that did not reach the device takes the whole chain with it, and no record before it.
TEST_F(JournalChainTest, WithoutOneOfItsBlocksItIsNothing) {
  const auto blocks_of = [](uint32_t begin, uint32_t end) {
    uint64_t values = 0;
    for (uint32_t slot = begin; slot < end; ++slot) values += slot % 5 != 4;
    return values;
  };
  uint32_t half = 0;
  Single(0);
  ASSERT_TRUE(journal_->WriteChain(Records(1, 151, &value_), &half).ok());
  journal_->SettleChain(half);
  journal_.reset();
  ASSERT_EQ(Replayed(), 151u);
  const std::string journal = dir_.Join(format::kJournalName);
  const std::string whole = dir_.Join("whole");
  std::filesystem::copy_file(journal, whole);
  const uint64_t first = 2;
  const uint64_t second = first + 1 + blocks_of(1, 101);
  const uint64_t last = second + blocks_of(101, 151);
  for (const uint64_t block : {first, first + 1, second - 1, second, second + 1, last}) {
    std::filesystem::copy_file(whole, journal, std::filesystem::copy_options::overwrite_existing);
    Zero(block);
    EXPECT_EQ(Replayed(), 1u) << block;
  }
}

// Its entries have the whole hashes of their values.
TEST_F(JournalChainTest, WithAnotherValueOfTheSameIndexBitsItIsNothing) {
  const CollidingValues values;
  uint32_t half = 0;
  ASSERT_TRUE(journal_->WriteChain(Records(0, 3, &values.first), &half).ok());
  journal_->SettleChain(half);
  journal_.reset();
  ASSERT_EQ(Replayed(), 3u);
  Overwrite(dir_.Join(format::kJournalName), values.second.data(), values.second.size(),
            2 * format::kJournalBlockBytes);
  EXPECT_EQ(Replayed(), 0u);
}

TEST_F(JournalChainTest, TheEndOfAnEarlierChainIsNotTakenForItsOwn) {
  uint32_t half = 0;
  const std::vector<JournalRecord> records = Records(0, 150, &value_);
  ASSERT_TRUE(journal_->WriteChain(records, &half).ok());
  journal_->SettleChain(half);
  const std::string journal = dir_.Join(format::kJournalName);
  const std::string first = dir_.Join("first");
  std::filesystem::copy_file(journal, first);
  // Begun anew, as after a write that failed: the first batch of the next chain under the same
  // number, the second one still that of the former chain.
  const uint64_t second_offset =
      (1 + static_cast<uint64_t>(std::count_if(
               records.begin(), records.begin() + 100,
               [](const JournalRecord& record) { return record.value != nullptr; }))) *
      format::kJournalBlockBytes;
  std::string bytes(second_offset, '\0');
  {
    std::ifstream in(first, std::ios::binary);
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  auto* const header = reinterpret_cast<format::JournalHeader*>(bytes.data());
  header->chain_id ^= 1;
  header->checksum = 0;
  header->checksum = Hash64(header, format::kJournalBlockBytes, format::kJournalMagic);
  journal_.reset();
  Overwrite(journal, bytes.data(), bytes.size(), 0);
  EXPECT_EQ(Replayed(), 0u);
}

// A checkpoint makes durable what is counted. So it waits for the chains of the half that it frees.
TEST_F(JournalChainTest, AHalfIsNotFreedBeforeItsChainsAreCounted) {
  uint32_t half = 0;
  ASSERT_TRUE(journal_->WriteChain(Records(0, 10, &value_), &half).ok());
  std::atomic<bool> settled{false};
  std::atomic<uint32_t> slot{10};
  // Fills the first half, the other, and then needs the first again.
  WatchedThread writer([&] {
    // Five records take nine blocks.
    const uint32_t enough = kMinJournalBytes / format::kJournalBlockBytes;
    while (slot < 10 + enough) {
      Single(slot);
      ++slot;
    }
    EXPECT_TRUE(settled.load());
  });
  EXPECT_TRUE(Eventually([&] { return slot > 400; }));
  EXPECT_TRUE(writer.AwaitSleep());
  EXPECT_EQ(checkpoint_count_.load(), 0);
  settled = true;
  journal_->SettleChain(half);
  writer.Join();
  EXPECT_GE(checkpoint_count_.load(), 1);
}

TEST_F(JournalChainTest, ItFitsOrItDoesNot) {
  EXPECT_TRUE(journal_->ChainFits(400, 400));
  EXPECT_FALSE(journal_->ChainFits(512, 512));
}

// The records of a batch in a durable mode, through the log: all of them, or none where a part of
// the chain is lost with the rest.
TEST(DurableBatchTest, OutlivesALossOfStagingAsAWhole) {
  for (const SyncMode mode : {SyncMode::kGroup, SyncMode::kEveryWrite}) {
    for (const bool torn : {false, true}) {
      TempDir dir;
      uint64_t store_id = 0;
      KillImages images(dir.path());
      {
        const auto log = OpenLog(TinyLogOptions(mode), dir.path());
        store_id = log->store_id();
        ASSERT_TRUE(log->Write(BatchOverAll(3, 1)).ok());
        ASSERT_TRUE(log->Write(BatchOverAll(7, 2)).ok());
        EXPECT_EQ(log->durable_write_count(), 40u);
        images.Take();
      }
      const std::string& image = images.paths()[0];
      // Two headers and twelve values; then the values of the second batch.
      if (torn) {
        LoseBytes(image + "/" + format::kJournalName, (1 + 12 + 1 + 20) * kValueBytes, kValueBytes);
      }
      LosePower(image, store_id);
      const std::map<uint64_t, uint64_t> content = ContentIn(image, TinyLogOptions());
      EXPECT_EQ(content.size(), torn ? 12u : 28u);
      for (const auto& [key, version] : content) EXPECT_EQ(version, torn ? 1u : 2u) << key;
    }
  }
}

}  // namespace
}  // namespace engine_race::test
