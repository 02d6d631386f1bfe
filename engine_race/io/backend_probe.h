// Which back end reads: the best that was asked for and works, found out by reading.
//
// Stateless; thread-safe. Setting a back end up proves little: here a ring that polls for its
// completions is set up and then fails each request.
#ifndef ENGINE_RACE_IO_BACKEND_PROBE_H_
#define ENGINE_RACE_IO_BACKEND_PROBE_H_

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"

namespace engine_race::io {

struct ReadBackend {
  IoBackend backend = IoBackend::kPsync;  // never kAuto
  bool iopoll = false;
  bool sqpoll = false;
};

// Tries what the options ask for with a real read of the first 4 KiB of `file`, which should be as
// long, and open as the files are that will be read. kAuto: io_uring, libaio, psync, the first that
// works; on tmpfs libaio comes first. What was asked for by name and does not work is replaced by
// the first of these that does, with a warning in the options' log; kAuto leaves an information
// there when it is not the best. Fails only when psync cannot read the file either, with its error.
Status ProbeReadBackend(const Options& options, const File& file, ReadBackend* chosen);

// "auto", "psync", "libaio" or "io_uring".
const char* BackendName(IoBackend backend);

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_BACKEND_PROBE_H_
