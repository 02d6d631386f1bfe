# `make help` lists the targets. `make race` and `make test` work on a fresh machine.
#
# Objects lie in build/<flavour>/, programs in bin/, the library in lib/. Flavours are release,
# asan (AddressSanitizer and UBSan), tsan and fuzz (clang's libFuzzer with ASan and UBSan);
# `make FLAVOUR=asan programs` builds bin's programs as build/asan/bin/. WERROR=1 turns warnings
# into errors, V=1 shows the commands.

TARGET_ENGINE ?= engine_race
ifneq ($(TARGET_ENGINE),engine_race)
$(error TARGET_ENGINE is $(TARGET_ENGINE), but the only engine here is engine_race)
endif

FLAVOUR ?= release
flavour_flags_release := -O2 -g
# Half of the time of a compilation goes into optimising and describing tests, which spend theirs in
# the library.
test_flags_release := -O1 -g1
# Line numbers are all that a sanitizer's report needs, and compile faster.
flavour_flags_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all
flavour_flags_tsan := -O1 -g1 -fsanitize=thread
# Clang 14 cannot put the function sanitizer's data before coroutines.
flavour_flags_fuzz := -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=function \
                      -fno-sanitize-recover=all
ifndef flavour_flags_$(FLAVOUR)
$(error FLAVOUR is $(FLAVOUR); choose release, asan, tsan or fuzz)
endif

BUILD := build/$(FLAVOUR)
ifeq ($(FLAVOUR),release)
BIN := bin
LIBRARY := lib/libengine.a
else
BIN := $(BUILD)/bin
LIBRARY := $(BUILD)/lib/libengine.a
endif

# Static archives that the library takes into itself, their symbols made local.
THIRD_PARTY_ARCHIVES := $(shell g++ -print-file-name=liburing.a)

CLANGXX ?= $(firstword $(shell command -v clang++-14 clang++ 2> /dev/null) clang++)
CXX := $(if $(filter fuzz,$(FLAVOUR)),$(CLANGXX),g++)
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format 2> /dev/null) clang-format)
CLANG_TIDY ?= $(firstword $(shell command -v clang-tidy-14 clang-tidy 2> /dev/null) clang-tidy)

# No unique symbols: objcopy cannot make them local.
CXXFLAGS := $(flavour_flags_$(FLAVOUR)) -fno-omit-frame-pointer -march=x86-64-v2 -fPIC \
            $(if $(filter fuzz,$(FLAVOUR)),,-fno-gnu-unique) -std=c++20 -Wall -Wextra -I. -pthread
LDFLAGS := $(filter -fsanitize=%,$(CXXFLAGS))
LDLIBS := -lpthread -lrt
# Not in CXXFLAGS, so that `make check` does not compile everything anew. Sanitized code draws
# warnings that mean nothing.
strict_flags := $(if $(WERROR),$(if $(filter release,$(FLAVOUR)),-Werror))
# What a file's name says about the CPU that it is for. engine_race/base/cpu_features.h asks for
# each of these before such a file's code runs.
avx2_flags := -mavx2
avx512_flags := -mavx2 -mavx512f -mavx512bw -mavx512vl
test_flags = $(if $(filter test/%,$<),$(test_flags_$(FLAVOUR)))
kernel_flags = $(if $(filter %_avx2.cc,$<),$(avx2_flags))$(if $(filter %_avx512.cc,$<),$(avx512_flags))

# Where headers of libraries are looked for, to tell what can be built here.
INCLUDE_DIRS := /usr/include /usr/local/include
has_header = $(wildcard $(INCLUDE_DIRS:%=%/$(1)))
missing_headers = $(strip $(foreach header,$(1),$(if $(call has_header,$(header)),,$(header))))
library_missing := $(call missing_headers,xxhash.h liburing.h)

