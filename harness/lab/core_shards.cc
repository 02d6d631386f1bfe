#include "harness/lab/core_shards.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "engine_race/base/parallel.h"
#include "harness/load/l1_lookups.h"

namespace engine_race::lab {

namespace {

// Separates the memory that two workers write, so that they share no cache line at any alignment.
constexpr size_t kGapBytes = 64;
// As many places of a batch have at least that many bytes of payloads and of statuses.
constexpr size_t kGapPlaces = kGapBytes / harness::kMinPayloadBytes;
static_assert(kGapPlaces * sizeof(Status) >= kGapBytes);

}  // namespace

// A core shard: one thread with tables, frames and epochs of its own. It takes mails from its
// inbox, answers them from its own tables, and sleeps when there are none.
class ShardWorker {
 public:
  ShardWorker(uint32_t number, const CoreShardsOptions& options,
              std::span<const std::unique_ptr<ShardWorker>> workers)
      : number_(number), options_(options), client_(options, this, workers) {}

  void Start(bool pins, uint32_t cpu) {
    thread_ = std::thread([this, pins, cpu] {
      is_pinned_.store(pins && PinThread(cpu), std::memory_order_relaxed);
      Main();
    });
  }
  void Stop() {
    if (!thread_.joinable()) return;
    Mail mail;
    mail.kind = Mail::Kind::kStop;
    inbox_.Push(&mail);
    thread_.join();
  }

  ShardInbox& inbox() { return inbox_; }
  // Of the thread that waits for work of this worker.
  Ticket& work_ticket() { return work_ticket_; }
  // Relaxed, here and in Start: a statistic.
  bool is_pinned() const { return is_pinned_.load(std::memory_order_relaxed); }

  // The calls below are for the worker's own thread.

  Status LoadTables();
  // Answers gets of its own tables, and counts the mail down.
  void Answer(Mail* mail);
  // Answers mails until the ticket is ready; new work waits until later.
  void WaitFor(const Ticket& ticket);

 private:
  void Main();
  // Each is true when there was something to do.
  bool Serve();
  bool Work();

