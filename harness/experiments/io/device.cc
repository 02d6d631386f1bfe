// A part of experiment 4: one raw device without a file system, by every back end and by NVMe
// commands past the block layer. The latter come closest to a driver in user space.
#include <fcntl.h>

#include "engine_race/io/block_device.h"
#include "harness/experiments/io/lab.h"
#include "harness/lab/passthrough.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr char kPassthrough[] = "nvme passthrough";

Status OpenRaw(const std::string& path, RawFile* file) {
  engine_race::io::BlockDevice device;
  ENGINE_RACE_RETURN_IF_ERROR(
      engine_race::io::BlockDevice::Open(path, /*read_only=*/true, &device));
  file->name = path;
  file->size_bytes = device.size_bytes;
  file->direct = true;
  return engine_race::sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECT, 0, &file->fd);
}

}  // namespace

Experiment RawDevice(const IoLab& lab) {
  const std::string& path = lab.config().device;
  Experiment experiment = lab.Begin(4, "raw device", "What do file system and block layer cost?",
                                    "a 4 KiB random read");
  experiment.medium = path;
  experiment.plot = {"bar", "backend", {}, {"requests_per_second", "cpu_ns_per_request"}};
  experiment.notes.push_back("where nothing was ever written, some devices have nothing to read");
  RawFile file;
  if (!lab.Check(OpenRaw(path, &file), {}, &experiment)) return experiment;
  RawLoad load;
  load.files = {&file, 1};
  load.seconds = lab.seconds();
  for (const RawBackend& backend : RawBackends()) {
    const ResultRow row = {{"backend", backend.name}};
    if (!lab.Check(ProbeRawBackend(backend, file), row, &experiment)) continue;
    load.backend = backend;
    lab.MeasureRaw(&experiment, row, load);
  }
  const ResultRow row = {{"backend", kPassthrough}};
  lab::PassthroughDevice device;
  if (lab.Check(lab::OpenPassthrough(path, &device), row, &experiment)) {
    load.passthrough = &device;
    lab.MeasureRaw(&experiment, row, load);
  }
  return experiment;
}

}  // namespace harness
