# Runs of the tests, and what they build. Included by the Makefile; test/rooms.mk has the programs.

.PHONY: test test-all test-rest prepare-test-rest nightly test-report asan tsan fuzz mutants

# What CI runs for a change, in the words of scripts/scope.sh; without SCOPE everything. The sources of
# all programs compile in any scope; needed_programs are linked.
in_scope = $(if $(or $(filter undefined,$(origin SCOPE)),$(filter $(1),$(SCOPE))),$(2))
# The test programs, as arguments of scripts/run_tests.sh, the longest runs first. `cluster` and `benches`
# come before all of `make test-rest`, because they wait beside it. The room base runs in every scope. By the
# commit's hash CI gives one of the sanitized programs, or half of tsan-rest, an eighth of paged, and one part
# of the bindings: each takes long to compile or to run.
in_two = $(1):1/2 $(1):2/2
# The parts $(2):1/N$(4) to $(2):N/N$(4) of a run, which $(3) lists, each if its word $(1):I/N is in scope.
parts_in_scope = $(foreach part,$(3),$(call in_scope,$(1):$(part),$(2):$(part)$(4)))
# $(2)PROGRAM of each sanitized program whose word FLAVOUR-PROGRAM is in scope.
sanitized_in_scope = $(foreach program,$(quick_sanitized_programs),$(call in_scope,$(1)-$(program),$(2)$(program)))
bindings_1 := python
bindings_2 := rust java
bindings_3 := package judges
bindings_in_scope = $(foreach part,1 2 3,$(call in_scope,bindings bindings:$(part),$(bindings_$(part))))
core_runs := $(call in_scope,engine,$(call in_two,checked/e2e) \
               $(patsubst %,checked/%,$(filter-out e2e base,$(quick_test_rooms)))) checked/base
rest_runs := $(call in_scope,service,cluster) $(call in_scope,bench,benches) \
             $(call in_scope,engine,$(call parts_in_scope,paged,checked/e2e,$(foreach i,1 2 3 4 5 6 7 8,$i/8),+paged) \
               $(call parts_in_scope,tsan-rest,tsan/rest,1/2 2/2) $(call sanitized_in_scope,asan,asan/) \
               $(call sanitized_in_scope,tsan,tsan/) checked/faults) $(call in_scope,numa,numa) \
             $(call in_scope,engine,checked/power) $(bindings_in_scope) \
             $(foreach part,bare report,$(call in_scope,$(part),$(part))) \
             $(call in_scope,engine,powercut) $(call in_scope,nvme,nvme) \
             $(call in_scope,harness,$(patsubst %,checked/%,$(filter-out faults power,$(long_test_rooms))))
long_runs := fuzz $(call in_two,asan/rest) $(patsubst %,checked/%+paged,$(long_sanitized_rooms)) \
             $(foreach flavour,asan tsan,$(addprefix $(flavour)/,$(long_sanitized_rooms) harness))

test:  ## installs, builds and runs the engine's tests: assertions, kill trials
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
	$(if $(strip $(rest_runs)),scripts/run_tests.sh $(rest_runs),@echo '0 passed, 0 failed')

prepare-test-rest:  ## installs and builds what `make test-rest` runs
	$(call set_up_rest,$@)
	+$(submake) -k build-rest

define set_up_rest
scripts/setup.sh test
scripts/setup.sh guest || echo '$(1): going on without guests'
scripts/setup.sh package || echo '$(1): going on without packages'
scripts/setup.sh python || echo '$(1): going on without Python'
scripts/setup.sh java || echo '$(1): going on without Java'
scripts/setup.sh browser || echo '$(1): going on without a browser'
scripts/setup.sh rust || echo '$(1): going on without Rust'
scripts/setup.sh test-cluster || echo '$(1): going on without the networked service'
endef

nightly:  ## everything in full: checks, sweeps, sanitizers, mutants, fuzzing, guests, an hour of soak; half a day
	scripts/nightly.sh

test-report:  ## installs Chromium and looks at the pages and charts of bin/report in it
	scripts/setup.sh browser
	+$(submake) $(BIN)/report
	test/scripts/report_test.py
	scripts/run_tests.sh report

asan tsan:  ## the tests under one sanitizer
	scripts/setup.sh test
	+$(submake) build-$@
	scripts/run_tests.sh $(sanitized_programs:%=$@/%)

fuzz:  ## libFuzzer on damaged stores; FUZZ_SECONDS=60
	scripts/setup.sh fuzz
	+$(submake) build-fuzz
	scripts/run_tests.sh fuzz

mutants: build-checked  ## re-introduces known faults, one by one: a test must fail for each
	scripts/mutants.py $(MUTANTS_ARGS)

# Tests, by flavour. Tests that run programs find them through ENGINE_BIN_DIR.

.PHONY: build-core build-rest build-all build-checked build-asan build-tsan build-rest-asan build-rest-tsan \
        build-fuzz build-cluster
build-core:
	$(MAKE) --no-print-directory FLAVOUR=checked quick-tests
# Of the programs those that a run in scope needs: build-checked compiles all of their sources, too.
needed_programs := $(call in_scope,numa,numa-guests-built) $(call in_scope,report bindings bindings:3,$(report_program)) \
  $(filter-out $(left_out),$(call in_scope,bindings bindings:1,$(BIN)/bench) \
    $(call in_scope,bindings bindings:3,$(installed_programs) $(BIN)/compare))
build_unsanitized := build-checked build-cluster library shared guest $(needed_programs)
build-rest: build-rest-asan build-rest-tsan $(build_unsanitized)
# build-all does not call build-rest: two makes of one flavour at once would write the same files.
build-all: build-asan build-tsan build-fuzz $(build_unsanitized)
build-checked build-asan build-tsan: build-%:
	$(MAKE) --no-print-directory FLAVOUR=$* tests
asan_in_scope = $(strip $(call sanitized_in_scope,asan,build/asan/tests/))
tsan_in_scope = $(strip $(call sanitized_in_scope,tsan,build/tsan/tests/) \
                  $(call in_scope,$(call in_two,tsan-rest),build/tsan/tests/rest \
                    $(if $(ENGINE_TEST_FULL),$(test_programs_e2e:%=build/tsan/bin/%))))
build-rest-asan build-rest-tsan: build-rest-%:
	$(if $($*_in_scope),$(MAKE) --no-print-directory FLAVOUR=$* sanitized-judges $($*_in_scope))
# Without clang and its fuzzer runtime nothing is built, and scripts/run_tests.sh reports the skip.
build-fuzz:
	@rm -f build/fuzz/open_fuzz
	$(if $(wildcard $(shell $(CLANGXX) -print-file-name=libclang_rt.fuzzer-x86_64.a 2> /dev/null) \
	    $(shell $(CLANGXX) -print-resource-dir 2> /dev/null)/lib/linux/libclang_rt.fuzzer-*.a),\
	  $(MAKE) --no-print-directory FLAVOUR=fuzz build/fuzz/open_fuzz)
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
