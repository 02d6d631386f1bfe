#include "harness/load/bare_reads.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/io/file.h"
#include "engine_race/io/read_queue.h"
#include "harness/data/value_maker.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Status;
namespace io = engine_race::io;

namespace {

class Reader {
 public:
  explicit Reader(const BareReads& reads) : reads_(reads) {}

  Status Run(TimedRun* run) {
    ENGINE_RACE_RETURN_IF_ERROR(OpenFiles());
    ENGINE_RACE_RETURN_IF_ERROR(PlanReads());
    ENGINE_RACE_RETURN_IF_ERROR(
        engine_race::Region::Allocate(reads_.memory_bytes, /*huge_pages=*/true, &memory_));
    std::memset(memory_.data(), 1, memory_.size());
    ENGINE_RACE_RETURN_IF_ERROR(io::ReadQueue::Create({reads_.backend, reads_.depth}, &queue_));
    const uint64_t began_ns = NowNs();
    const double began_cpu_s = CpuSeconds();
    ENGINE_RACE_RETURN_IF_ERROR(ReadAll());
    run->seconds = SecondsSince(began_ns);
    run->cpu_seconds = CpuSeconds() - began_cpu_s;
    for (const io::ReadRequest& request : plan_) run->count += request.size_bytes / kValueSize;
    return Status::Ok();
  }

 private:
  Status OpenFiles() {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(reads_.dir, error)) {
      if (entry.path().filename().string().starts_with("value_")) paths.push_back(entry.path());
    }
    if (error || paths.empty()) return Status::IOError("no value files in " + reads_.dir);
    std::sort(paths.begin(), paths.end());
    files_.resize(paths.size());
    for (size_t i = 0; i < paths.size(); ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(
          io::File::OpenPath(paths[i], io::Access::kRead, io::Caching::kDirect, &files_[i]));
    }
    return Status::Ok();
  }

  // Plans reads of the data between holes.
  Status PlanReads() {
    for (const io::File& file : files_) {
      off_t end = 0;
      while (true) {
        const off_t begin = lseek(file.fd(), end, SEEK_DATA);
        if (begin < 0 && errno == ENXIO) break;
        if (begin >= 0) end = lseek(file.fd(), begin, SEEK_HOLE);
        if (begin < 0 || end < 0) return Status::FromErrno("lseek", errno);
        for (auto at = static_cast<uint64_t>(begin); at < static_cast<uint64_t>(end);) {
          const auto size = static_cast<uint32_t>(
              std::min<uint64_t>(reads_.read_bytes, static_cast<uint64_t>(end) - at));
          plan_.push_back({file.fd(), size, at, nullptr, 0});
          at += size;
        }
      }
    }
    return Status::Ok();
  }

  Status ReadAll() {
    const uint64_t slot_count = reads_.memory_bytes / reads_.read_bytes;
    std::vector<io::ReadRequest> batch;
    std::vector<io::ReadCompletion> completions;
    size_t next = 0;
    while (next < plan_.size() || queue_->in_flight() > 0) {
      batch.clear();
      while (next < plan_.size() && queue_->in_flight() + batch.size() < reads_.depth) {
        batch.push_back(plan_[next]);
        batch.back().buffer = memory_.data() + next % slot_count * reads_.read_bytes;
        ++next;
      }
      size_t started = 0;
      ENGINE_RACE_RETURN_IF_ERROR(queue_->Submit(batch, &started));
      completions.clear();
      ENGINE_RACE_RETURN_IF_ERROR(
          queue_->Wait(std::max(1U, queue_->in_flight() / 8), &completions));
      for (const io::ReadCompletion& completion : completions) {
        if (completion.error != 0) return Status::FromErrno("read", completion.error);
      }
    }
    return Status::Ok();
  }

  const BareReads& reads_;
  std::vector<io::File> files_;
  std::vector<io::ReadRequest> plan_;
  engine_race::Region memory_;
  // Declared after the memory: the queue's destructor waits for reads into it.
  std::unique_ptr<io::ReadQueue> queue_;
};

}  // namespace

Status RunBareReads(const BareReads& reads, TimedRun* run) { return Reader(reads).Run(run); }

}  // namespace harness
