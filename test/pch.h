// The headers of libraries that nearly every test includes, compiled once for all of them: the
// Makefile puts this in front of each test. A test still includes what it uses.
#ifndef TEST_PCH_H_
#define TEST_PCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#endif  // TEST_PCH_H_
