#include "harness/system/cpu_counters.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <utility>

namespace engine_race::harness {

namespace {

// The kernel's types and numbers of the events, in the order of CpuCounts.
constexpr std::pair<uint32_t, uint64_t> kEvents[] = {
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_L1D | (PERF_COUNT_HW_CACHE_OP_READ << 8) |
                             (PERF_COUNT_HW_CACHE_RESULT_MISS << 16)}};

int OpenEvent(uint32_t type, uint64_t number) {
  perf_event_attr attributes = {};
  attributes.size = sizeof(attributes);
  attributes.type = type;
  attributes.config = number;
  attributes.disabled = 1;
  attributes.inherit = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

uint64_t ReadCount(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

}  // namespace

std::optional<CpuCounters> CpuCounters::Open() {
  CpuCounters counters;
  for (size_t i = 0; i < counters.fds_.size(); ++i) {
    const int fd = OpenEvent(kEvents[i].first, kEvents[i].second);
    if (fd < 0) return std::nullopt;
    counters.fds_[i] = UniqueFd(fd);
  }
  return counters;
}

void CpuCounters::Start() {
  for (const UniqueFd& fd : fds_) {
    ioctl(fd.get(), PERF_EVENT_IOC_RESET, 0);
    ioctl(fd.get(), PERF_EVENT_IOC_ENABLE, 0);
  }
}

CpuCounts CpuCounters::Stop() {
  for (const UniqueFd& fd : fds_) ioctl(fd.get(), PERF_EVENT_IOC_DISABLE, 0);
  return {ReadCount(fds_[0].get()), ReadCount(fds_[1].get()), ReadCount(fds_[2].get())};
}

ProfilerSwitch::ProfilerSwitch(std::string control_path, std::string answer_path)
    : control_path_(std::move(control_path)), answer_path_(std::move(answer_path)) {}

bool ProfilerSwitch::Turn(bool on) const {
  if (control_path_.empty()) return true;
  std::ofstream control(control_path_);
  control << (on ? "enable\n" : "disable\n") << std::flush;
  std::ifstream answer(answer_path_);
  std::string word;
  return control && std::getline(answer, word) && word.starts_with("ack");
}

}  // namespace engine_race::harness