# Kernels for newer CPUs come last: of an inline function that several objects carry the linker
# keeps the first copy, which must be one that every CPU runs.
library_sources := $(sort $(wildcard engine_race/*.cc engine_race/*/*.cc))
library_sources := $(filter-out %_avx2.cc %_avx512.cc,$(library_sources)) \
                   $(filter %_avx2.cc,$(library_sources)) $(filter %_avx512.cc,$(library_sources))
main_sources := $(sort $(wildcard harness/apps/*_main.cc))
# The opponents in bin/bench_scan and bin/bench_l1, or where their library is missing what says so.
rocks_missing := $(sort $(wildcard harness/opponents/rocks_*_missing.cc))
rocks_there := $(rocks_missing:_missing.cc=.cc)
rocks_both := $(rocks_there) $(rocks_missing)
rocks_library := $(call has_header,rocksdb/db.h)
rocks_sources := $(if $(rocks_library),$(rocks_there),$(rocks_missing))
harness_sources := $(filter-out $(main_sources) $(filter-out $(rocks_sources),$(rocks_both)), \
                     $(sort $(shell find harness -name '*.cc' -not -path 'harness/guest/*')))
test_sources := $(sort $(shell find test -name '*.cc' -not -path 'test/judges/*' \
                         -not -path 'test/fuzz/*'))
fuzz_sources := $(sort $(wildcard test/fuzz/*.cc))
# What the fuzzer shares with the tests.
fuzz_helpers := $(addprefix test/e2e/,damaged_store.cc damaged_store_edits.cc store_image.cc \
                                      store_judge.cc)
headers := $(sort $(shell find include engine_race harness test -name '*.h'))
sources := $(library_sources) $(harness_sources) $(main_sources) $(test_sources)
judge_sources := $(sort $(wildcard test/judges/*.cc))
guest_sources := $(sort $(wildcard harness/guest/*.cc))

objects = $(addprefix $(BUILD)/,$(1:.cc=.o))
library_objects := $(call objects,$(library_sources))
# What bin/race alone has: the I/O experiments, which compare tasks with Boost.Context, and those of
# L1, which are shown as these are.
race_objects := $(call objects,$(wildcard harness/experiments/io/*.cc harness/experiments/l1/race*.cc))
rocks_objects := $(call objects,$(rocks_sources))
harness_objects := $(filter-out $(race_objects) $(rocks_objects),$(call objects,$(harness_sources)))
test_objects := $(call objects,$(test_sources))
PROGRAMS := $(main_sources:harness/apps/%_main.cc=$(BIN)/%)
GUEST_INIT := build/guest/init
BENCHES := $(filter $(BIN)/bench_%,$(PROGRAMS))
# Headers that programs need besides the library's: all of them, and those of a name. A program is
# left out, with a word, where one of its headers is missing.
program_headers := CLI/CLI.hpp nlohmann/json.hpp
race_headers := boost/context/fiber.hpp
bench_micro_headers := benchmark/benchmark.h
missing_for = $(call missing_headers,$(program_headers) $($(notdir $(1))_headers))
left_out := $(strip $(foreach program,$(PROGRAMS),$(if $(call missing_for,$(program)),$(program))))

quiet := $(if $(V),,@)
define newline


endef

# A make of its own for targets that first install packages: it sees what was installed, and uses
# every CPU unless told otherwise.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
submake = $(MAKE) --no-print-directory $(jobs)

.PHONY: all library programs tests guest race test fuzz check bench bench-race bench-safety \
        bench-io bench-scan bench-l1 flame mutants soak crash powercut nvme-guest asan tsan format clean \
        help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: library programs  ## the library and the programs
library: $(LIBRARY)    ## lib/libengine.a
programs: $(filter-out $(left_out),$(PROGRAMS))  ## bin/race, bin/crash and the benches, as far as their libraries are here
	$(foreach program,$(left_out),@echo 'left out $(program): there is no $(call missing_for,$(program))'$(newline))
	$(if $(left_out),@echo 'scripts/setup.sh test installs all that programs need')
tests: $(BUILD)/engine_tests

race:  ## installs, builds and runs the three-phase race; RACE_ARGS='--dir D --num N'
	scripts/setup.sh race
	$(submake) $(BIN)/race
	$(BIN)/race $(RACE_ARGS)

test:  ## installs, builds and runs every test, plain and under the sanitizers
	scripts/setup.sh test
	$(submake) -k test-release test-asan test-tsan test-fuzz
	scripts/run_tests.sh release asan tsan judges fuzz powercut nvme

asan tsan:  ## the tests under one sanitizer
	scripts/setup.sh test
	$(submake) test-$@
	scripts/run_tests.sh $@

fuzz:  ## libFuzzer on damaged stores; FUZZ_SECONDS=60
	scripts/setup.sh check
	$(submake) test-fuzz
	scripts/run_tests.sh fuzz

check:  ## format, lint, headers, layers, house rules, prose and a tiny run of every bench
	scripts/setup.sh check
	$(submake) -k WERROR=1 tests programs \
	  check-format check-headers check-layers check-house check-prose check-mutants check-lint check-bench

bench: $(BIN)/bench_micro $(BIN)/bench_index  ## the micro-benchmarks and the index benchmark
	$(BIN)/bench_micro
	$(BIN)/bench_index

bench-race: $(BENCHES)  ## the measured claims, into out/bench-race.json; about ten minutes
	mkdir -p out
	$(BIN)/bench_race --json out/bench-race.json $(BENCH_RACE_ARGS)

bench-safety: $(BIN)/bench_safety  ## what safety costs, and the mutants, into out/bench-safety.json
	scripts/setup.sh mutants
	mkdir -p out
	$(submake) mutants MUTANTS_ARGS='--json out/mutants.json' || true
	$(BIN)/bench_safety --json out/bench-safety.json --mutants out/mutants.json $(BENCH_SAFETY_ARGS)

bench-io: $(BIN)/bench_io  ## reads in flight, back ends, striping, into out/bench-io.json; ten minutes
	mkdir -p out
	$(BIN)/bench_io --json out/bench-io.json $(BENCH_IO_ARGS)

bench-scan:  ## iterators, snapshots and ranges, beside RocksDB, into out/bench-scan.json; twelve minutes
	scripts/setup.sh race
	scripts/setup.sh rocksdb || echo "bench-scan: going on without RocksDB"
	$(submake) $(BIN)/bench_scan
	mkdir -p out
	$(BIN)/bench_scan --json out/bench-scan.json $(BENCH_SCAN_ARGS)

bench-l1:  ## lookups in memory step by step, beside RocksDB, into out/bench-l1.json; ten minutes
	scripts/setup.sh race
	scripts/setup.sh rocksdb || echo "bench-l1: going on without RocksDB"
	$(submake) $(BIN)/bench_l1
	mkdir -p out
	$(BIN)/bench_l1 --json out/bench-l1.json $(BENCH_L1_ARGS)

flame: $(BIN)/profile  ## a flame graph, out/flame-PHASE.svg; PHASE=seek, `bin/profile -h` lists them
	scripts/setup.sh flame
	scripts/flame record $(or $(PHASE),seek) $(FLAME_ARGS)

mutants: tests $(BIN)/crash $(BIN)/race  ## re-introduces known faults, one by one: a test must fail for each
	scripts/mutants.py $(MUTANTS_ARGS)

soak: tests programs guest  ## the safety tests, long: hours; scripts/soak.sh says how long
	scripts/setup.sh all
	scripts/soak.sh

crash: $(BIN)/crash  ## kills the engine again and again; CRASH_ARGS='--cycles N'
	$(BIN)/crash $(CRASH_ARGS)

powercut:  ## installs QEMU and cuts the power of guests; POWERCUT_ARGS='--rounds N --seed S'
	scripts/setup.sh guest
	$(submake) guest
	scripts/powercut.py $(POWERCUT_ARGS)

nvme-guest:  ## installs QEMU and tries raw NVMe disks and passthrough in a guest
	scripts/setup.sh guest
	$(submake) guest
	scripts/nvme_guest.py

format:  ## formats every source in place
	$(CLANG_FORMAT) -i $(sort $(sources) $(rocks_both)) $(judge_sources) $(fuzz_sources) $(guest_sources) $(headers)

clean:  ## removes what was built
	rm -rf build bin lib

help:  ## this list
	@awk -F ':.*##' '/^[a-z-]+[a-z -]*:.*##/ {printf "%-11s %s\n", $$1, $$2}' Makefile

# Compiling.

$(BUILD)/%.o: %.cc $(BUILD)/flags.txt
	@mkdir -p $(@D)
	@echo "compile $< ($(FLAVOUR))"
	$(quiet)$(CXX) $(CXXFLAGS) $(kernel_flags) $(test_flags) $(strict_flags) -MMD -MP -c $< -o $@

# Rewritten only when it changes, so that other flags compile anew, and a source that came or went
# links anew.
define write_if_changed
	@mkdir -p $(@D)
	@printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' > $@
endef
$(BUILD)/flags.txt: FORCE
	$(if $(library_missing),@echo 'the library cannot be built without $(library_missing): scripts/setup.sh race installs it' >&2; exit 1)
	$(call write_if_changed,$(CXX) $(CXXFLAGS) $(avx2_flags) $(avx512_flags) $(test_flags_$(FLAVOUR)))
$(BUILD)/sources.txt: FORCE
	$(call write_if_changed,$(sources) $(THIRD_PARTY_ARCHIVES))

# Linking. Programs and tests see all of the engine; the archive shows its public interface alone.

$(PROGRAMS): $(BIN)/%: $(BUILD)/harness/apps/%_main.o $(harness_objects) $(library_objects) $(BUILD)/sources.txt
	@mkdir -p $(@D)
	@echo "link $@"
	$(quiet)$(CXX) $(LDFLAGS) $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) $(LDLIBS) -o $@
$(BIN)/bench_micro: LDLIBS += -lbenchmark
$(BIN)/race: $(race_objects)
$(BIN)/bench_scan $(BIN)/bench_l1: $(rocks_objects)
$(BIN)/bench_scan $(BIN)/bench_l1: LDLIBS += $(if $(rocks_library),-lrocksdb)
$(BIN)/race $(BUILD)/engine_tests: LDLIBS += -lboost_context
# What writing would cost without checksums is measured by leaving them out, there alone.
$(BIN)/bench_safety: LDFLAGS += -Wl,--wrap=_ZN11engine_race9HashValueEPKv

# The calls that tests may come between, see test/faults/system_calls.h; of the tests' binary alone.
WRAPPED_CALLS := pread pwrite fsync fdatasync fallocate ftruncate lseek openat renameat unlinkat \
                 mkdirat mmap munmap msync madvise fstat fstatat fstatfs flock fcntl close getrandom \
                 syscall \
                 $(addprefix io_uring_,queue_init_params register_buffers register_files \
                                       enable_rings submit_and_wait peek_batch_cqe)
$(BUILD)/engine_tests: LDFLAGS += $(WRAPPED_CALLS:%=-Wl,--wrap=%)
$(BUILD)/engine_tests: $(test_objects) $(harness_objects) $(race_objects) $(library_objects) $(BUILD)/sources.txt
	@echo "link $@"
	$(quiet)$(CXX) $(LDFLAGS) $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) -lgtest -lgtest_main $(LDLIBS) -o $@

$(BUILD)/open_fuzz: $(call objects,$(fuzz_sources) $(fuzz_helpers)) $(library_objects)
	@echo "link $@"
	$(quiet)$(CXX) $(CXXFLAGS) -fsanitize=fuzzer $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) $(LDLIBS) -o $@

# The only program of the guests, which have no libraries.
guest: $(GUEST_INIT)
$(GUEST_INIT): $(call objects,$(guest_sources) harness/data/value_maker.cc) $(library_objects) $(BUILD)/sources.txt
	@mkdir -p $(@D)
	@echo "link $@"
	$(quiet)$(CXX) -static -s $(LDFLAGS) $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) $(LDLIBS) -o $@

# One object of everything, groups of inline functions resolved, then all but the public made local.
$(BUILD)/engine_whole.o: $(library_objects) $(BUILD)/sources.txt $(THIRD_PARTY_ARCHIVES)
	@echo "link $@"
	$(quiet)$(LD) -r --force-group-allocation $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) -o $@

$(LIBRARY): $(BUILD)/engine_whole.o engine_race/public_symbols.txt
	@mkdir -p $(@D)
	@echo "archive $@"
	$(quiet)objcopy --wildcard --keep-global-symbols=engine_race/public_symbols.txt $< $(BUILD)/libengine.o
	$(quiet)rm -f $@
	$(quiet)$(AR) crsD $@ $(BUILD)/libengine.o

# Tests, by flavour. End-to-end tests find bin/crash through ENGINE_BIN_DIR.

.PHONY: test-release test-asan test-tsan test-fuzz
test-release: tests $(BIN)/crash $(BIN)/race library guest
test-asan test-tsan: test-%:
	$(MAKE) --no-print-directory FLAVOUR=$* tests build/$*/bin/crash build/$*/bin/race
# Without clang and its runtime nothing is built, and the run says so.
test-fuzz:
	@rm -f build/fuzz/open_fuzz
	$(if $(wildcard $(shell $(CLANGXX) -print-file-name=libclang_rt.fuzzer-x86_64.a 2> /dev/null) \
	    $(shell $(CLANGXX) -print-resource-dir 2> /dev/null)/lib/linux/libclang_rt.fuzzer-*.a),\
	  $(MAKE) --no-print-directory FLAVOUR=fuzz build/fuzz/open_fuzz)

# Checks.

.PHONY: check-format check-headers check-layers check-house check-prose check-mutants check-lint check-bench
check-format:
	scripts/check_format.sh $(CLANG_FORMAT) $(sort $(sources) $(rocks_both)) $(judge_sources) $(fuzz_sources) $(guest_sources) $(headers)

check-layers:
	scripts/check_layers.sh

check-house:
	scripts/check_house.sh

check-prose:
	test/scripts/prose_test.py
	scripts/check_prose.py
	scripts/check_docs.py
	scripts/chart_figures.py --check

check-mutants:
	scripts/mutants.py --check

check-headers: $(headers:%=$(BUILD)/%.ok) $(addprefix $(BUILD)/judge/, \
    include/engine.h.ok include/polar_string.h.ok engine_race/engine_race.h.ok)
$(BUILD)/%.h.ok: %.h $(BUILD)/flags.txt
	@mkdir -p $(@D)
	@$(CXX) $(CXXFLAGS) -Werror -fsyntax-only -MMD -MP -MF $(@:.ok=.d) -MT $@ -x c++ $<
	@touch $@
$(BUILD)/judge/%.h.ok: %.h
	@mkdir -p $(@D)
	@$(CXX) -std=c++11 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only \
	  -MMD -MP -MF $(@:.ok=.d) -MT $@ -x c++ $<
	@touch $@

# The object stands for the headers: it is newer than a lint that they outdated.
check-lint: $(patsubst %.cc,$(BUILD)/%.lint,$(library_sources) $(harness_sources) $(main_sources) \
                           $(guest_sources))
$(BUILD)/%.lint: %.cc $(BUILD)/%.o .clang-tidy
	@echo lint $<
	@$(CLANG_TIDY) --quiet $< -- -std=c++20 -I. -march=x86-64-v2 $(kernel_flags) 2> $@.err \
	  || { cat $@.err; exit 1; }
	@touch $@

check-bench: $(BENCHES) $(BIN)/profile
	scripts/check_bench.sh $^

-include $(shell find $(BUILD) -name '*.d' 2> /dev/null)
