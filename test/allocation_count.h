// How often the calling thread has asked the C++ library for memory: tests of what must not
// allocate compare two counts.
//
// The test binary's operator new counts; under sanitizers, which bring their own, it does not, and
// the count stays what it is.
#ifndef TEST_ALLOCATION_COUNT_H_
#define TEST_ALLOCATION_COUNT_H_

#include <cstdint>

namespace engine_race::test {

uint64_t AllocationCount();

}  // namespace engine_race::test

#endif  // TEST_ALLOCATION_COUNT_H_
