# `make help` lists the targets. `make race` and `make test` work on a fresh machine.
#
# Objects lie in build/<flavour>/, programs in bin/, the library in lib/. The flavours are
#   release
#   checked  release with the assertions of engine_race/base/assert.h
#   asan     AddressSanitizer and UBSan
#   tsan     ThreadSanitizer
#   fuzz     clang's libFuzzer with ASan and UBSan
# `make FLAVOUR=asan programs` builds the programs into build/asan/bin/. WERROR=1 turns warnings into
# errors, V=1 shows the commands.

TARGET_ENGINE ?= engine_race
ifneq ($(TARGET_ENGINE),engine_race)
$(error TARGET_ENGINE is $(TARGET_ENGINE), but the only engine here is engine_race)
endif

FLAVOUR ?= release
# Line numbers only (-g1): profiles, failed tests and sanitizers' reports need no more, and files
# compile faster.
flavour_flags_release := -O2 -g1
flavour_flags_checked := $(flavour_flags_release) -DENGINE_RACE_CHECKED
# Tests spend most of their time in the library, so -O1 is enough for them. UBSan in tests as well
# would double the time to compile.
test_flags_release := -O1
test_flags_checked := -O1
test_flags_asan := -fno-sanitize=undefined
flavour_flags_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all
flavour_flags_tsan := -O1 -g1 -fsanitize=thread
# Clang 14 cannot put the function sanitizer's data before coroutines.
flavour_flags_fuzz := -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=function \
                      -fno-sanitize-recover=all
ifndef flavour_flags_$(FLAVOUR)
$(error FLAVOUR is $(FLAVOUR); choose release, checked, asan, tsan or fuzz)
endif

BUILD := build/$(FLAVOUR)
ifeq ($(FLAVOUR),release)
BIN := bin
LIBRARY := lib/libengine.a
else
BIN := $(BUILD)/bin
LIBRARY := $(BUILD)/lib/libengine.a
endif
# The library with its debug information.
DEBUG_LIBRARY := $(dir $(LIBRARY))debug/$(notdir $(LIBRARY))

# Static archives that the library takes into itself, their symbols made local.
THIRD_PARTY_ARCHIVES := $(shell g++ -print-file-name=liburing.a)

CLANGXX ?= $(firstword $(shell command -v clang++-14 clang++ 2> /dev/null) clang++)
CXX := $(if $(filter fuzz,$(FLAVOUR)),$(CLANGXX),g++)
CLANG_FORMAT ?= $(firstword $(shell command -v clang-format-14 clang-format 2> /dev/null) clang-format)
CLANG_TIDY ?= $(firstword $(shell command -v clang-tidy-14 clang-tidy 2> /dev/null) clang-tidy)

# No unique symbols: objcopy cannot make them local.
CXXFLAGS := $(flavour_flags_$(FLAVOUR)) -fno-omit-frame-pointer -march=x86-64-v2 -fPIC \
            $(if $(filter fuzz,$(FLAVOUR)),,-fno-gnu-unique) -std=c++20 -Wall -Wextra -I. -pthread
LDFLAGS := $(filter -fsanitize=%,$(CXXFLAGS)) -Wl,-z,relro,-z,now
LDLIBS := -lpthread -lrt
# Not in CXXFLAGS, so that `make check` does not compile everything again. Sanitized code causes
# meaningless warnings, so it is never built with -Werror.
strict_flags := $(if $(WERROR),$(if $(filter release checked,$(FLAVOUR)),-Werror))
# Flags of files whose names say which CPU they need. engine_race/base/cpu_features.h checks for each
# of these features before code of such a file runs.
avx2_flags := -mavx2
avx512_flags := -mavx2 -mavx512f -mavx512bw -mavx512vl
# The flags of one source besides CXXFLAGS.
own_flags = $(if $(filter %_avx2.cc,$(1)),$(avx2_flags))$(if $(filter %_avx512.cc,$(1)),$(avx512_flags)) \
            $(if $(filter test/%,$(1)),$(test_flags_$(FLAVOUR))) \
            $(if $(filter $(unmeasured_sources),$(1)),-O1) \
            $(if $(filter harness/bench/git_hash.cc,$(1)),-DENGINE_RACE_GIT_HASH=$(git_hash_text))

# Directories in which a library's headers are sought, to decide what can be built here.
INCLUDE_DIRS := /usr/include /usr/local/include
has_header = $(wildcard $(INCLUDE_DIRS:%=%/$(1)))
missing_headers = $(strip $(foreach header,$(1),$(if $(call has_header,$(header)),,$(header))))
library_missing := $(call missing_headers,xxhash.h liburing.h)

