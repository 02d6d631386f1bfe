#include "engine_race/numa/binding.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/parallel.h"
#include "engine_race/base/thread_name.h"

namespace engine_race::numa {
namespace {

constexpr uint32_t kWordBits = 8 * sizeof(unsigned long);

Status Refused(const char* call, int error) {
  return Status::NotSupported(std::string(call) + ": " + std::generic_category().message(error));
}

}  // namespace

Status RunOn(std::span<const uint32_t> cpus) {
  if (cpus.empty()) return Status::InvalidArgument("no CPU to run on");
  const uint32_t last = *std::max_element(cpus.begin(), cpus.end());
  // The mask may be shorter than the machine's: the kernel treats missing CPUs as not set.
  std::vector<unsigned long> mask(last / kWordBits + 1);
  for (const uint32_t cpu : cpus) mask[cpu / kWordBits] |= 1UL << cpu % kWordBits;
  if (::syscall(SYS_sched_setaffinity, 0, mask.size() * sizeof(unsigned long), mask.data()) != 0) {
    return Refused("sched_setaffinity", errno);
  }
  return Status::Ok();
}

Status TryRunOn() {
  Status tried;
  ENGINE_RACE_RETURN_IF_ERROR(Guarded([&tried] {
    StartThread("er-numa-try", [&tried] {
      tried = Guarded([] { return RunOn(AvailableCpus()); });
    }).join();
    return Status::Ok();
  }));
  return tried;
}

Status TryPlacement(const Placement& placement) {
  Region page;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page));
  if (const int error = placement.Apply(page.data(), page.size()); error != 0) {
    return Refused("mbind", error);
  }
  const PolicyScope scope(placement);
  return scope.error() == 0 ? Status::Ok() : Refused("set_mempolicy", scope.error());
}

}  // namespace engine_race::numa
