// Moves the text of this process to anonymous memory, on huge pages where it can.
//
// The page cache keeps one copy of a program's file, on the node of the process that first read it.
// Afterwards the text belongs to this process alone and lies where its memory policy says. Tools
// that look for functions by file (perf, a debugger that attaches) no longer find them there.
#ifndef HARNESS_SYSTEM_OWN_TEXT_H_
#define HARNESS_SYSTEM_OWN_TEXT_H_

#include "engine_race/base/status.h"

namespace engine_race::harness {

// Moves every executable mapping of a file, shared libraries too. Only while the process has one
// thread and no handler of a signal that may come. kNotSupported where the system forbids anonymous
// memory that can be executed; then what had been moved stays moved. kNotSupported, with nothing
// moved, where text can be written to or cannot be read.
Status MoveTextToOwnMemory();

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_OWN_TEXT_H_
