// The standard library's headers that many sources include, compiled once for all of them: the
// Makefile puts this in front of each source. A source still includes what it uses.
#ifndef ENGINE_RACE_BASE_PCH_H_
#define ENGINE_RACE_BASE_PCH_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#endif  // ENGINE_RACE_BASE_PCH_H_
