# The programs in bin/: what each is linked from, and what it needs. Included by the Makefile.

# The parts of each program besides its main and the library: rooms of harness/, or single files of a
# room without their suffix. All have parts_of_all.
PROGRAMS := $(main_sources:harness/apps/%_main.cc=$(BIN)/%)
# Sanitizers do not see into the opponents' libraries, which would cause false reports, so sanitized
# programs have none of them.
rocks_library := $(if $(filter asan tsan,$(FLAVOUR)),,$(call has_header,rocksdb/db.h))
# The peers of bin/compare, each in harness/opponents/PEER_kv.cc. A peer whose library is missing is not
# linked; harness/opponents/peers.h says how the programs notice.
peers := $(if $(filter asan tsan,$(FLAVOUR)),,rocksdb leveldb lmdb wiredtiger)
peer_header_rocksdb := rocksdb/db.h
peer_header_leveldb := leveldb/db.h
peer_header_lmdb := lmdb.h
peer_header_wiredtiger := wiredtiger.h
peers_here := $(foreach peer,$(peers),$(if $(call has_header,$(peer_header_$(peer))),$(peer)))
peers_missing := $(filter-out $(peers_here),$(peers))
peer_sources = $(1:%=%_kv) $(if $(filter rocksdb,$(1)),rocks_database)
peer_parts := kv load/bare_loops $(addprefix opponents/,peers $(call peer_sources,$(peers_here)))
link_peers := $(peers_here:%=-l%)
# Sources that cannot be compiled here.
unbuilt_sources := $(if $(rocks_library),,$(wildcard harness/opponents/rocks*.cc)) \
                   $(foreach peer,$(peers_missing),harness/opponents/$(peer)_kv.cc)
headers := $(filter-out $(if $(rocks_library),,harness/opponents/rocks_database.h),$(headers))
# What bin/race and bin/numa race share of the loads.
race_flags := load/store_basics
parts_of_all := system/command_line
parts_race := system measure/progress measure/table measure/timed data $(race_flags) race
parts_store := measure/progress measure/table system/child_process tools
parts_lab := system measure data load lab experiments/io experiments/l1
parts_crash := measure/table crash
parts_numa := system measure/table data $(race_flags) numa
# The benchmarks over any store, and this engine as one.
bench_parts := system $(addprefix measure/,progress table timed) data \
               load/store_basics kv bench
parts_bench := $(bench_parts)
parts_compare := $(bench_parts) measure $(peer_parts) compare
parts_bench_micro := data
# Of the peers, only RocksDB.
rocks_kv := kv $(addprefix opponents/,peers $(call peer_sources,$(filter rocksdb,$(peers_here))))
visit_claims := $(addprefix claims/,scan_ranges visit_cost)
# All benches. The engine's index lies beside flat arrays.
parts_claims := system measure data load lab race $(rocks_kv) bench \
                experiments/io/raw $(addprefix experiments/l1/,engine index_race shards tables) \
                $(if $(rocks_library),opponents/rocks) claims
# The only program of the guests; see its rule.
guest_parts := data/value_maker lab/passthrough
parts_profile := system measure data load race $(visit_claims)
# Sources that only read flags and write reports. The optimiser would take half of the time of their
# compilation, and they contain no measured code.
unmeasured_sources := $(filter-out $(patsubst %,harness/apps/%_main.cc,bench_micro claims profile),$(main_sources)) \
                      $(addprefix harness/,bench/report.cc bench/session.cc system/command_line.cc system/fio_runner.cc \
                                           measure/table.cc \
                                           measure/report.cc measure/claim_rounds.cc)
sources_of_part = $(or $(wildcard harness/$(1).cc),$(sort $(wildcard harness/$(1)/*.cc)), \
                       $(error harness/ has no $(1)))
sources_of = $(foreach part,$(1),$(call sources_of_part,$(part)))
link_compare := $(link_peers)
link_lab := -lboost_context
# Line editing in the shell of bin/store, where it is there to build with.
link_store := $(if $(call has_header,editline/readline.h),-ledit)
link_bench_micro := -lbenchmark
link_claims := $(if $(rocks_library),-lrocksdb)

# Headers that programs need besides the library's: those of all programs, then those of single ones.
# When a header is missing, make leaves its programs out and says so.
program_headers := CLI/CLI.hpp nlohmann/json.hpp
lab_headers := boost/context/fiber.hpp
bench_micro_headers := benchmark/benchmark.h
missing_for = $(call missing_headers,$(program_headers) $($(notdir $(1))_headers))
left_out := $(strip $(foreach program,$(PROGRAMS),$(if $(call missing_for,$(program)),$(program))))
