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
# Tests spend most of their time in the library. -Og compiles them in two thirds of the time of -O1,
# under ASan in half of it. UBSan in tests as well would double the time to compile.
test_flags := -Og $(if $(filter asan,$(FLAVOUR)),-fno-sanitize=undefined)
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
# Text that is made seldom, and stores that are made and opened once: their code is to be small.
cold_sources := $(if $(filter release,$(FLAVOUR)),engine_race/stats_text.cc engine_race/stats_file.cc \
                  $(patsubst %,engine_race/log/%.cc,manifest planned_files store_creation store_files value_paths))
# The flags of one source besides CXXFLAGS.
own_flags = $(if $(filter %_avx2.cc,$(1)),$(avx2_flags))$(if $(filter %_avx512.cc,$(1)),$(avx512_flags)) \
            $(if $(filter test/%,$(1)),$(test_flags)) \
            $(if $(filter release,$(FLAVOUR)),$(if $(filter $(unmeasured_sources),$(1)),-O1),$(if $(filter harness/%,$(1)),-O1)) \
            $(if $(filter $(cold_sources),$(1)),-Os) \
            $(if $(filter harness/bench/git_hash.cc,$(1)),-DENGINE_RACE_GIT_HASH=$(git_hash_text))

# Directories in which a library's headers are sought, to decide what can be built here.
INCLUDE_DIRS := /usr/include /usr/local/include
has_header = $(wildcard $(INCLUDE_DIRS:%=%/$(1)))
missing_headers = $(strip $(foreach header,$(1),$(if $(call has_header,$(header)),,$(header))))
library_missing := $(call missing_headers,xxhash.h liburing.h)

# Kernels for newer CPUs come last: when several objects have the same inline function, the linker
# keeps the first copy. That copy must run on every CPU. And before them comes what is to be small.
cold_objects := $(cold_sources:%.cc=$(BUILD)/%.o)
kernels_last = $(filter-out %_avx2.o %_avx512.o $(cold_objects),$(1)) $(filter $(cold_objects),$(1)) \
               $(filter %_avx2.o,$(1)) $(filter %_avx512.o,$(1))
