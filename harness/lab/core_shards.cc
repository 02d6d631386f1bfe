#include "harness/lab/core_shards.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "engine_race/base/parallel.h"
#include "harness/lab/shard_balance.h"

namespace lab {

namespace {

Status Stopped() { return Status(Code::kIncomplete, "l1: the shards have stopped"); }

Status Validate(const CoreShardsOptions& options) {
  if (options.worker_count > kMaxShardCount) {
    return Status::InvalidArgument("l1: worker_count is above 1024");
  }
  if (options.frame_count == 0) return Status::InvalidArgument("l1: frame_count is 0");
  const TableOptions& table = options.table;
  if (table.extents == Reach::kCache || table.indexes == Reach::kCache ||
      table.records == Reach::kCache) {
    return Status::InvalidArgument("l1: shards reach everything by pointer");
  }
  return Status::Ok();
}

// The worker with the fewest records.
uint32_t LeastFilled(const Routes& routes, uint32_t worker_count) {
  std::vector<uint64_t> counts(worker_count, 0);
  for (const SubTable& sub : routes.subs) {
    const ShardTable& table = routes.tables[sub.table];
    counts[sub.worker] += table.source->record_count / table.sub_count + 1;
  }
  return static_cast<uint32_t>(std::min_element(counts.begin(), counts.end()) - counts.begin());
}

}  // namespace

Status CoreShards::Start(const CoreShardsOptions& options, std::unique_ptr<CoreShards>* shards) {
  ENGINE_RACE_RETURN_IF_ERROR(Validate(options));
  return Guarded([&] {
    std::unique_ptr<CoreShards> started(new CoreShards);
    ENGINE_RACE_RETURN_IF_ERROR(started->StartWorkers(options));
    *shards = std::move(started);
    return Status::Ok();
  });
}

Status CoreShards::StartWorkers(const CoreShardsOptions& options) {
  const uint32_t count =
      options.worker_count != 0 ? options.worker_count : engine_race::AvailableCpuCount();
  std::vector<uint32_t> cpus = options.cpus;
  if (cpus.empty()) cpus = engine_race::AvailableCpus();
  const bool pins = options.pin && count <= cpus.size();
  workers_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(ShardWorker::Create(i, {options.table, options.frame_count},
                                                    &routes_, workers_, &workers_[i]));
  }
  for (uint32_t i = 0; i < count; ++i) {
    const int64_t cpu = pins ? int64_t{cpus[i]} : ShardWorker::kAnyCpu;
    ENGINE_RACE_RETURN_IF_ERROR(workers_[i]->Start(cpu));
  }
  return Status::Ok();
}

CoreShards::~CoreShards() { Stop(); }

void CoreShards::Stop() {
  const std::lock_guard lock(stop_mutex_);
  for (const std::unique_ptr<ShardWorker>& worker : workers_) {
    if (worker == nullptr || !worker->started()) continue;
    Mail mail;
    mail.kind = Mail::Kind::kStop;
    mail.ticket = &stop_ticket_;
    stop_ticket_.Expect(1);
    if (worker->inbox().Push(&mail)) stop_ticket_.Wait();
  }
  for (const std::unique_ptr<ShardWorker>& worker : workers_) {
    if (worker != nullptr) worker->Join();
  }
}

Status CoreShards::AddTable(int dir_fd, const std::string& name, uint32_t* table) {
  return Guarded([&] {
    std::unique_ptr<ExtentFile> file;
    ENGINE_RACE_RETURN_IF_ERROR(ExtentFile::Open(dir_fd, name, &file));
    auto source = std::make_shared<ShardSource>();
    ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(dir_fd, ".", O_RDONLY | O_DIRECTORY, 0, &source->dir));
    source->name = name;
    source->table_id = file->table_id();
    source->shape = file->shape();
    source->record_count = file->record_count();
    return routes_.Change([&](Routes* routes) {
      *table = routes->AddTable(std::move(source), LeastFilled(*routes, worker_count()));
      return Status::Ok();
    });
  });
}

Status CoreShards::MakeClient(std::unique_ptr<ShardClient>* client) {
  Ticket* ticket = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(tickets_.Take(&ticket));
  const Status made = Guarded([&] {
    *client =
        std::make_unique<ShardClient>(&routes_, workers_, /*here=*/nullptr, ticket, &tickets_);
    return Status::Ok();
  });
  if (!made.ok()) tickets_.GiveBack(ticket);
  return made;
}

