#include "harness/lab/core_shards.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/base/parallel.h"

namespace engine_race::lab {

namespace {

// Separates the memory that two workers write, so that they share no cache line at any alignment.
constexpr size_t kGapBytes = 64;
// As many places of a batch have at least that many bytes of payloads and of statuses.
constexpr size_t kGapPlaces = kGapBytes / harness::kMinPayloadBytes;
static_assert(kGapPlaces * sizeof(Status) >= kGapBytes);

}  // namespace

// A core shard: tables, frames and epochs for one thread. The thread takes mails from the shard's
// inbox, answers them from the shard's tables, and sleeps when there are none.
class ShardWorker {
 public:
  ShardWorker(uint32_t number, const CoreShardsOptions& options,
              std::span<const std::unique_ptr<ShardWorker>> workers)
      : number_(number), options_(options), client_(options, this, workers) {}

  ShardInbox& inbox() { return inbox_; }
  // Counts the workers that have not ended their work.
  Ticket& end_ticket() { return end_ticket_; }
  bool is_pinned() const { return is_pinned_; }

  // The calls below are for the worker's thread of a run.

  void Pin(uint32_t cpu) { is_pinned_ = PinThread(cpu); }
  Status LoadTables();
  ShardClient* client() { return &client_; }
  // Answers gets of its own tables, and counts the mail down.
  void Answer(Mail* mail);
  // Answers mails until the ticket is ready.
  void WaitFor(const Ticket& ticket);

 private:
  // True when there was something to do.
  bool Serve();

  const uint32_t number_;
  const CoreShardsOptions& options_;
  ShardInbox inbox_;
  Ticket end_ticket_{&inbox_};
  bool is_pinned_ = false;
  // Declared before the tables, whose destructors return their frames to the pool.
  std::unique_ptr<TableFrames> frames_;
  std::vector<std::unique_ptr<Table>> tables_;  // null: another worker's
  ShardClient client_;
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

bool ShardWorker::Serve() {
  Mail* mail = inbox_.TakeAll();
  if (mail == nullptr) return false;
  while (mail != nullptr) {
    // Read now: once the mail is done it belongs to another thread.
    Mail* const next = mail->next;
    Answer(mail);
    mail = next;
  }
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

Status CoreShards::Load(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards) {
  std::unique_ptr<CoreShards> loaded(new CoreShards(options));
  const auto load = [&](uint32_t number, harness::TimedThread*) {
    loaded->Pin(number);
    return Guarded([&] { return loaded->workers_[number]->LoadTables(); });
  };
  harness::TimedPoint unused;
  ENGINE_RACE_RETURN_IF_ERROR(harness::RunTimed(options.worker_count, 0, load, &unused));
  *shards = std::move(loaded);
  return Status::Ok();
}

CoreShards::CoreShards(const CoreShardsOptions& options)
    : options_(options),
      cpus_(options.cpus.empty() ? AvailableCpus() : options.cpus),
      workers_(options.worker_count) {
  for (uint32_t i = 0; i < options.worker_count; ++i) {
    workers_[i] = std::make_unique<ShardWorker>(i, options_, workers_);
  }
}

CoreShards::~CoreShards() = default;

void CoreShards::Pin(uint32_t number) {
  if (workers_.size() <= cpus_.size()) workers_[number]->Pin(cpus_[number]);
}

Status CoreShards::Run(double seconds, const ShardWork& work, harness::TimedPoint* point) {
  std::atomic<uint32_t> begun_count{0};
  for (const auto& worker : workers_) worker->end_ticket().Expect(worker_count());
  const auto run = [&](uint32_t number, harness::TimedThread* self) {
    ShardWorker& worker = *workers_[number];
    Pin(number);
    ++begun_count;
    self->Start();
    // RunTimed fails when it cannot start a thread. Nobody would answer that worker's gets.
    if (begun_count < worker_count()) return Status::Ok();
    Status status = Guarded([&] { return work(number, worker.client(), self); });
    self->Stop();
    for (const auto& other : workers_) other->end_ticket().Done();
    worker.WaitFor(worker.end_ticket());
    return status;
  };
  return harness::RunTimed(worker_count(), seconds, run, point);
}

uint32_t CoreShards::pinned_count() const {
  return static_cast<uint32_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const std::unique_ptr<ShardWorker>& one) { return one->is_pinned(); }));
}

void Ticket::Done() {
  // Sequentially consistent, as is SayAsleep: either the worker sees the zero, or Nudge sees that
  // the worker sleeps. Also a release, for ready's acquire.
  if (pending_.fetch_sub(1, std::memory_order_seq_cst) == 1) inbox_.Nudge();
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
