#include "harness/lab/shard_client.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "harness/lab/shard_worker.h"

namespace lab {

namespace {

constexpr uint32_t kNoSub = ~uint32_t{0};
// Separates the memory that two workers write, so that they share no cache line at any alignment.
constexpr size_t kGapBytes = 64;
constexpr size_t kGapStatuses = kGapBytes / sizeof(Status);

}  // namespace

ShardClient::ShardClient(RouteTable* routes, std::span<const std::unique_ptr<ShardWorker>> workers,
                         ShardWorker* here, Ticket* ticket, TicketPool* tickets)
    : routes_table_(*routes), workers_(workers), here_(here), ticket_(*ticket), tickets_(tickets) {}

ShardClient::~ShardClient() {
  if (tickets_ != nullptr) tickets_->GiveBack(&ticket_);
}

void ShardClient::Refresh() {
  if (routes_ != nullptr && routes_->version == routes_table_.version()) [[likely]]
    return;
  std::shared_ptr<const Routes> current = routes_table_.Current();
  counts_.assign(current->subs.size(), 0);
  routes_ = std::move(current);
}

uint32_t ShardClient::WorkerOf(uint32_t table, const char* key) {
  Refresh();
  if (table >= routes_->tables.size()) return static_cast<uint32_t>(workers_.size());
  return routes_->subs[routes_->SubOf(table, key)].worker;
}

void ShardClient::Get(std::span<ShardGet> gets) noexcept {
  bool laid_out = false;
  const Status status = Guarded([&] {
    Refresh();
    if (!Count(gets)) return Status::Ok();
    LayOut();
    laid_out = true;
    return Status::Ok();
  });
  if (!status.ok()) {
    std::fill(counts_.begin(), counts_.end(), 0);
    for (ShardGet& get : gets) get.status = engine_race::RefusedMemory("l1: no memory for a batch");
  }
  if (!laid_out) return;
  Fill(gets);
  HandOver();
  GiveBack(gets);
}

bool ShardClient::Count(std::span<ShardGet> gets) {
  touched_.clear();
  subs_.resize(gets.size());
  for (size_t i = 0; i < gets.size(); ++i) {
    ShardGet& get = gets[i];
    if (get.table >= routes_->tables.size()) {
      subs_[i] = kNoSub;
      get.status = Status::InvalidArgument("l1: no such table");
      continue;
    }
    const uint32_t sub = routes_->SubOf(get.table, get.key);
    subs_[i] = sub;
    if (counts_[sub] == 0) touched_.push_back(sub);
    ++counts_[sub];
  }
  return !touched_.empty();
}

void ShardClient::LayOut() {
  const auto worker_of = [this](uint32_t sub) { return routes_->subs[sub].worker; };
  std::sort(touched_.begin(), touched_.end(), [&](uint32_t a, uint32_t b) {
    return worker_of(a) != worker_of(b) ? worker_of(a) < worker_of(b) : a < b;
  });
  runs_.resize(touched_.size());
  size_t mail_count = 0;
  size_t key_bytes = 0;
  size_t payload_bytes = 0;
  size_t status_count = 0;
  for (size_t i = 0; i < touched_.size(); ++i) {
    if (i == 0 || worker_of(touched_[i]) != worker_of(touched_[i - 1])) {
      ++mail_count;
      payload_bytes += kGapBytes;
      status_count += kGapStatuses;
    }
    const TableShape& shape = routes_->tables[routes_->subs[touched_[i]].table].source->shape;
    const size_t count = counts_[touched_[i]];
    key_bytes += count * shape.key_bytes;
    payload_bytes += count * shape.payload_bytes;
    status_count += count;
  }
  mails_.resize(mail_count);
  owners_.resize(mail_count);
  if (keys_.size() < key_bytes) keys_.resize(key_bytes);
  if (payloads_.size() < payload_bytes) payloads_.resize(payload_bytes);
  if (statuses_.size() < status_count) statuses_.resize(status_count);
  if (places_.size() < status_count) places_.resize(status_count);
}

void ShardClient::Fill(std::span<const ShardGet> gets) {
  char* keys = keys_.data();
  char* payloads = payloads_.data();
  size_t status = 0;
  Mail* mail = nullptr;
  uint32_t mail_count = 0;
  for (size_t i = 0; i < touched_.size(); ++i) {
    const SubTable& sub = routes_->subs[touched_[i]];
    if (mail == nullptr || owners_[mail_count - 1] != sub.worker) {
      payloads += kGapBytes;
      status += kGapStatuses;
      mail = &mails_[mail_count];
      owners_[mail_count++] = sub.worker;
      *mail = Mail();
      mail->ticket = &ticket_;
      mail->version = routes_->version;
      mail->runs = &runs_[i];
    }
    ++mail->run_count;
    const TableShape& shape = routes_->tables[sub.table].source->shape;
    const uint32_t count = counts_[touched_[i]];
    runs_[i] = {sub.table, touched_[i],        count,           keys,
                payloads,  &statuses_[status], &places_[status]};
    keys += size_t{count} * shape.key_bytes;
    payloads += size_t{count} * shape.payload_bytes;
    status += count;
    // From here on the entry is the run of the sub-table's gets.
    counts_[touched_[i]] = static_cast<uint32_t>(i);
    runs_[i].count = 0;
  }
  for (size_t i = 0; i < gets.size(); ++i) {
    if (subs_[i] == kNoSub) continue;
    ShardRun& run = runs_[counts_[subs_[i]]];
    const uint32_t key_bytes = routes_->tables[run.table].source->shape.key_bytes;
    std::memcpy(run.keys + size_t{run.count} * key_bytes, gets[i].key, key_bytes);
    run.places[run.count++] = static_cast<uint32_t>(i);
  }
  for (const uint32_t sub : touched_) counts_[sub] = 0;
}

void ShardClient::HandOver() {
  Mail* mine = nullptr;
  ticket_.Expect(static_cast<uint32_t>(mails_.size()));
  for (size_t i = 0; i < mails_.size(); ++i) {
    ShardWorker& worker = *workers_[owners_[i]];
    if (&worker == here_) {
      mine = &mails_[i];
    } else if (!worker.inbox().Push(&mails_[i])) {
      for (uint32_t run = 0; run < mails_[i].run_count; ++run) {
        const ShardRun& refused = mails_[i].runs[run];
        for (uint32_t k = 0; k < refused.count; ++k) {
          refused.statuses[k] = Status(Code::kIncomplete, {});
        }
      }
      ticket_.Done();
    }
  }
  if (mine != nullptr) here_->Answer(mine);
  if (here_ != nullptr) return here_->WaitFor(ticket_);
  ticket_.Wait();
}

void ShardClient::GiveBack(std::span<ShardGet> gets) {
  for (const ShardRun& run : runs_) {
    const uint32_t payload_bytes = routes_->tables[run.table].source->shape.payload_bytes;
    for (uint32_t i = 0; i < run.count; ++i) {
      ShardGet& get = gets[run.places[i]];
      get.status = std::move(run.statuses[i]);
      if (!get.status.ok()) continue;
      std::memcpy(get.payload, run.payloads + size_t{i} * payload_bytes, payload_bytes);
    }
  }
}

}  // namespace lab
