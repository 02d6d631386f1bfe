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

// Turns of a spinning wait, in which most answers arrive.
constexpr uint32_t kSpins = 200;

}  // namespace

void ShardInbox::Push(Mail* mail) {
  // Relaxed: the exchange below checks the value.
  mail->next = newest_.load(std::memory_order_relaxed);
  // Release: pairs with TakeAll's acquire. Relaxed on failure: nothing of the newest mail is read.
  while (!newest_.compare_exchange_weak(mail->next, mail, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  newest_.notify_one();
}

Mail* ShardInbox::TakeAll(bool sleeps) {
  // Relaxed, as the load: only decide whether an exchange is worth its cost.
  if (sleeps) newest_.wait(nullptr, std::memory_order_relaxed);
  if (newest_.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // Acquire: pairs with Push's release.
  Mail* newest = newest_.exchange(nullptr, std::memory_order_acquire);
  Mail* oldest = nullptr;
  while (newest != nullptr) {
    Mail* const next = std::exchange(newest->next, oldest);
    oldest = std::exchange(newest, next);
  }
  return oldest;
}

ShardWorker::ShardWorker(uint32_t number, const CoreShardsOptions& options, Team team)
    : number_(number),
      options_(options),
      team_(team),
      ends_(options.worker_count),
      counts_(options.names.size()),
      run_of_(options.names.size()) {
  // Mails and their runs keep their addresses.
  runs_.reserve(options.names.size());
  mails_.reserve(options.worker_count);
}

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

void ShardWorker::Serve(const uint32_t& count) {
  for (uint32_t spins = 0; count > 0; ++spins) {
    Mail* mail = inbox_.TakeAll(/*sleeps=*/spins >= kSpins);
    if (mail == nullptr) __builtin_ia32_pause();
    while (mail != nullptr) {
      spins = 0;
      // Read now: once the mail is answered it belongs to another thread.
      Mail* const next = mail->next;
      Take(mail);
      mail = next;
    }
  }
}

void ShardWorker::Take(Mail* mail) {
  switch (mail->kind) {
    case Mail::Kind::kGets:
      Answer(*mail);
      mail->kind = Mail::Kind::kAnswer;
      mail->sender->inbox_.Push(mail);
      break;
    case Mail::Kind::kAnswer:
      --unanswered_count_;
      break;
    case Mail::Kind::kEnd:
      --at_work_count_;
      break;
  }
}

void ShardWorker::End() {
  for (size_t i = 0; i < team_.size(); ++i) {
    if (i == number_) continue;
    ends_[i].kind = Mail::Kind::kEnd;
    team_[i]->inbox_.Push(&ends_[i]);
  }
  Serve(at_work_count_);
}

void ShardWorker::Answer(const Mail& mail) {
  for (const ShardRun& run : mail.runs) {
    const Table& table = *tables_[run.table];
    if (run.count == 1) {
      run.statuses[0] = table.Get(run.keys, run.payloads);
    } else {
      table.MultiGet(run.keys, run.payloads, {run.statuses, run.count});
    }
  }
}

void ShardWorker::Get(std::span<ShardGet> gets) {
  LayOut(gets);
  const Mail* mine = nullptr;
  for (Mail& mail : mails_) {
    if (mail.receiver == this) {
      mine = &mail;
    } else {
      ++unanswered_count_;
      mail.receiver->inbox_.Push(&mail);
    }
  }
  if (mine != nullptr) Answer(*mine);
  Serve(unanswered_count_);
  GiveBack(gets);
}

void ShardWorker::LayOut(std::span<const ShardGet> gets) {
  const TableShape& shape = options_.shape;
  const size_t room = gets.size() + team_.size() * kGapPlaces;
  if (places_.size() < room) {
    keys_.resize(room * shape.key_bytes);
    payloads_.resize(room * shape.payload_bytes);
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
  for (uint32_t worker = 0; worker < team_.size(); ++worker) {
    const size_t first_run = runs_.size();
    for (size_t table = worker; table < counts_.size(); table += team_.size()) {
      if (counts_[table] == 0) continue;
      runs_.push_back({static_cast<uint32_t>(table), 0, keys_.data() + place * shape.key_bytes,
                       payloads_.data() + place * shape.payload_bytes, &statuses_[place],
                       &places_[place]});
      run_of_[table] = &runs_.back();
      place += counts_[table];
    }
    if (runs_.size() == first_run) continue;
    Mail& mail = mails_.emplace_back();
    mail.sender = this;
    mail.receiver = team_[worker].get();
    mail.runs = std::span(runs_).subspan(first_run);
    place += kGapPlaces;
  }
  for (size_t i = 0; i < gets.size(); ++i) {
    ShardRun& run = *run_of_[gets[i].table];
    std::memcpy(run.keys + size_t{run.count} * shape.key_bytes, gets[i].key, shape.key_bytes);
    run.places[run.count++] = static_cast<uint32_t>(i);
  }
}

void ShardWorker::GiveBack(std::span<ShardGet> gets) {
  const size_t payload_bytes = options_.shape.payload_bytes;
  for (const ShardRun& run : runs_) {
    for (uint32_t i = 0; i < run.count; ++i) {
      ShardGet& get = gets[run.places[i]];
      get.status = std::move(run.statuses[i]);
      if (get.status.ok())
        std::memcpy(get.payload, run.payloads + i * payload_bytes, payload_bytes);
    }
  }
}

Status CoreShards::Load(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards) {
  std::unique_ptr<CoreShards> loaded(new CoreShards(options));
  const auto load = [&](uint32_t number, harness::TimedThread*) {
    loaded->Pin(number);
    return Guarded([&] { return loaded->workers_[number]->LoadTables(); });
  };
  ENGINE_RACE_RETURN_IF_ERROR(harness::RunTimed(options.worker_count, 0, load));
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

void CoreShards::Pin(uint32_t number) {
  if (workers_.size() > cpus_.size()) return;
  workers_[number]->is_pinned_ = PinThread(cpus_[number]);
}

Status CoreShards::Run(double seconds, const ShardWork& work, harness::TimedPoint* point) {
  std::atomic<uint32_t> begun_count{0};
  for (const auto& worker : workers_) worker->at_work_count_ = worker_count() - 1;
  const auto run = [&](uint32_t number, harness::TimedThread* self) {
    ShardWorker* const worker = workers_[number].get();
    Pin(number);
    ++begun_count;
    self->Start();
    // RunTimed fails when it cannot start a thread. Nobody would answer that worker's gets.
    if (begun_count < worker_count()) return Status::Ok();
    Status status = Guarded([&] { return work(number, worker, self); });
    self->Stop();
    worker->End();
    return status;
  };
  return harness::RunTimed(worker_count(), seconds, run, point);
}

uint32_t CoreShards::pinned_count() const {
  return static_cast<uint32_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const std::unique_ptr<ShardWorker>& one) { return one->is_pinned_; }));
}

}  // namespace engine_race::lab