Status CoreShards::Run(uint32_t worker, const std::function<Status(ShardClient&)>& work) {
  if (worker >= worker_count()) return Status::InvalidArgument("l1: no such worker");
  Ticket* ticket = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(tickets_.Take(&ticket));
  Status status;
  const Status sent = Guarded([&] {
    const std::function<void(ShardClient&)> guarded = [&](ShardClient& client) {
      status = Guarded([&] { return work(client); });
    };
    Mail mail;
    mail.kind = Mail::Kind::kWork;
    mail.work = &guarded;
    mail.ticket = ticket;
    ticket->Expect(1);
    if (!workers_[worker]->inbox().Push(&mail)) return Stopped();
    ticket->Wait();
    return Status::Ok();
  });
  tickets_.GiveBack(ticket);
  if (!sent.ok()) return sent;
  return status;
}

Status CoreShards::Move(uint32_t sub_table, uint32_t worker) {
  if (worker >= worker_count()) return Status::InvalidArgument("l1: no such worker");
  return routes_.Change([&](Routes* routes) {
    const uint32_t sub = routes->Find(sub_table);
    if (sub == routes->subs.size()) return Status::NotFound();
    routes->subs[sub].worker = worker;
    return Status::Ok();
  });
}

Status CoreShards::Split(uint32_t sub_table, const std::string& key, uint32_t* upper) {
  return Cut(sub_table, key, /*worker=*/nullptr, upper);
}

Status CoreShards::Cut(uint32_t sub_table, const std::string& key, const uint32_t* worker,
                       uint32_t* upper) {
  return routes_.Change([&](Routes* routes) {
    const uint32_t sub = routes->Find(sub_table);
    if (sub == routes->subs.size()) return Status::NotFound();
    const SubTable& cut = routes->subs[sub];
    const ShardTable& table = routes->tables[cut.table];
    if (key.size() != table.source->shape.key_bytes) {
      return Status::InvalidArgument("l1: a key of another length");
    }
    if (key <= cut.lower || routes->SubOf(cut.table, key.data()) != sub) {
      return Status::InvalidArgument("l1: a key outside the sub-table");
    }
    if (table.sub_count == kMaxSubTables) return Status::Full("l1: a table of 4096 sub-tables");
    *upper = routes->Split(sub, key, worker != nullptr ? *worker : cut.worker);
    return Status::Ok();
  });
}

Status CoreShards::TakeHeat(std::vector<std::vector<SubTableHeat>>* heats) {
  heats->resize(worker_count());
  Ticket* ticket = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(tickets_.Take(&ticket));
  Status status;
  for (uint32_t i = 0; i < worker_count() && status.ok(); ++i) {
    status = Guarded([&] {
      Status taken;
      const std::function<void(ShardWorker&)> look = [&](ShardWorker& worker) {
        taken = Guarded([&] {
          (*heats)[i] = worker.TakeHeat();
          return Status::Ok();
        });
      };
      Mail mail;
      mail.kind = Mail::Kind::kLook;
      mail.look = &look;
      mail.ticket = ticket;
      ticket->Expect(1);
      if (!workers_[i]->inbox().Push(&mail)) return Stopped();
      ticket->Wait();
      return taken;
    });
  }
  tickets_.GiveBack(ticket);
  return status;
}

Status CoreShards::Rebalance(bool* changed) {
  *changed = false;
  return Guarded([&] {
    const std::lock_guard lock(rebalance_mutex_);
    std::vector<std::vector<SubTableHeat>> heats;
    ENGINE_RACE_RETURN_IF_ERROR(TakeHeat(&heats));
    const ShardPlan plan = PlanBalance(*routes_.Current(), heats);
    if (plan.kind == ShardPlan::Kind::kNothing) return Status::Ok();
    uint32_t upper = 0;
    ENGINE_RACE_RETURN_IF_ERROR(plan.kind == ShardPlan::Kind::kMove
                                    ? Move(plan.sub_table, plan.worker)
                                    : Cut(plan.sub_table, plan.key, &plan.worker, &upper));
    *changed = true;
    return Status::Ok();
  });
}

uint32_t CoreShards::pinned_count() const {
  return static_cast<uint32_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const std::unique_ptr<ShardWorker>& worker) { return worker->pinned(); }));
}

uint64_t CoreShards::passed_on_count() const {
  uint64_t count = 0;
  for (const std::unique_ptr<ShardWorker>& worker : workers_) count += worker->passed_on_count();
  return count;
}

}  // namespace lab
