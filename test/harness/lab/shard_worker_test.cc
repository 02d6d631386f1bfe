// One worker and its mails: which routes it follows, what it passes on, and refused memory.
#include "harness/lab/shard_worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "harness/lab/shard_balance.h"
#include "test/harness/lab/shards_test_util.h"
#include "test/index/refused_memory.h"

namespace lab {

namespace test = engine_race::test;

namespace {

using test::KnownBatch;
using test::RefuseMemory;

constexpr TableShape kWorkerShape = {16, 8};

std::string KeyOf(uint8_t number) { return std::string(15, 'k') + static_cast<char>(number); }

std::shared_ptr<const ShardSource> SourceOf(const std::string& name, uint64_t record_count) {
  auto source = std::make_shared<ShardSource>();
  source->name = name;
  source->shape = kWorkerShape;
  source->record_count = record_count;
  return source;
}

TEST(ShardRoutesTest, KeysGoToTheSubTableThatBeginsBelowThem) {
  Routes routes;
  ASSERT_EQ(routes.AddTable(SourceOf("a", 1), 0), 0U);
  ASSERT_EQ(routes.AddTable(SourceOf("b", 1), 1), 1U);
  const uint32_t upper = routes.Split(routes.SubOf(0, KeyOf(0).data()), KeyOf(100), 2);
  const uint32_t middle = routes.Split(0, KeyOf(50), 3);
  const auto id_of = [&](uint32_t table, uint8_t key) {
    return routes.subs[routes.SubOf(table, KeyOf(key).data())].id;
  };
  EXPECT_EQ(id_of(0, 0), 0U);
  EXPECT_EQ(id_of(0, 49), 0U);
  EXPECT_EQ(id_of(0, 50), middle);
  EXPECT_EQ(id_of(0, 99), middle);
  EXPECT_EQ(id_of(0, 100), upper);
  // Bytes above 127 are large, not negative.
  EXPECT_EQ(id_of(0, 255), upper);
  // The other table's sub-tables have moved in the vector, but have the same keys.
  EXPECT_EQ(id_of(1, 0), 1U);
  EXPECT_EQ(id_of(1, 255), 1U);
  EXPECT_EQ(routes.Find(99), routes.subs.size());
}

TEST(ShardRoutesTest, AChangeThatFailsChangesNothing) {
  RouteTable table;
  ASSERT_TRUE(table
                  .Change([](Routes* routes) {
                    routes->AddTable(SourceOf("a", 1), 0);
                    return Status::Ok();
                  })
                  .ok());
  const std::shared_ptr<const Routes> before = table.Current();
  EXPECT_EQ(table
                .Change([](Routes* routes) {
                  routes->subs.clear();
                  return Status::Full("no");
                })
                .code(),
            Code::kFull);
  EXPECT_EQ(table.Current(), before);
  EXPECT_EQ(table.version(), before->version);
}

// The gets that one worker saw, by sub-table.
std::vector<SubTableHeat> Heats(const std::vector<std::pair<uint32_t, uint64_t>>& counts) {
  std::vector<SubTableHeat> heats;
  for (const auto& [id, count] : counts) heats.push_back({id, count, {}});
  return heats;
}

class ShardBalanceTest : public ::testing::Test {
 protected:
  ShardBalanceTest() {
    for (uint32_t i = 0; i < 6; ++i) routes_.AddTable(SourceOf("t", 1), i / 3);
  }
  Routes routes_;  // tables 0 to 2 with worker 0, 3 to 5 with worker 1; sub-tables as tables
};

TEST_F(ShardBalanceTest, TheSubTableThatMakesItMostEvenMoves) {
  const std::vector<SubTableHeat> heats[] = {Heats({{0, 500}, {1, 90}, {2, 210}}),
                                             Heats({{3, 100}, {4, 100}, {5, 200}})};
  const ShardPlan plan = PlanBalance(routes_, heats);
  EXPECT_EQ(plan.kind, ShardPlan::Kind::kMove);
  EXPECT_EQ(plan.sub_table, 2U);
  EXPECT_EQ(plan.worker, 1U);
}

TEST_F(ShardBalanceTest, EvenLoadsStayAsTheyAre) {
  const std::vector<SubTableHeat> nothing[] = {Heats({}), Heats({})};
  EXPECT_EQ(PlanBalance(routes_, nothing).kind, ShardPlan::Kind::kNothing);
  const std::vector<SubTableHeat> even[] = {Heats({{0, 500}, {1, 10}}), Heats({{3, 490}})};
  EXPECT_EQ(PlanBalance(routes_, even).kind, ShardPlan::Kind::kNothing);
}

TEST_F(ShardBalanceTest, AHotSubTableIsCutInTheMiddleOfItsGets) {
  std::vector<SubTableHeat> heats[] = {Heats({{0, 1000}}), Heats({{3, 100}})};
  for (uint8_t key = 90; key > 80; --key) heats[0][0].samples.push_back(KeyOf(key));
  const ShardPlan plan = PlanBalance(routes_, heats);
  EXPECT_EQ(plan.kind, ShardPlan::Kind::kSplit);
  EXPECT_EQ(plan.sub_table, 0U);
  EXPECT_EQ(plan.worker, 1U);
  EXPECT_EQ(plan.key, KeyOf(86));
}

TEST_F(ShardBalanceTest, OneHotKeyIsNotCut) {
  std::vector<SubTableHeat> heats[] = {Heats({{0, 1000}}), Heats({{3, 100}})};
  heats[0][0].samples.assign(20, KeyOf(7));
  EXPECT_EQ(PlanBalance(routes_, heats).kind, ShardPlan::Kind::kNothing);
  // It is split when some samples lie above it.
  heats[0][0].samples.push_back(KeyOf(9));
  const ShardPlan plan = PlanBalance(routes_, heats);
  EXPECT_EQ(plan.kind, ShardPlan::Kind::kSplit);
  EXPECT_EQ(plan.key, KeyOf(9));
}

TEST_F(ShardBalanceTest, SamplesFromBeforeACutDoNotCount) {
  const uint32_t upper = routes_.Split(0, KeyOf(50), 1);
  std::vector<SubTableHeat> heats[] = {Heats({{0, 1000}}), Heats({{upper, 10}})};
  for (uint8_t key = 10; key < 100; key += 10) heats[0][0].samples.push_back(KeyOf(key));
  const ShardPlan plan = PlanBalance(routes_, heats);
  EXPECT_EQ(plan.kind, ShardPlan::Kind::kSplit);
  EXPECT_EQ(plan.key, KeyOf(30));
}

// Workers with no threads: the test is the thread of each.
class ShardWorkerTest : public test::ShardsTest {
 protected:
  void SetUp() override {
    ShardsTest::SetUp();
    tables_.push_back(test::MakeTable(dir_.get(), "table", kWorkerShape, 1000, 3));
    workers_.resize(3);
    for (uint32_t i = 0; i < workers_.size(); ++i) {
      const Status created = ShardWorker::Create(i, {{}, 32}, &routes_, workers_, &workers_[i]);
      ASSERT_TRUE(created.ok()) << created.ToString();
    }
    std::unique_ptr<ExtentFile> file;
    ASSERT_TRUE(ExtentFile::Open(dir_.get(), "table", &file).ok());
    auto source = std::make_shared<ShardSource>();
    source->dir = UniqueFd(::dup(dir_.get()));
    source->name = "table";
    source->table_id = file->table_id();
    source->shape = file->shape();
    Change([&](Routes* routes) { routes->AddTable(std::move(source), 0); });
  }
  void TearDown() override { workers_.clear(); }

