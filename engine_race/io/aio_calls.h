// The system calls of Linux native asynchronous I/O, and the wait for what they have begun.
//
// Internal to io/. The library libaio would add nothing but a dependency.
#ifndef ENGINE_RACE_IO_AIO_CALLS_H_
#define ENGINE_RACE_IO_AIO_CALLS_H_

#include <linux/aio_abi.h>

#include <cstdint>

namespace engine_race::io {

// Begins up to `count` requests. Returns how many the kernel took, at least 1, or -1 with errno. It
// takes them in their order and stops before the first one that it refuses.
int IoSubmit(aio_context_t context, long count, iocb** blocks);

// Waits for `min_count` events and takes up to `max_count`. Returns how many, or -1 with errno.
int IoGetEvents(aio_context_t context, long min_count, long max_count, io_event* events);

// Ends a context whose `in_flight_count` requests nobody will ask for: waits until all have ended,
// also where the system refuses the calls by now. Takes tens of milliseconds. False: it could not
// wait.
bool IoDestroy(aio_context_t context, uint32_t in_flight_count);

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_AIO_CALLS_H_