# Kernels for newer CPUs come last: when several objects have the same inline function, the linker
# keeps the first copy. That copy must run on every CPU.
kernels_last = $(filter-out %_avx2.o %_avx512.o,$(1)) $(filter %_avx2.o,$(1)) $(filter %_avx512.o,$(1))
library_sources := $(sort $(wildcard engine_race/*.cc engine_race/*/*.cc))
main_sources := $(sort $(wildcard harness/apps/*_main.cc))
guest_sources := $(sort $(wildcard harness/guest/*.cc))
harness_sources := $(sort $(filter-out $(main_sources) $(guest_sources), \
                                       $(shell find harness -name '*.cc')))
fuzz_sources := $(sort $(wildcard test/fuzz/*.cc))
judge_sources := $(sort $(wildcard test/judges/*.cc))
test_sources := $(sort $(filter-out $(fuzz_sources) $(judge_sources),$(shell find test -name '*.cc')))
headers := $(sort $(shell find include engine_race harness test -name '*.h'))
sources := $(library_sources) $(harness_sources) $(main_sources) $(test_sources)

objects = $(addprefix $(BUILD)/,$(1:.cc=.o))
library_objects := $(call kernels_last,$(call objects,$(library_sources)))

include harness/programs.mk
include test/rooms.mk

GUEST_INIT := build/guest/init
BENCHES := $(BIN)/bench_micro $(BIN)/claims
report_program := $(if $(shell command -v python3),$(BIN)/report)
claims_benches := $(addprefix bench-,race batches safety io scan l1 index numa space)
quiet := $(if $(V),,@)
define newline


endef

# Targets that first install packages call make again: the new make sees the installed packages. It
# uses every CPU unless -j says otherwise.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
submake = $(MAKE) --no-print-directory $(jobs)

.PHONY: all library programs tests rest-tests sanitized-judges quick-tests guest race test \
        test-all test-rest prepare-test-rest test-report fuzz check bench $(claims_benches) bench-compare \
        flame mutants soak crash powercut nvme-guest numa-guests cluster test-cluster \
        bench-cluster cluster-demo cluster-mutants asan tsan format clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: library programs  ## the library and the programs
library: $(LIBRARY)    ## lib/libengine.a; with debug information in lib/debug/
programs: $(filter-out $(left_out),$(PROGRAMS)) $(report_program)  ## the programs in bin/, as far as their libraries are here
	$(foreach program,$(left_out),@echo 'left out $(program): there is no $(call missing_for,$(program))'$(newline))
	$(if $(report_program),,@echo 'left out $(BIN)/report: there is no python3')
	$(if $(left_out),@echo 'scripts/setup.sh test installs all that programs need')
tests: $(test_programs)
rest-tests: $(rest_test_programs)
sanitized-judges: $(c_judges)
quick-tests: $(addprefix $(BUILD)/tests/,$(quick_test_rooms)) $(call room_programs,$(quick_test_rooms))

race:  ## installs, builds and runs the three-phase race; RACE_ARGS='--dir D --num N'
	scripts/setup.sh race
	+$(submake) $(BIN)/race
	$(BIN)/race --table out/race.txt --json out/race.json $(RACE_ARGS)

# The test programs, as arguments of scripts/run_tests.sh, the longest runs first. `cluster` comes before
# all of `make test-rest`, because it waits beside them.
in_two = $(1):1/2 $(1):2/2
core_runs := $(call in_two,asan/core) $(call in_two,checked/e2e) $(patsubst %,checked/%,$(filter-out e2e,$(quick_test_rooms)))
rest_runs := cluster $(long_test_rooms:%=checked/%) checked/e2e+paged $(call in_two,tsan/core) \
             $(call in_two,tsan/rest) judges package python bare powercut nvme numa report
long_runs := fuzz $(call in_two,asan/rest) $(patsubst %,checked/%+paged,$(long_sanitized_rooms)) \
             $(foreach flavour,asan tsan,$(addprefix $(flavour)/,$(long_sanitized_rooms) harness))

test:  ## installs, builds and runs the engine's tests: assertions, kill trials, a core under ASan
	scripts/setup.sh test
	+$(submake) -k build-core
	scripts/run_tests.sh $(core_runs)

test-all:  ## every test: also faults, power losses, programs, ASan, TSan, judges, fuzzer, guests, the networked service
	scripts/setup.sh fuzz
	$(call set_up_rest,$@)
	+$(submake) -k build-core
	+$(submake) -k build-all
	scripts/run_tests.sh $(core_runs) $(rest_runs) $(long_runs)

# `make test-rest` leaves out the runs that take long on a fresh machine and find the fewest faults.
test-rest: prepare-test-rest  ## what CI runs after `make test`; docs/testing.md lists what it leaves out
	scripts/run_tests.sh $(rest_runs)

prepare-test-rest:  ## installs and builds what `make test-rest` runs
	$(call set_up_rest,$@)
	+$(submake) -k build-rest

define set_up_rest
scripts/setup.sh test
scripts/setup.sh guest || echo '$(1): going on without guests'
scripts/setup.sh package || echo '$(1): going on without packages'
scripts/setup.sh python || echo '$(1): going on without Python'
scripts/setup.sh browser || echo '$(1): going on without a browser'
scripts/setup.sh test-cluster || echo '$(1): going on without the networked service'
endef

test-report:  ## installs Chromium and looks at the pages and charts of bin/report in it
	scripts/setup.sh browser
	+$(submake) $(BIN)/report
	test/scripts/report_test.py
	scripts/run_tests.sh report

cluster:  ## installs Go and builds the networked service: bin/engine-raced, bin/cluster-load, bin/cluster-check
	scripts/setup.sh cluster
	+$(submake) $(cluster_programs)

test-cluster:  ## installs Go and tests the networked service: race detector, faults, linearizability
	scripts/setup.sh test-cluster
	+$(submake) $(cluster_programs)
	$(MAKE) --no-print-directory check-go
	scripts/test_cluster.sh

# CLUSTER_HISTORIES=0 leaves out the check of histories and the failovers.
CLUSTER_HISTORIES ?= 100
CLUSTER_FAILOVERS ?= 50
# Only root can let a node vanish.
CLUSTER_BLACK_HOLES ?= $(if $(filter 0,$(shell id -u)),20,0)
CLUSTER_ATTACKS ?= 6
# Root can give each node a file system, for full disks and cuts of power.
CLUSTER_CHECK_ARGS ?= $(if $(filter 0,$(shell id -u)),--disk-mib 2048)
bench-cluster:  ## the networked service beside dragonboat, Pebble and etcd, into out/bench-cluster.json
	scripts/setup.sh bench-cluster
	+$(submake) $(cluster_programs) bin/cluster-bench bin/cluster-bench-etcd
	mkdir -p out
	rm -f out/cluster-check.json
# The bench takes the check's claims over, so a failure here must not end the recipe.
	$(if $(filter-out 0,$(CLUSTER_HISTORIES)),bin/cluster-check --binary bin/engine-raced --histories $(CLUSTER_HISTORIES) \
	  --seconds 2 --failover $(CLUSTER_FAILOVERS) \
	  --black-holes $(CLUSTER_BLACK_HOLES) --attacks $(CLUSTER_ATTACKS) --json out/cluster-check.json $(CLUSTER_CHECK_ARGS) || true)
	bin/cluster-bench --json out/bench-cluster.json $(if $(filter-out 0,$(CLUSTER_HISTORIES)),--check-json out/cluster-check.json) \
	  $(BENCH_CLUSTER_ARGS)

cluster-demo:  ## three nodes on loopback, until Ctrl-C
	scripts/setup.sh cluster
	+$(submake) $(cluster_programs)
	scripts/cluster_demo.sh

asan tsan:  ## the tests under one sanitizer
	scripts/setup.sh test
	+$(submake) build-$@
	scripts/run_tests.sh $(sanitized_programs:%=$@/%)

fuzz:  ## libFuzzer on damaged stores; FUZZ_SECONDS=60
	scripts/setup.sh fuzz
	+$(submake) build-fuzz
	scripts/run_tests.sh fuzz

# CHECK_COMMITS=N limits check-lint and check-headers to recently changed files, see `recent` below.
# All files take half an hour on a machine that has checked none of them.
check:  ## format, lint, headers, layers, house rules, prose, scripts, Go and a tiny run of every bench
	scripts/setup.sh check
	+$(submake) -k WERROR=1 check-checked \
	  check-format check-headers check-layers check-house check-prose check-scripts check-mutants check-lint check-go

bench: $(BIN)/bench_micro  ## the micro-benchmarks
	$(BIN)/bench_micro

bench-race:     ## the measured claims about the race; about ten minutes
bench-batches:  ## what batches gain over single writes
bench-safety:   ## what safety costs, and the mutants
bench-io:       ## reads in flight, back ends, striping; ten minutes
bench-scan:     ## iterators, snapshots and ranges, beside RocksDB; twelve minutes
bench-l1:       ## lookups in memory step by step, beside RocksDB; ten minutes
bench-index:    ## the index on disk and in memory, beside RocksDB; forty minutes
bench-numa:     ## where text and memory of instances lie, and what one costs
bench-space:    ## overwritten stores, reclaim, RocksDB; half an hour, 41 GB of disk
# What a bench needs besides, and what finds figures that it takes over: it reads failures from the JSON
# of these programs, so a failure there must not end the recipe.
needs_scan := rocksdb
needs_l1 := rocksdb
needs_index := rocksdb
needs_space := rocksdb
needs_numa := guest
built_for_numa := $(BIN)/race $(BIN)/race_static numa-guests-built
before_safety = scripts/setup.sh mutants; $(MAKE) --no-print-directory mutants MUTANTS_ARGS='--json out/mutants.json' || true
before_numa = rm -f out/numa-guests.json; scripts/numa_guest.py --json out/numa-guests.json || true
flags_safety := --mutants out/mutants.json
flags_numa := --guests out/numa-guests.json
# Each writes its claims into out/bench-NAME.json, and takes further flags from BENCH_NAME_ARGS.
$(claims_benches): bench-%:
	scripts/setup.sh race
	$(foreach need,$(needs_$*),scripts/setup.sh $(need) || echo '$@: going on without $(need)')
	+$(submake) $(BIN)/claims $(built_for_$*)
	mkdir -p out
	$(before_$*)
	$(BIN)/claims $* --json out/$@.json $(flags_$*) $(BENCH_$(shell echo $* | tr a-z A-Z)_ARGS)

bench-compare:  ## the engine beside RocksDB, LevelDB, LMDB, WiredTiger, into out/bench-compare.json; three hours
	scripts/setup.sh race
	scripts/setup.sh peers || echo "bench-compare: going on without some of the peers"
	scripts/setup.sh python || echo "bench-compare: going on, perhaps without Python"
	+$(submake) $(BIN)/compare $(BIN)/claims $(BIN)/multi_read $(SHARED)
	scripts/bench_compare.py --dir $(or $(BENCH_COMPARE_DIR),out/compare-store) --compare-args='$(BENCH_COMPARE_ARGS)' \
	  --c-api-args='$(C_API_ARGS)' --read-many-args='$(READ_MANY_ARGS)' --embeddings-args='$(EMBEDDINGS_ARGS)' $(if $(TINY),--tiny)

flame: $(BIN)/profile  ## a flame graph, out/flame-PHASE.svg; PHASE=seek, `bin/profile -h` lists them
	scripts/setup.sh flame
	scripts/flame record $(or $(PHASE),seek) $(FLAME_ARGS)

cluster-mutants: library  ## puts faults back into cluster/, one by one: a check must find each; needs root
	scripts/cluster_mutants.py $(CLUSTER_MUTANTS_ARGS)

mutants: build-checked  ## re-introduces known faults, one by one: a test must fail for each
	scripts/mutants.py $(MUTANTS_ARGS)

soak: build-checked programs guest  ## the safety tests, long: hours; scripts/soak.sh says how long
	scripts/setup.sh all
	+$(submake) $(cluster_programs)
	scripts/soak.sh

crash: $(BIN)/crash  ## kills the engine again and again; CRASH_ARGS='--cycles N'
	$(BIN)/crash $(CRASH_ARGS)

powercut:  ## installs QEMU and cuts the power of guests; POWERCUT_ARGS='--rounds N --seed S'
	scripts/setup.sh guest
	+$(submake) guest
	scripts/powercut.py $(POWERCUT_ARGS)

nvme-guest:  ## installs QEMU and tries raw NVMe disks and passthrough in a guest
	scripts/setup.sh guest
	+$(submake) guest
	scripts/nvme_guest.py

numa-guests:  ## installs QEMU and tries instances of the race on the nodes of guests
	scripts/setup.sh guest
	+$(submake) numa-guests-built
	scripts/numa_guest.py

# What a guest with NUMA nodes runs.
.PHONY: numa-guests-built
numa-guests-built: guest $(BIN)/race_static $(BIN)/numa_static $(BIN)/numa

format:  ## formats every source in place
	$(CLANG_FORMAT) -i $(sources) $(judge_sources) $(fuzz_sources) $(guest_sources) $(headers)
	. scripts/go_env.sh && if use_go; then gofmt -w cluster; fi

clean:  ## removes what was built
	rm -rf build bin lib

help:  ## this list
	@awk -F ':.*##' '/^[a-z0-9-]+[a-z0-9 -]*:.*##/ {printf "%-12s %s\n", $$1, $$2}' $(filter %Makefile %package.mk,$(MAKEFILE_LIST))
	@echo 'test-ROOM    the tests of one room, or those of a name: make test-log TEST=Recovery'
	@echo '             rooms: $(test_rooms)'
	@echo 'compile_commands.json  for editors and other tools'

# Compiling.

# A step prints "[57/118] compile X". When the first step begins, a dry run of the same make counts
# the steps: there each prints only a mark.
step_mark := step of $(FLAVOUR) to count:
ifdef COUNTS_STEPS
step = $(step_mark) $(1)
else
step = [$(words $(steps_begun))/$(step_count)] $(1)$(eval steps_begun += x)
steps_begun := x
step_count = $(eval step_count := $(shell $(MAKE) --no-print-directory -n $(MAKECMDGOALS) \
                 FLAVOUR=$(FLAVOUR) COUNTS_STEPS=1 2> /dev/null | grep -c '$(step_mark)'))$(step_count)
endif

# Headers that nearly every source includes are compiled once: the standard library's, and for tests
# gtest's as well. Clang keeps such headers otherwise, and code for newer CPUs cannot use them.
# ccache takes them when it is told not to look at times and macros.
pch_sources := engine_race/base/pch.h test/pch.h
pch_header = $(if $(filter fuzz,$(FLAVOUR))$(filter %_avx2.cc %_avx512.cc,$(1)),,$(if $(filter test/%,$(1)),test,engine_race/base)/pch.h)
# GCC takes precompiled headers for the project's own, and its optimiser then warns without cause of
# the standard library's inline functions.
no_optimiser_warnings := $(addprefix -Wno-,array-bounds restrict stringop-overflow stringop-overread \
                                           maybe-uninitialized dangling-pointer)
pch_flags = $(patsubst %,-include $(BUILD)/% -fpch-preprocess $(no_optimiser_warnings),$(call pch_header,$(1)))
export CCACHE_SLOPPINESS ?= pch_defines,time_macros,include_file_mtime,include_file_ctime
objects_with_pch = $(call objects,$(foreach source,$(1),$(if $(call pch_header,$(source)),$(source))))
$(call objects_with_pch,$(library_sources) $(harness_sources) $(main_sources) $(guest_sources)): \
    $(BUILD)/engine_race/base/pch.h.gch
$(call objects_with_pch,$(test_sources)): $(BUILD)/test/pch.h.gch
$(pch_sources:%=$(BUILD)/%.gch): $(BUILD)/%.gch: % $(BUILD)/flags.txt
	@mkdir -p $(@D)
	@echo "$(call step,compile $< ($(FLAVOUR)))"
	$(quiet)$(CXX) $(CXXFLAGS) $(call own_flags,$<) -x c++-header -MD -MP -c $< -o $@

$(BUILD)/%.o: %.cc $(BUILD)/flags.txt | $(if $(library_missing),library-missing)
	@mkdir -p $(@D)
	@echo "$(call step,compile $< ($(FLAVOUR)))"
	$(quiet)$(CXX) $(CXXFLAGS) $(call own_flags,$<) $(call pch_flags,$<) $(strict_flags) -MMD -MP -c $< -o $@

.PHONY: library-missing
library-missing:
	@echo 'the library cannot be built without $(library_missing): scripts/setup.sh race installs it' >&2; exit 1

# These files are written only when their text changes. So other flags or another compiler make every
# source compile again, and an added or removed source makes programs link again. They are written
# before any rule runs, so that a dry run of the same make sees them too; a dry run writes nothing.
compiler_id := $(shell stat -Lc '%s %Y' "$$($(CXX) -print-prog-name=cc1plus)" 2> /dev/null)
flags_text := $(CXX) $(compiler_id) $(CXXFLAGS) $(avx2_flags) $(avx512_flags) $(test_flags_$(FLAVOUR)) \
              $(no_optimiser_warnings) $(unmeasured_sources)
sources_text := $(sources) $(THIRD_PARTY_ARCHIVES)
# One source alone has the hash: a commit recompiles that source, not the others.
git_hash_text := $(or $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null),unknown)
$(call objects,harness/bench/git_hash.cc): $(BUILD)/git_hash.txt
report_sources := $(sort $(wildcard scripts/report/*.py))
REPORT_PYTHON ?= /usr/bin/env python3
report_text = $(REPORT_PYTHON) $(report_sources)
write_if_changed = $(shell mkdir -p $(BUILD); printf '%s\n' '$($(1)_text)' | cmp -s - $(BUILD)/$(1).txt \
                           || printf '%s\n' '$($(1)_text)' > $(BUILD)/$(1).txt)
ifeq ($(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),)
$(call write_if_changed,flags)
$(call write_if_changed,sources)
$(call write_if_changed,git_hash)
$(call write_if_changed,report)
endif
# For goals behind `clean`.
$(BUILD)/flags.txt $(BUILD)/sources.txt $(BUILD)/git_hash.txt $(BUILD)/report.txt:
	@:$(call write_if_changed,$(basename $(@F)))

define compile_command
  {"directory": "$(CURDIR)", "file": "$(1)",
   "command": "$(CXX) $(CXXFLAGS) $(call own_flags,$(1)) -c $(1) -o $(call objects,$(1))"}
endef
comma := ,
compile_commands.json: FORCE
	$(file > $@,[)$(foreach source,$(filter-out $(firstword $(sources)),$(sources)),$(file >> $@,$(call compile_command,$(source))$(comma)))$(file >> $@,$(call compile_command,$(firstword $(sources))))$(file >> $@,])
	@echo "$@: $(words $(sources)) sources"

# Linking. Programs and tests see all of the engine; the archive shows its public interface alone.

define program_rule
$(BIN)/$(1) $(BIN)/$(1)_static: $(call objects,harness/apps/$(1)_main.cc $(call sources_of,$(parts_of_all) $(parts_$(1))))
endef
$(foreach program,$(notdir $(PROGRAMS)),$(eval $(call program_rule,$(program))))
# The library's objects come first, so that their copies of inline functions are linked. Tests and
# unmeasured_sources are compiled with less optimisation.
linked_objects = $(call kernels_last,$(library_objects) $(filter-out $(library_objects),$(filter %.o,$^)))
$(PROGRAMS): $(BIN)/%: $(library_objects) $(BUILD)/sources.txt
	@mkdir -p $(@D)
	@echo "$(call step,link $@)"
	$(quiet)$(CXX) $(LDFLAGS) $(linked_objects) $(THIRD_PARTY_ARCHIVES) $(link_$*) $(LDLIBS) -o $@
# For guests, which have no libraries, and for copies of a program that must share no text. Text that
# begins with a huge page can be moved to huge pages alone.
STATIC_PROGRAMS := $(addprefix $(BIN)/,race_static numa_static)
static_flags := -static -Wl,-S -Wl,-z,max-page-size=2097152
$(STATIC_PROGRAMS): $(BIN)/%_static: $(library_objects) $(BUILD)/sources.txt
	@mkdir -p $(@D)
	@echo "$(call step,link $@)"
	$(quiet)$(CXX) $(static_flags) $(LDFLAGS) $(linked_objects) $(THIRD_PARTY_ARCHIVES) $(LDLIBS) -o $@
# A program in Python is an archive that python3 runs, in one file that may lie anywhere.
$(BIN)/report: $(report_sources) $(BUILD)/report.txt include/engine_race_c.h
	@mkdir -p $(@D)
	@echo "$(call step,pack $@)"
	$(quiet)rm -rf $(BUILD)/report && mkdir -p $(BUILD)/report/report && cp $(report_sources) $(BUILD)/report/report/
	$(quiet)echo 'VERSION = "$(VERSION)"' > $(BUILD)/report/report/built.py
	$(quiet)python3 -m zipapp $(BUILD)/report -m report.cli:run -p '$(REPORT_PYTHON)' -o $@ && chmod 755 $@
# Only bin/claims can leave out the checksums of values, to measure their cost.
$(BIN)/claims: LDFLAGS += -Wl,--wrap=_ZN11engine_race9HashValueEPKv

define test_program_rule
$(BUILD)/tests/$(1): $(call room_objects,$(2))
endef
$(foreach room,$(test_rooms),$(eval $(call test_program_rule,$(room),$(room))))
$(BUILD)/tests/core: $(call tests_objects,$(core_test_rooms),$(core_tests))
$(BUILD)/tests/rest: $(call tests_objects,$(rest_test_rooms),$(rest_tests))
$(eval $(call test_program_rule,harness,$(filter-out $(engine_test_rooms),$(test_rooms))))
$(addprefix $(BUILD)/tests/,$(test_rooms) core rest harness): $(library_objects) $(BUILD)/sources.txt
	@mkdir -p $(@D)
	@echo "$(call step,link $@)"
	$(quiet)$(CXX) $(LDFLAGS) $(WRAPPED_CALLS:%=-Wl,--wrap=%) $(linked_objects) $(THIRD_PARTY_ARCHIVES) \
	  -lgtest -lgtest_main $(LDLIBS) -o $@
$(BUILD)/tests/experiments $(BUILD)/tests/harness: LDLIBS += $(link_lab)
$(BUILD)/tests/opponents $(BUILD)/tests/compare $(BUILD)/tests/harness: LDLIBS += $(link_peers)
$(BUILD)/tests/claims: LDLIBS += $(link_claims)

$(BUILD)/open_fuzz: $(call objects,$(fuzz_sources) $(fuzz_helpers)) $(library_objects)
	@echo "$(call step,link $@)"
	$(quiet)$(CXX) $(CXXFLAGS) -fsanitize=fuzzer $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) $(LDLIBS) -o $@

# Programs in C over the sanitized library. scripts/test_judges.sh runs them, and links those of the
# release with the archive.
$(c_judges): $(BUILD)/judges/%: test/judges/%.c test/judges/c_judge.h include/engine_race_c.h $(library_objects) $(BUILD)/sources.txt
	@mkdir -p $(@D)
	@echo "$(call step,link $@)"
	$(quiet)$(CXX) $(LDFLAGS) -g1 -Iinclude -x c -std=c99 -D_DEFAULT_SOURCE $< -x none $(linked_objects) \
	  $(THIRD_PARTY_ARCHIVES) $(LDLIBS) -o $@

# The only program of the guests. It is linked statically, because they have no libraries.
guest_parts := data/value_maker lab/passthrough lab/read_queue_passthrough
guest: $(GUEST_INIT)
$(GUEST_INIT): $(call objects,$(guest_sources) $(call sources_of,$(guest_parts))) $(library_objects) $(BUILD)/sources.txt
	@mkdir -p $(@D)
	@echo "$(call step,link $@)"
	$(quiet)$(CXX) -static -s $(LDFLAGS) $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) $(LDLIBS) -o $@

# Links everything into one object and resolves groups of inline functions. The archive's rule then
# makes all symbols local that are not public.
$(BUILD)/engine_whole.o: $(library_objects) $(BUILD)/sources.txt $(THIRD_PARTY_ARCHIVES)
	@echo "$(call step,link $@)"
	$(quiet)$(LD) -r --force-group-allocation $(filter %.o,$^) $(THIRD_PARTY_ARCHIVES) -o $@

$(DEBUG_LIBRARY): $(BUILD)/engine_whole.o engine_race/public_symbols.txt
	@mkdir -p $(@D)
	@echo "$(call step,archive $@)"
	$(quiet)objcopy --wildcard --keep-global-symbols=engine_race/public_symbols.txt $< $(BUILD)/libengine.o
	$(quiet)rm -f $@
	$(quiet)$(AR) crsD $@ $(BUILD)/libengine.o

# A release has the names of functions and no other debug information, so that programs that embed
# the library stay small. Sanitizers report line numbers, so the other flavours keep them.
$(LIBRARY): $(DEBUG_LIBRARY)
	@mkdir -p $(@D)
	@echo "$(call step,archive $@)"
	$(quiet)$(if $(filter release,$(FLAVOUR)),objcopy -D --strip-debug --remove-section=.comment,cp) $< $@

include scripts/package/package.mk

# The networked service, in Go. Go decides itself what is to be compiled again.
cluster_programs := $(addprefix bin/,$(filter-out cluster-bench,$(notdir $(wildcard cluster/cmd/*))))
$(cluster_programs) bin/cluster-bench: bin/%: lib/libengine.a FORCE
	@mkdir -p $(@D)
	@echo "$(call step,go build $@)"
	$(quiet). scripts/go_env.sh && use_go && cd cluster && go build -trimpath -o ../$@ ./cmd/$*
# A module of its own, without the engine.
bin/cluster-bench-etcd: FORCE
	@mkdir -p $(@D)
	@echo "$(call step,go build $@)"
	$(quiet). scripts/go_env.sh && use_go && cd cluster/bench/etcd && go build -trimpath -o ../../../$@ .

# Tests, by flavour. Tests that run programs find them through ENGINE_BIN_DIR.

.PHONY: build-core build-rest build-all build-checked build-asan build-tsan build-judges-asan build-rest-tsan \
        build-fuzz build-cluster
build-core:
	$(MAKE) --no-print-directory FLAVOUR=checked quick-tests
	$(MAKE) --no-print-directory FLAVOUR=asan build/asan/tests/core
build_unsanitized := build-checked build-cluster library shared $(BIN)/multi_read numa-guests-built \
                     $(filter-out $(left_out),$(installed_programs) $(BIN)/compare) $(report_program)
build-rest: build-judges-asan build-rest-tsan $(build_unsanitized)
# build-all does not call build-rest: two makes of one flavour at once would write the same files.
build-all: build-asan build-tsan build-fuzz $(build_unsanitized)
build-checked build-asan build-tsan: build-%:
	$(MAKE) --no-print-directory FLAVOUR=$* tests
build-judges-asan:
	$(MAKE) --no-print-directory FLAVOUR=asan sanitized-judges
build-rest-tsan:
	$(MAKE) --no-print-directory FLAVOUR=tsan rest-tests
# Without clang and its fuzzer runtime nothing is built, and scripts/run_tests.sh reports the skip.
build-fuzz:
	@rm -f build/fuzz/open_fuzz
	$(if $(wildcard $(shell $(CLANGXX) -print-file-name=libclang_rt.fuzzer-x86_64.a 2> /dev/null) \
	    $(shell $(CLANGXX) -print-resource-dir 2> /dev/null)/lib/linux/libclang_rt.fuzzer-*.a),\
	  $(MAKE) --no-print-directory FLAVOUR=fuzz build/fuzz/open_fuzz)
# Compiles the packages' tests too, so that they do not run beside the compiler. Without Go nothing is
# built, and scripts/run_tests.sh reports the skip.
build-cluster: library
	$(if $(shell . scripts/go_env.sh && find_go),$(MAKE) --no-print-directory cluster-built)
.PHONY: cluster-built
cluster-built: $(cluster_programs)
	@echo 'go test: compile'
	$(quiet). scripts/go_env.sh && use_go && cd cluster && go test -race -run '^$$' ./... > /dev/null

# One room: `make test-log TEST=Recovery FLAVOUR=asan`. Without TEST the room numa has its guests too.
.PHONY: $(test_rooms:%=test-%)
ifeq ($(FLAVOUR),release)
$(test_rooms:%=test-%):
	+$(submake) FLAVOUR=checked $@ TEST='$(TEST)'
	$(if $(guests_of_$@),scripts/setup.sh guest || echo '$@: going on without guests')
	+$(if $(guests_of_$@),$(submake) $(guests_of_$@)-built)
	$(if $(guests_of_$@),scripts/run_tests.sh numa)
guests_of_test-numa = $(if $(TEST),,numa-guests)
else
$(test_rooms:%=test-%): test-%: $(BUILD)/tests/%
	@$< --gtest_list_tests --gtest_filter='*$(TEST)*' | grep -q . || { echo 'no test of $* has a name with $(TEST)' >&2; exit 1; }
	ENGINE_BIN_DIR=$(CURDIR)/$(BIN) $< --gtest_filter='*$(TEST)*'
$(foreach room,$(test_rooms),$(eval test-$(room): $(call room_programs,$(room))))
endif

# Checks.

.PHONY: check-format check-headers check-layers check-house check-prose check-scripts check-mutants check-lint \
        check-go check-bench check-checked
# $(call recent,FILES) keeps the files that differ from HEAD~CHECK_COMMITS, those that include a header
# that differs, and the source beside each of these. It keeps all without CHECK_COMMITS or such a commit,
# or if the lint's settings differ.
recent = $(1)
ifdef CHECK_COMMITS
recent_files := $(shell git diff --name-only --relative HEAD~$(CHECK_COMMITS) -- && \
                        git ls-files --others --exclude-standard)
ifneq ($(.SHELLSTATUS),0)
$(warning there is no HEAD~$(CHECK_COMMITS): every source is linted, every header compiled)
else ifeq ($(filter .clang-tidy scripts/lint.sh,$(recent_files)),)
recent_headers := $(filter %.h,$(recent_files))
recent_files += $(if $(recent_headers),$(shell grep -rlF --include='*.h' --include='*.cc' \
                  $(patsubst %,-e '"%"',$(recent_headers)) engine_race harness include test))
recent = $(filter $(recent_files:.h=.cc) $(recent_files),$(1))
endif
endif
check-format:
	$(quiet)scripts/check_format.sh $(CLANG_FORMAT) $(sources) $(judge_sources) $(fuzz_sources) $(guest_sources) $(headers)

check-layers:
	scripts/check_layers.sh

check-house:
	scripts/check_house.sh

check-prose:
	test/scripts/prose_test.py
	scripts/check_prose.py
	scripts/check_docs.py
	scripts/chart_figures.py --check

check-scripts:
	test/scripts/random_mutants_test.py
	test/scripts/bench_compare_test.py
	test/scripts/numa_guest_test.py
	test/scripts/powercut_guest_test.py
	test/scripts/report_test.py

check-mutants:
	scripts/mutants.py --check
	scripts/cluster_mutants.py --check

check-headers: $(patsubst %,$(BUILD)/%.ok,$(call recent,$(headers))) $(public_headers:%=$(BUILD)/public/%.ok)
$(BUILD)/%.h.ok: %.h $(BUILD)/flags.txt
	@mkdir -p $(@D)
	@$(CXX) $(CXXFLAGS) $(if $(filter test/judges/c_%,$<),-Iinclude) -Werror -fsyntax-only -MMD -MP -MF $(@:.ok=.d) -MT $@ -x c++ $<
	@touch $@
# As programs compile them, which judges do as C++11.
cxx11_headers := $(contest_headers) $(c_header) engine_race/engine_race.h
$(BUILD)/public/%.h.ok: %.h scripts/package/package.mk
	@mkdir -p $(@D)
	@$(CXX) -std=$(if $(filter $(cxx11_headers),$<),c++11,c++20) -pedantic -Wall -Wextra -Werror -fno-exceptions -fno-rtti \
	  -I. -fsyntax-only -MMD -MP -MF $(@:.ok=.d) -MT $@ -x c++ $<
	@inner=$$(tr -s ' \\' '\n' < $(@:.ok=.d) | grep '\.h$$' | grep -vxF $(public_headers:%=-e %)); \
	  [ -z "$$inner" ] || { echo "$<: programs cannot include" $$inner >&2; exit 1; }
	@touch $@

all_lint_sources := $(library_sources) $(main_sources) $(guest_sources) \
                    $(filter-out $(unbuilt_sources),$(harness_sources))
lint_sources := $(call recent,$(all_lint_sources))
# A lint depends on its object, not on headers: a changed header makes the object newer than the lint.
check-lint: $(lint_sources:%.cc=$(BUILD)/%.lint)
	@echo 'lint: $(words $(lint_sources)) of $(words $(all_lint_sources)) sources'
$(BUILD)/%.lint: %.cc $(BUILD)/%.o .clang-tidy
	@echo lint $<
	@scripts/lint.sh $(CLANG_TIDY) $(CLANGXX) $< -std=c++20 -I. -march=x86-64-v2 $(call own_flags,$<)
	@touch $@

check-go: lib/libengine.a
	scripts/check_go.sh

check-bench: $(BENCHES) $(BIN)/bench $(BIN)/compare $(BIN)/profile $(BIN)/race $(BIN)/numa $(BIN)/race_static
	scripts/check_bench.sh $(BENCHES) $(BIN)/bench $(BIN)/compare $(BIN)/profile

# Compiles the tests and runs the benches, both with assertions. One make does both: two makes of one
# flavour at once would write the same files.
check-checked:
	$(MAKE) --no-print-directory FLAVOUR=checked tests check-bench

-include $(shell find $(BUILD) -name '*.d' 2> /dev/null)