  void Change(const std::function<void(Routes*)>& change) {
    const Status changed = routes_.Change([&](Routes* routes) {
      change(routes);
      return Status::Ok();
    });
    ASSERT_TRUE(changed.ok()) << changed.ToString();
  }

  // Makes a mail for all keys, in no order, by the present routes.
  void Write() {
    const TableShape& shape = tables_[0].shape;
    const auto count = static_cast<uint32_t>(tables_[0].keys.size());
    places_ = Numbers(0, count);
    std::shuffle(places_.begin(), places_.end(), std::mt19937(1));
    keys_.clear();
    for (const uint32_t place : places_) keys_ += tables_[0].keys[place];
    payloads_.assign(size_t{count} * shape.payload_bytes, '\0');
    statuses_ = std::vector<Status>(count);
    for (Status& status : statuses_) status = Status(Code::kTimedOut, {});
    run_ = {0, 0, count, keys_.data(), payloads_.data(), statuses_.data(), places_.data()};
    mail_ = Mail();
    mail_.ticket = &ticket_;
    mail_.version = routes_.version();
    mail_.runs = &run_;
    mail_.run_count = 1;
    ticket_.Expect(1);
  }
  // Returns the indexes of the answered keys. A wrong answer fails the test.
  std::vector<uint32_t> Answered() {
    std::vector<uint32_t> answered;
    for (size_t i = 0; i < statuses_.size(); ++i) {
      if (statuses_[i].code() == Code::kTimedOut) continue;
      EXPECT_TRUE(statuses_[i].ok()) << statuses_[i].ToString();
      const std::string& key = tables_[0].keys[places_[i]];
      EXPECT_EQ(keys_.substr(i * 16, 16), key);
      EXPECT_EQ(payloads_.substr(i * 8, 8), tables_[0].records.at(key));
      answered.push_back(places_[i]);
    }
    std::sort(answered.begin(), answered.end());
    return answered;
  }
  static std::vector<uint32_t> Numbers(uint32_t begin, uint32_t end) {
    std::vector<uint32_t> numbers;
    for (uint32_t i = begin; i < end; ++i) numbers.push_back(i);
    return numbers;
  }

