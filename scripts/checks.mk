# What every change must pass besides the tests. Included by the Makefile.

.PHONY: check

# CHECK_SINCE=COMMIT limits check-lint and check-headers to files that changed since, see `recent` below.
# All files take half an hour on a machine that has checked none of them.
check:  ## format, lint, headers, layers, house rules, prose, scripts and Go
	scripts/setup.sh check
	+$(submake) -k WERROR=1 check-checked \
	  check-format check-headers check-layers check-house check-prose check-scripts check-mutants \
	  $(call in_scope,go,check-go)

.PHONY: check-format check-headers check-layers check-house check-prose check-scripts check-mutants check-lint \
        check-go check-checked
# $(call recent,FILES) keeps the files that differ from CHECK_SINCE, and the source beside each header that
# does: `make nightly` looks at those that only include one. It keeps all without CHECK_SINCE or such a
# commit, or if the lint's settings differ.
recent = $(1)
ifneq ($(CHECK_SINCE),)
recent_files := $(shell git diff --name-only --relative $(CHECK_SINCE) -- && \
                        git ls-files --others --exclude-standard)
ifneq ($(.SHELLSTATUS),0)
$(warning there is no $(CHECK_SINCE): every source is linted, every header compiled)
else ifeq ($(filter .clang-tidy scripts/lint.sh,$(recent_files)),)
recent = $(filter $(recent_files:.h=.cc) $(recent_files),$(1))
endif
endif
check-format:
	$(quiet)scripts/check_format.sh $(CLANG_FORMAT) $(sources) $(judge_sources) $(fuzz_sources) $(guest_sources) $(headers) $(jni_files)

check-layers:
	scripts/check_layers.sh

check-house:
	scripts/check_house.sh

check-prose:
	test/scripts/prose_test.py
	scripts/check_prose.py
	scripts/check_docs.py
	python/api_page.py --check
	scripts/chart_figures.py --check

check-scripts:
	test/scripts/scope_test.py
	test/scripts/unity_test.py
	test/scripts/random_mutants_test.py
	test/scripts/bench_compare_test.py
	test/scripts/numa_guest_test.py
	test/scripts/powercut_guest_test.py
	test/scripts/report_test.py
	test/scripts/pytest_sum_test.py

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
# Sources that share a unity file are linted in one run. scripts/lint.sh knows what it has found clean.
unit_of = $(or $(unity_of_$(1)),$(1))
lint_units := $(sort $(foreach source,$(lint_sources),$(call unit_of,$(source))))
$(foreach source,$(lint_sources),$(eval members_of_$(call unit_of,$(source)) += $(source)))
check-lint: $(lint_units:%=lint-%)
	@echo 'lint: $(words $(lint_sources)) of $(words $(all_lint_sources)) sources in $(words $(lint_units)) runs'
.PHONY: $(lint_units:%=lint-%)
$(lint_units:%=lint-%): lint-%:
	@echo lint $(members_of_$*)
	@scripts/lint.sh $(CLANG_TIDY) $(CLANGXX) $(members_of_$*) -- -std=c++20 -I. -march=x86-64-v2 $(call own_flags,$(firstword $(members_of_$*)))

check-go: lib/libengine.a
	scripts/check_go.sh

# Compiles the tests with assertions, and lints by that flavour's unity files.
# One make does all: two makes of one flavour at once would write the same files.
check-checked:
	$(MAKE) --no-print-directory FLAVOUR=checked tests $(call in_scope,lint,check-lint)