  const uint32_t number_;
  const CoreShardsOptions& options_;
  ShardInbox inbox_;
  Ticket work_ticket_{/*inbox=*/nullptr};
  std::atomic<bool> is_pinned_{false};
  // Declared before the tables, whose destructors return their frames to the pool.
  std::unique_ptr<TableFrames> frames_;
  std::vector<std::unique_ptr<Table>> tables_;  // null: another worker's
  ShardClient client_;
  Mail* work_ = nullptr;
  bool must_stop_ = false;
  std::thread thread_;
};

Status ShardWorker::LoadTables() {
  ENGINE_RACE_RETURN_IF_ERROR(TableFrames::Create(options_.frame_count, &frames_));
  tables_.resize(options_.names.size());
  for (size_t table = number_; table < tables_.size(); table += options_.worker_count) {
    ENGINE_RACE_RETURN_IF_ERROR(Table::Open(options_.dir_fd, options_.names[table], options_.shape,
                                            options_.table, frames_.get(), /*cache=*/nullptr,
                                            &tables_[table]));
  }
  return Status::Ok();
}

void ShardWorker::Main() {
  uint32_t idle_spins = 0;
  while (!must_stop_) {
    const bool served = Serve();
    if (Work() || served) {
      idle_spins = 0;
    } else if (++idle_spins < kSpins) {
      SpinOnce();
    } else {
      inbox_.Sleep([] { return false; });
    }
  }
}

bool ShardWorker::Serve() {
  Mail* mail = inbox_.TakeAll();
  if (mail == nullptr) return false;
  while (mail != nullptr) {
    // Read now: once the mail is done it belongs to another thread.
    Mail* const next = mail->next;
    if (mail->kind == Mail::Kind::kGets) {
      Answer(mail);
    } else if (mail->kind == Mail::Kind::kWork) {
      work_ = mail;
    } else {
      must_stop_ = true;
    }
    mail = next;
  }
  return true;
}

bool ShardWorker::Work() {
  Mail* const mail = std::exchange(work_, nullptr);
  if (mail == nullptr) return false;
  (*mail->work)(client_);
  mail->ticket->Done();
  return true;
}

void ShardWorker::WaitFor(const Ticket& ticket) {
  for (uint32_t spins = 0; !ticket.ready();) {
    if (Serve()) {
      spins = 0;
    } else if (++spins < kSpins) {
      SpinOnce();
    } else {
      inbox_.Sleep([&ticket] { return ticket.ready(); });
    }
  }
}

void ShardWorker::Answer(Mail* mail) {
  for (uint32_t i = 0; i < mail->run_count; ++i) {
    const ShardRun& run = mail->runs[i];
    const Table& table = *tables_[run.table];
    if (run.count == 1) {
      run.statuses[0] = table.Get(run.keys, run.payloads);
    } else {
      table.MultiGet(run.keys, run.payloads, {run.statuses, run.count});
    }
  }
  mail->ticket->Done();
}

ShardClient::ShardClient(const CoreShardsOptions& options, ShardWorker* here,
                         std::span<const std::unique_ptr<ShardWorker>> workers)
    : shape_(options.shape),
      here_(*here),
      workers_(workers),
      ticket_(&here->inbox()),
      counts_(options.names.size()),
      run_of_(options.names.size()) {
  // Mails and their runs keep their addresses.
  runs_.reserve(options.names.size());
  mails_.reserve(options.worker_count);
}

void ShardClient::Get(std::span<ShardGet> gets) {
  LayOut(gets);
  HandOver();
  GiveBack(gets);
}

void ShardClient::LayOut(std::span<const ShardGet> gets) {
  const size_t room = gets.size() + workers_.size() * kGapPlaces;
  if (places_.size() < room) {
    keys_.resize(room * shape_.key_bytes);
    payloads_.resize(room * shape_.payload_bytes);
    statuses_.resize(room);
    places_.resize(room);
  }
  std::fill(counts_.begin(), counts_.end(), 0);
  for (const ShardGet& get : gets) {
    ENGINE_RACE_ASSERT(get.table < counts_.size());
    ++counts_[get.table];
  }
  runs_.clear();
  mails_.clear();
  size_t place = 0;
  for (uint32_t worker = 0; worker < workers_.size(); ++worker) {
    const size_t first_run = runs_.size();
    for (size_t table = worker; table < counts_.size(); table += workers_.size()) {
      if (counts_[table] == 0) continue;
      runs_.push_back({static_cast<uint32_t>(table), 0, keys_.data() + place * shape_.key_bytes,
                       payloads_.data() + place * shape_.payload_bytes, &statuses_[place],
                       &places_[place]});
      run_of_[table] = &runs_.back();
      place += counts_[table];
    }
    if (runs_.size() == first_run) continue;
    Mail& mail = mails_.emplace_back();
    mail.ticket = &ticket_;
    mail.worker = worker;
    mail.runs = &runs_[first_run];
    mail.run_count = static_cast<uint32_t>(runs_.size() - first_run);
    place += kGapPlaces;
  }
  for (size_t i = 0; i < gets.size(); ++i) {
    ShardRun& run = *run_of_[gets[i].table];
    std::memcpy(run.keys + size_t{run.count} * shape_.key_bytes, gets[i].key, shape_.key_bytes);
    run.places[run.count++] = static_cast<uint32_t>(i);
  }
}

void ShardClient::HandOver() {
  Mail* mine = nullptr;
  ticket_.Expect(static_cast<uint32_t>(mails_.size()));
  for (Mail& mail : mails_) {
    ShardWorker& worker = *workers_[mail.worker];
    if (&worker == &here_) {
      mine = &mail;
    } else {
      worker.inbox().Push(&mail);
    }
  }
  if (mine != nullptr) here_.Answer(mine);
  here_.WaitFor(ticket_);
}

void ShardClient::GiveBack(std::span<ShardGet> gets) {
  for (const ShardRun& run : runs_) {
    for (uint32_t i = 0; i < run.count; ++i) {
      ShardGet& get = gets[run.places[i]];
      get.status = std::move(run.statuses[i]);
      if (!get.status.ok()) continue;
      std::memcpy(get.payload, run.payloads + size_t{i} * shape_.payload_bytes,
                  shape_.payload_bytes);
    }
  }
}

Status CoreShards::Start(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards) {
  return Guarded([&] {
    std::unique_ptr<CoreShards> started(new CoreShards(options));
    const uint32_t count = options.worker_count;
    const std::vector<uint32_t> cpus = options.cpus.empty() ? AvailableCpus() : options.cpus;
    const bool pins = count <= cpus.size();
    auto& workers = started->workers_;
    workers.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      workers[i] = std::make_unique<ShardWorker>(i, started->options_, workers);
    }
    for (uint32_t i = 0; i < count; ++i) workers[i]->Start(pins, pins ? cpus[i] : 0);
    ENGINE_RACE_RETURN_IF_ERROR(harness::ForEachOnThreads(count, [&](uint32_t i) {
      return started->Run(i, [&](ShardClient&) { return workers[i]->LoadTables(); });
    }));
    *shards = std::move(started);
    return Status::Ok();
  });
}

