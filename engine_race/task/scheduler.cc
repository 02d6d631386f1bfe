#include "engine_race/task/scheduler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

// In front of each coroutine frame lies a pointer to its scheduler. The header keeps the coroutine
// frame aligned as malloc would.
constexpr size_t kPointerBytes = sizeof(void*);
constexpr size_t kHeaderBytes = alignof(std::max_align_t);
static_assert(kHeaderBytes >= kPointerBytes);

}  // namespace

void* Task::AllocateFrame(Scheduler& scheduler, size_t size_bytes) noexcept {
  void* const memory = scheduler.arena_.Allocate(kHeaderBytes + size_bytes);
  if (memory == nullptr) return nullptr;
  Scheduler* const owner = &scheduler;
  std::memcpy(memory, &owner, kPointerBytes);
  return static_cast<char*>(memory) + kHeaderBytes;
}

void Task::promise_type::operator delete(void* frame, size_t size_bytes) noexcept {
  void* const memory = static_cast<char*>(frame) - kHeaderBytes;
  Scheduler* owner;
  std::memcpy(&owner, memory, kPointerBytes);
  owner->arena_.Free(memory, kHeaderBytes + size_bytes);
}

// A task is counted from Spawn on. One that was never started is not counted.
Task::promise_type::~promise_type() {
  ENGINE_RACE_ASSERT(!started || scheduler->task_count_ > 0);
  if (started) --scheduler->task_count_;
}

Scheduler::Scheduler(std::unique_ptr<io::ReadQueue> queue, uint32_t batch)
    : queue_(std::move(queue)), depth_(queue_->depth()), batch_(std::clamp(batch, 1u, depth_)) {
  in_flight_.resize(depth_);
  free_tags_.reserve(depth_);
  for (uint32_t tag = depth_; tag > 0; --tag) free_tags_.push_back(tag - 1);
  requests_.reserve(depth_);
  completions_.reserve(depth_);
}

Scheduler::~Scheduler() {
  ENGINE_RACE_ASSERT(task_count_ == 0);
  ENGINE_RACE_ASSERT(waiting_count_ == 0 && first_waiting_ == nullptr);
}

uint64_t Scheduler::memory_bytes() const {
  return arena_.memory_bytes() + depth_ * (kPointerBytes + sizeof(uint32_t) +
                                           sizeof(io::ReadRequest) + sizeof(io::ReadCompletion));
}

Status Scheduler::Spawn(Task task) {
  if (!task.valid()) return Status(Code::kOutOfMemory, {});
  const auto handle = std::exchange(task.handle_, nullptr);
  handle.promise().started = true;
  ++task_count_;
  handle.resume();
  return Status::Ok();
}

void Scheduler::Enqueue(ReadAwaiter* awaiter) noexcept {
  awaiter->next_ = nullptr;
  *last_waiting_ = awaiter;
  last_waiting_ = &awaiter->next_;
  ++waiting_count_;
}

void Scheduler::RunOnce() {
  SubmitGathered();
  // Waits for a few reads at a time, which takes fewer calls. The device keeps most of its queue
  // meanwhile.
  Reap(std::clamp(queue_->in_flight() / 8, 1u, batch_));
}

void Scheduler::Poll() {
  SubmitGathered();
  Reap(0);
}

void Scheduler::SubmitGathered() {
  requests_.clear();
  while (first_waiting_ != nullptr && !free_tags_.empty()) {
    ReadAwaiter* const awaiter = first_waiting_;
    first_waiting_ = awaiter->next_;
    if (first_waiting_ == nullptr) last_waiting_ = &first_waiting_;
    --waiting_count_;
    awaiter->next_ = nullptr;
    if (JoinGathered(awaiter)) continue;
    const uint32_t tag = free_tags_.back();
    free_tags_.pop_back();
    ENGINE_RACE_ASSERT(in_flight_[tag] == nullptr);
    in_flight_[tag] = awaiter;
    awaiter->request_.tag = tag;
    requests_.push_back(awaiter->request_);
  }
  if (requests_.empty()) return;
  size_t started = 0;
  const Status status = queue_->Submit(requests_, &started);
  // A lasting queue fails only without room for requests or, below, for completions.
  ENGINE_RACE_ASSERT(status.ok());
}

// Has the task share a gathered read that covers its blocks. False: there is none.
bool Scheduler::JoinGathered(ReadAwaiter* awaiter) noexcept {
  const io::ReadRequest& wanted = awaiter->request_;
  for (const io::ReadRequest& gathered : requests_) {
    if (gathered.fd != wanted.fd || gathered.offset > wanted.offset ||
        wanted.offset + wanted.size_bytes > gathered.offset + gathered.size_bytes) {
      continue;
    }
    ReadAwaiter* const reader = in_flight_[gathered.tag];
    awaiter->next_ = reader->next_;
    reader->next_ = awaiter;
    return true;
  }
  return false;
}

// Gives those that share a read its bytes and its completion, before any of them goes on.
void Scheduler::CopyShared(const ReadAwaiter& reader, const io::ReadCompletion& completion) {
  const io::ReadRequest& read = reader.request_;
  for (ReadAwaiter* shares = reader.next_; shares != nullptr; shares = shares->next_) {
    const uint64_t skipped_bytes = shares->request_.offset - read.offset;
    const uint64_t behind_bytes =
        completion.read_bytes - std::min<uint64_t>(completion.read_bytes, skipped_bytes);
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>(behind_bytes, shares->request_.size_bytes));
    shares->completion_ = {completion.tag, 0, bytes};
    if (bytes == 0) continue;
    std::memcpy(shares->request_.buffer, static_cast<const char*>(read.buffer) + skipped_bytes,
                bytes);
  }
}

// Their blocks may be good where those of another task are not.
void Scheduler::EnqueueShared(ReadAwaiter* reader) noexcept {
  for (ReadAwaiter* shares = std::exchange(reader->next_, nullptr); shares != nullptr;) {
    ReadAwaiter* const next = shares->next_;
    Enqueue(shares);
    shares = next;
  }
}

void Scheduler::Reap(uint32_t wanted) {
  if (queue_->in_flight() == 0) return;
  completions_.clear();
  const Status status = queue_->Wait(wanted, &completions_);
  ENGINE_RACE_ASSERT(status.ok());
  for (const io::ReadCompletion& completion : completions_) {
    const auto tag = static_cast<uint32_t>(completion.tag);
    ENGINE_RACE_ASSERT(tag < depth_);
    ReadAwaiter* const awaiter = std::exchange(in_flight_[tag], nullptr);
    ENGINE_RACE_ASSERT(awaiter != nullptr);
    free_tags_.push_back(tag);
    awaiter->completion_ = completion;
    if (completion.error == 0) {
      CopyShared(*awaiter, completion);
    } else {
      EnqueueShared(awaiter);
    }
    for (ReadAwaiter* reader = awaiter; reader != nullptr;) {
      ReadAwaiter* const next = reader->next_;
      reader->task_.resume();
      reader = next;
    }
    if (std::min<size_t>(waiting_count_, free_tags_.size()) >= batch_) SubmitGathered();
  }
}

}  // namespace engine_race