library_sources := $(sort $(wildcard engine_race/*.cc engine_race/*/*.cc))
main_sources := $(sort $(wildcard harness/apps/*_main.cc))
guest_sources := $(sort $(wildcard harness/guest/*.cc))
harness_sources := $(sort $(filter-out $(main_sources) $(guest_sources), \
                                       $(shell find harness -name '*.cc')))
fuzz_sources := $(sort $(wildcard test/fuzz/*.cc))
judge_sources := $(sort $(wildcard test/judges/*.cc))
test_sources := $(sort $(filter-out $(fuzz_sources) $(judge_sources),$(shell find test -name '*.cc')))
# ThreadSanitizer finds nothing in a test that starts no thread. The stores of some tests start their own.
# ENGINE_TEST_FULL=1 keeps all, as `make nightly` does.
starting_threads := test/harness/% test/task/% $(addprefix test/e2e/,async% checkpoint% hot% model% reclaim% snapshot%)
ifeq ($(FLAVOUR)$(ENGINE_TEST_FULL),tsan)
test_sources := $(filter-out $(shell grep -LiE thread $(filter-out $(starting_threads), \
                  $(filter %_test.cc,$(test_sources)))),$(test_sources))
endif
headers := $(sort $(shell find include engine_race harness test -name '*.h'))
sources := $(library_sources) $(harness_sources) $(main_sources) $(test_sources)

include harness/programs.mk
include test/rooms.mk

# All flavours but release compile up to 29 sources of a folder as one unity file, because headers and
# templates take most of a compilation. A unity file has sources that the same programs link. Alone
# remain sources with flags of their own, the opponents, which repeat each other's names, and all
# sources with UNITY=0. UNITY=1 makes unity files of the release, too. That compiles faster but inlines
# differently, so what is shipped or measured is built without it.
$(foreach user,$(filter parts_% test_parts_% guest_parts,$(.VARIABLES)),$(foreach source,$(call sources_of,$($(user))),\
  $(eval users_of_$(source) := $(users_of_$(source))$(subst parts_,,$(user)),)))
compiled_alone := $(cold_sources) harness/bench/git_hash.cc harness/opponents/% harness/tools/% %_avx2.cc %_avx512.cc \
                  $(unbuilt_sources) $(test_helpers) $(if $(filter fuzz,$(FLAVOUR)),$(fuzz_helpers))
UNITY ?= $(if $(filter release,$(FLAVOUR)),0,1)
unity_sources := $(filter-out $(compiled_alone),$(library_sources) \
                   $(if $(filter release,$(FLAVOUR)),,$(filter-out test/e2e/%,$(test_sources)))) \
                 $(sort $(foreach source,$(filter-out $(compiled_alone),$(harness_sources)),$(users_of_$(source)):$(source))) \
                 $(foreach class,$(if $(filter release,$(FLAVOUR)),,$(e2e_classes)),$(addprefix $(class):,$(filter-out $(compiled_alone),$(e2e_$(class)))))
dry_run := $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
group_sources = printf '%s\n' $(unity_sources) | awk -v out=$(BUILD)/unity -v dry=$(1) -f scripts/unity.awk
ifneq ($(UNITY),0)
unity_pairs := $(shell $(call group_sources,$(dry_run)))
$(foreach pair,$(unity_pairs),$(eval unity_of_$(subst =, := unity/,$(pair))))
endif
objects = $(sort $(foreach source,$(1),$(BUILD)/$(patsubst %.cc,%.o,$(or $(unity_of_$(source)),$(source)))))
library_objects := $(call kernels_last,$(call objects,$(library_sources)))

GUEST_INIT := build/guest/init
report_program := $(if $(shell command -v python3),$(BIN)/report)
claims_benches := $(addprefix bench-,race batches safety io scan l1 index numa space sizes)
quiet := $(if $(V),,@)
define newline


endef

# Targets that first install packages call make again: the new make sees the installed packages. It
# uses every CPU unless -j says otherwise.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
submake = $(MAKE) --no-print-directory $(jobs)

.PHONY: all library programs tests sanitized-judges quick-tests guest race bench \
        $(claims_benches) bench-compare bench-users flame soak crash powercut nvme-guest numa-guests format clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: library programs  ## the library and the programs
library: $(LIBRARY)    ## lib/libengine.a; with debug information in lib/debug/
programs: $(filter-out $(left_out),$(PROGRAMS)) $(report_program)  ## the programs in bin/, as far as their libraries are here
	$(foreach program,$(left_out),@echo 'left out $(program): there is no $(call missing_for,$(program))'$(newline))
	$(if $(report_program),,@echo 'left out $(BIN)/report: there is no python3')
	$(if $(left_out),@echo 'scripts/setup.sh test installs all that programs need')
tests: $(test_programs)
sanitized-judges: $(c_judges)
quick-tests: $(addprefix $(BUILD)/tests/,$(quick_test_rooms)) $(call room_programs,$(quick_test_rooms))

race:  ## installs, builds and runs the three-phase race; RACE_ARGS='--dir D --num N'
	scripts/setup.sh race
	+$(submake) $(BIN)/race
	$(BIN)/race --table out/race.txt --json out/race.json $(RACE_ARGS)

bench: $(BIN)/bench_micro  ## the micro-benchmarks
	$(BIN)/bench_micro

bench-race:     ## the measured claims about the race; about ten minutes
bench-batches:  ## what batches gain over single writes
bench-safety:   ## what safety costs, and the mutants
bench-io:       ## reads in flight, back ends, striping; ten minutes
bench-scan:     ## iterators, snapshots and ranges, beside RocksDB; eighteen minutes
bench-l1:       ## lookups in memory step by step, beside RocksDB; ten minutes
bench-index:    ## the index on disk and in memory, beside RocksDB; forty minutes
bench-numa:     ## where text and memory of instances lie, and what one costs
bench-space:    ## overwritten stores, reclaim, small stores, RocksDB; an hour, 41 GB of disk
bench-sizes:    ## values of 128 bytes to 1 MiB, beside fio and RocksDB; an hour
# What a bench needs besides, and what finds figures that it takes over: it reads failures from the JSON
# of these programs, so a failure there must not end the recipe.
needs_scan := rocksdb
needs_l1 := rocksdb
needs_index := rocksdb
needs_space := rocksdb
needs_sizes := rocksdb
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
	+$(submake) $(BIN)/compare $(BIN)/claims $(BIN)/bench $(SHARED)
	scripts/bench_compare.py --dir $(or $(BENCH_COMPARE_DIR),out/compare-store) --compare-args='$(BENCH_COMPARE_ARGS)' \
	  --c-api-args='$(C_API_ARGS)' --read-many-args='$(READ_MANY_ARGS)' --embeddings-args='$(EMBEDDINGS_ARGS)' $(if $(TINY),--tiny)

bench-users:    ## many processes that read one store, loads from files; ten minutes
	scripts/setup.sh python
	+$(submake) $(SHARED)
	scripts/bench_compare.py --only users --dir $(or $(BENCH_USERS_DIR),out/users-store) \
	  --users-args='$(BENCH_USERS_ARGS)' $(if $(TINY),--tiny)

flame: $(BIN)/profile  ## a flame graph, out/flame-PHASE.svg; PHASE=seek, `bin/profile -h` lists them
	scripts/setup.sh flame
	scripts/flame record $(or $(PHASE),seek) $(FLAME_ARGS)

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
	$(CLANG_FORMAT) -i $(sources) $(judge_sources) $(fuzz_sources) $(guest_sources) $(headers) $(jni_files)
	. scripts/go_env.sh && if use_go; then gofmt -w cluster; fi

clean:  ## removes what was built
	rm -rf build bin lib

help:  ## this list
	@awk -F ':.*##' '/^[a-z0-9-]+[a-z0-9 -]*:.*##/ {printf "%-12s %s\n", $$1, $$2}' $(filter %Makefile %.mk,$(MAKEFILE_LIST))
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
pch_header = $(if $(filter fuzz,$(FLAVOUR))$(filter %_avx2.cc %_avx512.cc $(cold_sources),$(1)),,$(if $(filter test/%,$(1)),test,engine_race/base)/pch.h)
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

define compile
	@mkdir -p $(@D)
	@echo "$(call step,compile $< ($(FLAVOUR)))"
	$(quiet)$(CXX) $(CXXFLAGS) $(call own_flags,$(1)) $(call pch_flags,$(1)) $(strict_flags) -MMD -MP -c $< -o $@
endef
$(BUILD)/%.o: %.cc $(BUILD)/flags.txt | $(if $(library_missing),library-missing)
	$(call compile,$<)
$(BUILD)/unity/%.o: $(BUILD)/unity/%.cc $(BUILD)/flags.txt | $(if $(library_missing),library-missing)
	$(call compile,$*.cc)
# For goals behind `clean`, and dry runs, which write nothing.
$(sort $(foreach pair,$(unity_pairs),$(BUILD)/unity/$(lastword $(subst =, ,$(pair))))):
	@$(group_sources) > /dev/null

.PHONY: library-missing
library-missing:
	@echo 'the library cannot be built without $(library_missing): scripts/setup.sh race installs it' >&2; exit 1

# These files are written only when their text changes. So other flags or another compiler make every
# source compile again, and an added or removed source makes programs link again. They are written
# before any rule runs, so that a dry run of the same make sees them too; a dry run writes nothing.
compiler_id := $(shell stat -Lc '%s %Y' "$$($(CXX) -print-prog-name=cc1plus)" 2> /dev/null)
flags_text := $(CXX) $(compiler_id) $(CXXFLAGS) $(avx2_flags) $(avx512_flags) $(test_flags) \
              $(no_optimiser_warnings) $(unmeasured_sources) $(cold_sources)
sources_text := $(UNITY) $(sources) $(THIRD_PARTY_ARCHIVES) $(link_store)
# One source alone has the hash: a commit recompiles that source, not the others.
git_hash_text := $(or $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null),unknown)
$(call objects,harness/bench/git_hash.cc): $(BUILD)/git_hash.txt
report_sources := $(sort $(wildcard scripts/report/*.py))
REPORT_PYTHON ?= /usr/bin/env python3
report_text = $(REPORT_PYTHON) $(report_sources)
write_if_changed = $(shell mkdir -p $(BUILD); printf '%s\n' '$($(1)_text)' | cmp -s - $(BUILD)/$(1).txt \
                           || printf '%s\n' '$($(1)_text)' > $(BUILD)/$(1).txt)
ifeq ($(dry_run),)
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
$(BIN)/claims: LDFLAGS += -Wl,--wrap=_ZN11engine_race9HashValueEPKvm

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
$(BUILD)/tests/tools $(BUILD)/tests/harness: LDLIBS += $(link_store)

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
include bindings/java/java.mk

include test/runs.mk
include cluster/cluster.mk
include scripts/checks.mk

-include $(shell find $(BUILD) -name '*.d' 2> /dev/null)