  RouteTable routes_;
  std::vector<std::unique_ptr<ShardWorker>> workers_;
  Ticket ticket_{nullptr};
  std::string keys_;
  std::string payloads_;
  std::vector<Status> statuses_;
  std::vector<uint32_t> places_;
  ShardRun run_;
  Mail mail_;
};

TEST_F(ShardWorkerTest, WhatOthersHaveByNowIsPassedOnToThem) {
  Write();
  Change([&](Routes* routes) {
    routes->Split(0, tables_[0].keys[800], 1);
    routes->Split(0, tables_[0].keys[600], 2);
    routes->Split(0, tables_[0].keys[200], 1);
  });
  workers_[0]->Answer(&mail_);
  EXPECT_EQ(Answered(), Numbers(0, 200));
  EXPECT_FALSE(ticket_.ready());
  EXPECT_EQ(workers_[0]->passed_on_count(), 3U);
  // Two parts came to worker 1, one to worker 2.
  uint32_t counts[3] = {0, 0, 0};
  for (uint32_t i = 1; i < 3; ++i) {
    for (Mail* mail = workers_[i]->inbox().TakeAll(); mail != nullptr; ++counts[i]) {
      Mail* const next = mail->next;
      workers_[i]->Answer(mail);
      mail = next;
    }
  }
  EXPECT_EQ(counts[1], 2U);
  EXPECT_EQ(counts[2], 1U);
  EXPECT_TRUE(ticket_.ready());
  EXPECT_EQ(Answered(), Numbers(0, 1000));
}

TEST_F(ShardWorkerTest, WhatCannotBePassedOnIsAnsweredOnTheSpot) {
  Write();
  Change([](Routes* routes) { routes->subs[0].worker = 2; });
  ASSERT_TRUE(workers_[2]->inbox().Close());
  workers_[0]->Answer(&mail_);
  EXPECT_TRUE(ticket_.ready());
  EXPECT_EQ(Answered(), Numbers(0, 1000));
  EXPECT_EQ(workers_[0]->passed_on_count(), 0U);
}

TEST_F(ShardWorkerTest, HeatIsCountedBySubTableAndGoesWithIt) {
  Write();
  workers_[0]->Answer(&mail_);
  std::vector<SubTableHeat> heats = workers_[0]->TakeHeat();
  ASSERT_EQ(heats.size(), 1U);
  EXPECT_EQ(heats[0].get_count, 1000U);
  EXPECT_EQ(heats[0].samples, std::vector<std::string>({keys_.substr(0, 16)}));
  EXPECT_TRUE(workers_[0]->TakeHeat().empty());
  Change([&](Routes* routes) { routes->Split(0, tables_[0].keys[300], 0); });
  Write();
  mail_.version = 0;  // so that it is sorted out
  workers_[0]->Answer(&mail_);
  heats = workers_[0]->TakeHeat();
  ASSERT_EQ(heats.size(), 2U);
  EXPECT_EQ(heats[0].get_count, 300U);
  EXPECT_EQ(heats[1].get_count, 700U);
}

TEST_F(ShardWorkerTest, RefusedMemoryIsAnAnswer) {
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    // The worker has no sub-tables yet and does not know the routes.
    Change([](Routes* routes) { routes->subs[0].worker = 1; });
    const Status created = ShardWorker::Create(0, {{}, 32}, &routes_, workers_, &workers_[0]);
    ASSERT_TRUE(created.ok());
    Write();
    Change([&](Routes* routes) { routes->subs[0].worker = routes->version % 4 == 0 ? 0 : 2; });
    {
      const RefuseMemory refuse(passed);
      workers_[0]->Answer(&mail_);
      refused = refuse.refused();
    }
    for (uint32_t i = 1; i < 3; ++i) {
      if (Mail* const mail = workers_[i]->inbox().TakeAll()) workers_[i]->Answer(mail);
    }
    ASSERT_TRUE(ticket_.ready());
    for (Status& status : statuses_) {
      ASSERT_TRUE(status.ok() || status.code() == Code::kOutOfMemory) << status.ToString();
      if (!status.ok()) status = Status(Code::kTimedOut, {});
    }
    Answered();
  }
}

TEST_F(ShardWorkerTest, ABatchWithoutMemoryIsRefusedAsAWhole) {
  Ticket ticket(&workers_[0]->inbox());
  bool refused = true;
  for (uint64_t passed = 0; refused; ++passed) {
    ShardClient client(&routes_, workers_, workers_[0].get(), &ticket, /*tickets=*/nullptr);
    KnownBatch batch(&tables_);
    for (const std::string& key : tables_[0].keys) batch.Add(0, key);
    std::vector<ShardGet>& gets = batch.gets();
    {
      const RefuseMemory refuse(passed);
      client.Get(gets);
      refused = refuse.refused();
    }
    ASSERT_EQ(batch.Wrong(Code::kOutOfMemory), "");
    // The client still works.
    client.Get(batch.gets());
    ASSERT_EQ(batch.Wrong(), "");
  }
}

TEST(ShardInboxTest, MailsComeOutInTheOrderInWhichTheyCameIn) {
  ShardInbox inbox;
  Mail mails[3];
  EXPECT_EQ(inbox.TakeAll(), nullptr);
  for (Mail& mail : mails) ASSERT_TRUE(inbox.Push(&mail));
  EXPECT_FALSE(inbox.Close());
  Mail* const first = inbox.TakeAll();
  EXPECT_EQ(first, &mails[0]);
  EXPECT_EQ(first->next, &mails[1]);
  EXPECT_EQ(first->next->next, &mails[2]);
  EXPECT_EQ(mails[2].next, nullptr);
  EXPECT_TRUE(inbox.Close());
  EXPECT_FALSE(inbox.Push(&mails[0]));
}

TEST(ShardInboxTest, ANudgeOrAMailWakesAndReadinessKeepsAwake) {
  ShardInbox inbox;
  inbox.Sleep([] { return true; });
  EXPECT_EQ(inbox.TakeAll(), nullptr);
  Mail mail;
  ASSERT_TRUE(inbox.Push(&mail));
  inbox.Sleep([] { return false; });
  EXPECT_EQ(inbox.TakeAll(), &mail);
  // When the worker calls `ready`, its inbox already says that it sleeps.
  inbox.Sleep([&] {
    inbox.Nudge();
    return false;
  });
  EXPECT_EQ(inbox.TakeAll(), nullptr);
  inbox.Sleep([&] { return !inbox.Push(&mail); });
  EXPECT_EQ(inbox.TakeAll(), &mail);
  EXPECT_EQ(inbox.TakeAll(), nullptr);
}

}  // namespace
}  // namespace lab
