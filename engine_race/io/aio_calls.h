// The system calls of Linux native asynchronous I/O.
//
// Internal to io/. The library libaio would add nothing but a dependency.
#ifndef ENGINE_RACE_IO_AIO_CALLS_H_
#define ENGINE_RACE_IO_AIO_CALLS_H_

#include <linux/aio_abi.h>

#include <cstdint>

namespace engine_race::io {

// Makes a context for up to `depth` requests at a time. Returns 0, or -1 with errno.
int IoSetup(uint32_t depth, aio_context_t* context);

// Begins up to `count` requests. Returns how many the kernel took, at least 1, or -1 with errno. It
// takes them in their order and stops before the first one that it refuses.
int IoSubmit(aio_context_t context, long count, iocb** blocks);

// Waits for `min_count` events and takes up to `max_count`. Returns how many, or -1 with errno.
int IoGetEvents(aio_context_t context, long min_count, long max_count, io_event* events);

// Ends a context with `in_flight_count` requests whose results are not needed. Waits until all have
// ended, even where a filter now refuses the calls. Takes tens of milliseconds. False: it could not
// wait, and requests may be in flight.
[[nodiscard]] bool IoDestroy(aio_context_t context, uint32_t in_flight_count);

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_AIO_CALLS_H_
