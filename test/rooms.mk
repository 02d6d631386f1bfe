# The programs of tests: what each is linked from, and what it runs. Included by the Makefile.

# One program of tests a room, $(BUILD)/tests/<room>: `make test-log`. The rooms of the engine and
# of tests that span them lie in test/, those of harness/ in test/harness/. For each: the parts of
# harness/ that it links, and the programs that it runs.
engine_test_rooms := base include numa io log l1 index reclaim hot task scan copies faults power e2e
harness_test_rooms := system measure data load lab opponents race bench crash tools numa claims compare experiments apps
# A name that both have is one room of tests.
test_rooms := $(engine_test_rooms) $(filter-out $(engine_test_rooms),$(harness_test_rooms))
# The rooms that `make test` leaves to `make test-rest`, and those that it runs, the longest first: a long
# run at the end would keep one CPU alone busy.
long_test_rooms := faults power experiments $(filter-out experiments $(engine_test_rooms),$(harness_test_rooms))
quick_test_rooms := e2e scan index log $(filter-out e2e scan index log $(long_test_rooms),$(test_rooms))
test_parts_index := load/fill_keys
test_parts_copies := load/fill_keys
# What mounts a small disk.
$(foreach room,l1 faults e2e,$(eval test_parts_$(room) := system/disk system/child_process))
test_parts_system := system
test_parts_measure := system measure
test_parts_data := data
test_parts_load := system measure data load
test_parts_lab := system measure data load lab
test_parts_opponents := system measure/timed data load/store_basics $(peer_parts)
test_parts_race := system measure data load/store_basics race
test_parts_bench := $(bench_parts)
test_parts_crash := crash
test_parts_tools := system measure tools
test_parts_numa := system measure data $(race_flags) numa
test_parts_claims := $(parts_claims)
test_parts_compare := $(bench_parts) measure $(peer_parts) $(addprefix compare/,process claims)
test_parts_experiments := $(parts_lab)
test_parts_apps := $(parts_numa)
# Under ThreadSanitizer only ENGINE_TEST_FULL=1 has tests that run it.
test_programs_e2e := $(if $(filter tsan,$(FLAVOUR)$(ENGINE_TEST_FULL)),,crash)
test_programs_experiments := lab
test_programs_compare := compare
# Sanitized programs cannot be linked statically.
test_programs_apps := bench compare crash lab numa profile race store $(if $(filter asan tsan,$(FLAVOUR)),,race_static)
# What every one of them links: the calls that tests come between, and memory that is refused.
test_helpers := test/faults/system_calls.cc test/faults/system_call_paths.cc \
                test/faults/system_calls_uring.cc \
                test/faults/fault_plan.cc test/index/refused_memory.cc
room_folders = $(if $(filter $(1),$(engine_test_rooms)),test/$(1)/%) \
               $(if $(filter $(1),$(harness_test_rooms)),test/harness/$(1)/%)
room_tests = $(filter $(call room_folders,$(1)),$(test_sources))
unlinked_tests := $(strip $(filter-out $(foreach room,$(test_rooms),$(call room_tests,$(room))),$(test_sources)))
$(if $(unlinked_tests),$(error no room of test/rooms.mk has $(unlinked_tests)))
# Objects of a test program: the sources $(2), the helpers, and what the rooms $(1) use of harness/.
tests_objects = $(call objects,$(sort $(test_helpers) $(2) $(call sources_of,$(foreach room,$(1),$(test_parts_$(room))))))
room_objects = $(call tests_objects,$(1),$(foreach room,$(1),$(call room_tests,$(room))))
room_programs = $(foreach room,$(1),$(addprefix $(BIN)/,$(test_programs_$(room))))
# Sanitized, most rooms share the programs core and rest, because linking sanitized objects takes long.
# `make test-rest` runs log, index and core under both sanitizers, and rest under TSan, of which CI has a
# part: see test/runs.mk. `make test-all` adds rest under ASan, and faults, power and harness under both.
# Of e2e core has damaged stores, the random model and all helpers.
quick_sanitized_programs := log index core
core_test_rooms := scan copies
core_end_to_end_tests := test/e2e/damage_test.cc test/e2e/model_test.cc
core_tests := $(foreach room,$(core_test_rooms),$(call room_tests,$(room))) $(core_end_to_end_tests) \
              $(filter-out %_test.cc,$(call room_tests,e2e))
long_sanitized_rooms := faults power
rest_test_rooms := $(filter-out $(quick_sanitized_programs) $(core_test_rooms) $(long_sanitized_rooms),$(engine_test_rooms))
rest_tests := $(filter-out $(core_end_to_end_tests),$(foreach room,$(rest_test_rooms),$(call room_tests,$(room))))
# Sources of e2e that no program separates share unity files.
e2e_classes := helpers core rest
e2e_helpers := $(filter-out %_test.cc,$(call room_tests,e2e))
e2e_core := $(core_end_to_end_tests)
e2e_rest := $(filter-out $(e2e_helpers) $(e2e_core),$(call room_tests,e2e))
sanitized_programs := $(quick_sanitized_programs) rest $(long_sanitized_rooms) harness
# The judges in C, under sanitizers as well.
c_judges := $(if $(filter asan tsan,$(FLAVOUR)),$(addprefix $(BUILD)/judges/,c_program c_handles c_sizes))
# scripts/test_benches.sh runs bench_micro and claims besides, with assertions.
test_programs := $(addprefix $(BUILD)/tests/,$(if $(filter asan tsan,$(FLAVOUR)),$(sanitized_programs),$(test_rooms))) \
                 $(call room_programs,$(test_rooms)) $(c_judges) \
                 $(if $(filter checked,$(FLAVOUR)),$(addprefix $(BIN)/,bench_micro claims))
# What the fuzzer shares with the tests.
fuzz_helpers := $(addprefix test/e2e/,damaged_store.cc damaged_store_edits.cc store_image.cc \
                                      store_judge.cc)
# The calls that tests may come between, see test/faults/system_calls.h; of the tests' programs alone.
WRAPPED_CALLS := pread pwrite fsync fdatasync fallocate ftruncate lseek openat renameat unlinkat \
                 mkdirat mmap munmap msync madvise fstat fstatat fstatfs fcntl ioctl close \
                 getrandom syscall \
                 $(addprefix io_uring_,queue_init_params register_buffers register_files \
                                       enable_rings submit_and_wait peek_batch_cqe)
