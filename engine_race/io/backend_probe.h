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

// Chooses a back end by a real read of the first 4 KiB of `file`. The file should be that long, and
// open in the same way as the files that will be read. kAuto takes the first that works of
// io_uring, libaio and psync; on tmpfs libaio comes first, and with page_cache it is left out
// elsewhere. Replaces a back end that was asked for by name and does not work by the first of these
// that does, and logs a warning. With kAuto the log gets an information when the choice is not the
// best one. Fails only when psync cannot read the file either, with its error.
Status ProbeReadBackend(const Options& options, const File& file, ReadBackend* chosen);

// "auto", "psync", "libaio" or "io_uring".
const char* BackendName(IoBackend backend);

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_BACKEND_PROBE_H_