CoreShards::CoreShards(const CoreShardsOptions& options) : options_(options) {}

CoreShards::~CoreShards() {
  for (const auto& worker : workers_) {
    if (worker != nullptr) worker->Stop();
  }
}

Status CoreShards::Run(uint32_t worker, const std::function<Status(ShardClient&)>& work) {
  Status status;
  const std::function<void(ShardClient&)> guarded = [&](ShardClient& client) {
    status = Guarded([&] { return work(client); });
  };
  Ticket& ticket = workers_[worker]->work_ticket();
  Mail mail;
  mail.kind = Mail::Kind::kWork;
  mail.work = &guarded;
  mail.ticket = &ticket;
  ticket.Expect(1);
  workers_[worker]->inbox().Push(&mail);
  ticket.Wait();
  return status;
}

uint32_t CoreShards::pinned_count() const {
  return static_cast<uint32_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const std::unique_ptr<ShardWorker>& one) { return one->is_pinned(); }));
}

void Ticket::Done() {
  // Sequentially consistent, as is SayAsleep: either the worker sees the zero, or Nudge sees that
  // the worker sleeps. Also a release, for ready's acquire.
  if (pending_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  if (inbox_ != nullptr) return inbox_->Nudge();
  pending_.notify_one();
}

void Ticket::Wait() const {
  for (uint32_t spin = 0; spin < kSpins; ++spin) {
    if (ready()) return;
    SpinOnce();
  }
  // Acquire, here and in ready: pairs with Done.
  while (const uint32_t left = pending_.load(std::memory_order_acquire)) {
    pending_.wait(left, std::memory_order_acquire);
  }
}

void ShardInbox::Push(Mail* mail) {
  // Relaxed: the exchange below checks the value.
  Mail* head = head_.load(std::memory_order_relaxed);
  do {
    mail->next = head == &asleep_ ? nullptr : head;
    // Release: pairs with TakeAll's acquire. Relaxed on failure: nothing of the head is read.
  } while (!head_.compare_exchange_weak(head, mail, std::memory_order_release,
                                        std::memory_order_relaxed));
  if (head == &asleep_) Wake();
}

void ShardInbox::Nudge() {
  Mail* asleep = &asleep_;
  // Sequentially consistent: see Ticket::Done. Usually the worker is awake, and the line is only
  // read.
  if (head_.load(std::memory_order_seq_cst) != asleep) return;
  if (head_.compare_exchange_strong(asleep, nullptr, std::memory_order_seq_cst)) Wake();
}

void ShardInbox::Wake() {
  // Acquire and release: pairs with Sleep, and comes before the search for waiters.
  wakes_.fetch_add(1, std::memory_order_acq_rel);
  wakes_.notify_one();
}

Mail* ShardInbox::TakeAll() {
  // Relaxed: only decides whether an exchange is worth its cost.
  if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // Acquire: pairs with Push's release. The head is a mail and not the sentinel: only this worker
  // sets that.
  Mail* newest = head_.exchange(nullptr, std::memory_order_acquire);
  Mail* oldest = nullptr;
  while (newest != nullptr) {
    Mail* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

bool ShardInbox::SayAsleep() {
  Mail* none = nullptr;
  // Sequentially consistent: see Ticket::Done.
  return head_.compare_exchange_strong(none, &asleep_, std::memory_order_seq_cst);
}

void ShardInbox::SayAwake() {
  Mail* asleep = &asleep_;
  // A late waker of an earlier sleep leaves the sentinel there. Relaxed: the exchange fails when a
  // mail has been pushed, which TakeAll takes later.
  head_.compare_exchange_strong(asleep, nullptr, std::memory_order_relaxed);
}

}  // namespace engine_race::lab
