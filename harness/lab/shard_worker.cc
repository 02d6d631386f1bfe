#include "harness/lab/shard_worker.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "engine_race/base/parallel.h"

namespace lab {

Status ShardWorker::Create(uint32_t number, const ShardWorkerOptions& options, RouteTable* routes,
                           std::span<const std::unique_ptr<ShardWorker>> workers,
                           std::unique_ptr<ShardWorker>* worker) {
  return Guarded([&] {
    std::unique_ptr<ShardWorker> made(new ShardWorker(number, options, routes, workers));
    ENGINE_RACE_RETURN_IF_ERROR(
        TableFrames::Create(options.frame_count, &made->epochs_, &made->frames_));
    made->client_ = std::make_unique<ShardClient>(routes, workers, made.get(), &made->ticket_,
                                                  /*tickets=*/nullptr);
    made->routes_ = std::make_shared<const Routes>();
    *worker = std::move(made);
    return Status::Ok();
  });
}

ShardWorker::~ShardWorker() { Join(); }

Status ShardWorker::Start(int64_t cpu) {
  return Guarded([&] {
    thread_ = std::thread([this, cpu] { Main(cpu); });
    return Status::Ok();
  });
}

void ShardWorker::Join() {
  if (thread_.joinable()) thread_.join();
}

void ShardWorker::Main(int64_t cpu) noexcept {
  // Relaxed: a statistic.
  if (cpu != kAnyCpu && engine_race::PinThread(static_cast<uint32_t>(cpu))) {
    pinned_.store(true, std::memory_order_relaxed);
  }
  uint32_t idle_spins = 0;
  while (!must_stop_ || work_ != nullptr || !inbox_.Close()) {
    const bool served = Serve();
    if (Work() || served) {
      idle_spins = 0;
    } else if (++idle_spins < kSpins) {
      SpinOnce();
    } else if (!must_stop_) {
      inbox_.Sleep([] { return false; });
    }
  }
}

bool ShardWorker::Serve() noexcept {
  Mail* mail = inbox_.TakeAll();
  if (mail == nullptr) return false;
  while (mail != nullptr) {
    // Read now: once the mail is done it belongs to another thread.
    Mail* const next = mail->next;
    switch (mail->kind) {
      case Mail::Kind::kGets:
        Answer(mail);
        break;
      case Mail::Kind::kLook:
        Refresh();
        (*mail->look)(*this);
        mail->ticket->Done();
        break;
      case Mail::Kind::kWork:
        mail->next = nullptr;
        (work_ == nullptr ? work_ : last_work_->next) = mail;
        last_work_ = mail;
        break;
      case Mail::Kind::kStop:
        must_stop_ = true;
        mail->ticket->Done();
        break;
    }
    mail = next;
  }
  return true;
}

bool ShardWorker::Work() noexcept {
  Mail* const mail = work_;
  if (mail == nullptr) return false;
  work_ = mail->next;
  (*mail->work)(*client_);
  mail->ticket->Done();
  return true;
}

void ShardWorker::WaitFor(const Ticket& ticket) noexcept {
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

bool ShardWorker::Refresh() noexcept {
  if (routes_->version == routes_table_.version()) [[likely]]
    return true;
  return Guarded([this] {
           TakeRoutes(routes_table_.Current());
           return Status::Ok();
         })
      .ok();
}

void ShardWorker::TakeRoutes(std::shared_ptr<const Routes> current) {
  std::vector<Heat> heats(current->subs.size());
  std::vector<std::unique_ptr<Table>> tables(current->tables.size());
  // Nothing below fails.
  uint32_t old = 0;
  for (uint32_t sub = 0; sub < heats.size(); ++sub) {
    const SubTable& taken = current->subs[sub];
    // Sub-tables keep their order, and new ones come in between.
    if (old < heats_.size() && routes_->subs[old].id == taken.id) {
      if (taken.worker == number_) heats[sub] = std::move(heats_[old]);
      ++old;
    }
    if (taken.worker == number_ && taken.table < tables_.size() && tables_[taken.table]) {
      tables[taken.table] = std::move(tables_[taken.table]);
    }
  }
  heats_ = std::move(heats);
  tables_ = std::move(tables);  // closes the tables that other workers have now
  routes_ = std::move(current);
}

void ShardWorker::Answer(Mail* mail) noexcept {
  const bool fresh = Refresh();
  for (uint32_t i = 0; i < mail->run_count; ++i) {
    const ShardRun& run = mail->runs[i];
    if (mail->version == routes_->version) [[likely]] {
      Note(run);
      AnswerRun(run);
    } else if (fresh) {
      SortOut(run, mail->ticket);
    } else {
      AnswerRun(run);
    }
  }
  Ticket* const ticket = mail->ticket;
  if (mail->passed_on) delete mail;
  ticket->Done();
}

void ShardWorker::SortOut(const ShardRun& run, Ticket* ticket) noexcept {
  const TableShape& shape = routes_->tables[run.table].source->shape;
  const auto key = [&](uint32_t i) { return run.keys + size_t{i} * shape.key_bytes; };
  for (uint32_t begin = 0; begin < run.count;) {
    ShardRun part = run;
    part.sub = routes_->SubOf(run.table, key(begin));
    uint32_t end = begin + 1;
    for (uint32_t i = end; i < run.count; ++i) {
      if (routes_->SubOf(run.table, key(i)) != part.sub) continue;
      std::swap_ranges(key(i), key(i) + shape.key_bytes, key(end));
      std::swap(run.places[i], run.places[end++]);
    }
    part.count = end - begin;
    part.keys = key(begin);
    part.payloads = run.payloads + size_t{begin} * shape.payload_bytes;
    part.statuses = run.statuses + begin;
    part.places = run.places + begin;
    const uint32_t owner = routes_->subs[part.sub].worker;
    if (owner == number_) Note(part);
    if (owner == number_ || !PassOn(owner, part, ticket)) AnswerRun(part);
    begin = end;
  }
}

bool ShardWorker::PassOn(uint32_t worker, const ShardRun& run, Ticket* ticket) noexcept {
  auto* const mail = new (std::nothrow) Mail;
  if (mail == nullptr) return false;
  mail->own_run = run;
  mail->passed_on = true;
  mail->ticket = ticket;
  mail->version = routes_->version;
  mail->runs = &mail->own_run;
  mail->run_count = 1;
  ticket->ExpectMore();
  if (!workers_[worker]->inbox().Push(mail)) {
    delete mail;
    ticket->Done();
    return false;
  }
  // Relaxed, here and in the reader: a statistic.
  passed_on_.store(passed_on_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

void ShardWorker::AnswerRun(const ShardRun& run) noexcept {
  const Table* table = nullptr;
  const Status opened = TableOf(run.table, &table);
  if (!opened.ok()) {
    for (uint32_t i = 0; i < run.count; ++i) {
      run.statuses[i] = Guarded([&] { return Status(opened); });
    }
  } else if (run.count == 1) {
    run.statuses[0] = Guarded([&] { return table->Get(run.keys, run.payloads); });
  } else {
    table->MultiGet(run.keys, run.payloads, {run.statuses, run.count});
  }
}

Status ShardWorker::TableOf(uint32_t table, const Table** found) noexcept {
  return Guarded([&] {
    // Newer routes, for which memory was short, may have this table.
    if (table >= tables_.size()) return Status::OutOfMemory("l1: no memory for routes");
    std::unique_ptr<Table>& open = tables_[table];
    if (open == nullptr) [[unlikely]] {
      const ShardSource& source = *routes_->tables[table].source;
      std::unique_ptr<Table> opened;
      ENGINE_RACE_RETURN_IF_ERROR(Table::Open(source.dir.get(), source.name, options_.table,
                                              frames_.get(), &epochs_, /*cache=*/nullptr, &opened));
      // The keys and payloads have the lengths of the table that was added, so the file must be
      // that table.
      if (opened->file().table_id() != source.table_id) {
        return Status::Corruption("l1: another table lies in the place of " + source.name);
      }
      open = std::move(opened);
    }
    *found = open.get();
    return Status::Ok();
  });
}

void ShardWorker::Note(const ShardRun& run) noexcept {
  Heat& heat = heats_[run.sub];
  heat.get_count += run.count;
  const uint32_t key_bytes = routes_->tables[run.table].source->shape.key_bytes;
  if (heat.samples == nullptr) [[unlikely]] {
    heat.samples.reset(new (std::nothrow) char[size_t{kSamples} * key_bytes]);
    if (heat.samples == nullptr) return;
  }
  // One key of the run, at another index each time.
  const char* const key = run.keys + size_t{heat.sample_count % run.count} * key_bytes;
  std::memcpy(heat.samples.get() + size_t{heat.sample_count++ % kSamples} * key_bytes, key,
              key_bytes);
}

std::vector<SubTableHeat> ShardWorker::TakeHeat() {
  std::vector<SubTableHeat> taken;
  for (uint32_t sub = 0; sub < heats_.size(); ++sub) {
    Heat& heat = heats_[sub];
    if (heat.get_count == 0) continue;
    SubTableHeat& one = taken.emplace_back();
    one.id = routes_->subs[sub].id;
    one.get_count = heat.get_count;
    const uint32_t key_bytes = routes_->tables[routes_->subs[sub].table].source->shape.key_bytes;
    const uint32_t count = heat.samples == nullptr ? 0 : std::min(heat.sample_count, kSamples);
    for (uint32_t i = 0; i < count; ++i) {
      one.samples.emplace_back(heat.samples.get() + size_t{i} * key_bytes, key_bytes);
    }
  }
  for (Heat& heat : heats_) heat.get_count = heat.sample_count = 0;
  return taken;
}

}  // namespace lab
