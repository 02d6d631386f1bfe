# The networked service: its programs, tests and bench. Included by the Makefile.

.PHONY: cluster test-cluster test-clients bench-cluster cluster-demo cluster-mutants build-cluster cluster-built

cluster:  ## installs Go and builds the networked service: bin/engine-raced, bin/cluster-load, bin/cluster-check
	scripts/setup.sh cluster
	+$(submake) $(cluster_programs)

test-cluster:  ## installs Go and tests the networked service: race detector, faults, linearizability
	scripts/setup.sh test-cluster
	+$(submake) $(cluster_programs)
	$(MAKE) --no-print-directory check-go
	scripts/test_cluster.sh

test-clients:  ## installs Go and clients of Redis, and runs these at their defaults against three nodes
	scripts/setup.sh test-cluster
	+$(submake) bin/engine-raced
	. scripts/go_env.sh && use_go && cd cluster && go test -count=1 -v ./check/clients

# CLUSTER_HISTORIES=0 leaves out the check of histories and the failovers.
CLUSTER_HISTORIES ?= 160
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
	  --seconds 1.5 --failover $(CLUSTER_FAILOVERS) \
	  --black-holes $(CLUSTER_BLACK_HOLES) --attacks $(CLUSTER_ATTACKS) --json out/cluster-check.json $(CLUSTER_CHECK_ARGS) || true)
	bin/cluster-bench --json out/bench-cluster.json $(if $(filter-out 0,$(CLUSTER_HISTORIES)),--check-json out/cluster-check.json) \
	  $(BENCH_CLUSTER_ARGS)

cluster-demo:  ## three nodes on loopback, until Ctrl-C
	scripts/setup.sh cluster
	+$(submake) $(cluster_programs)
	scripts/cluster_demo.sh

cluster-mutants: library  ## puts faults back into cluster/, one by one: a check must find each; needs root
	scripts/cluster_mutants.py $(CLUSTER_MUTANTS_ARGS)

# The networked service, in Go. Go decides itself what is to be compiled again.
cluster_programs := $(addprefix bin/,$(filter-out cluster-bench,$(notdir $(wildcard cluster/cmd/*))))
$(cluster_programs) bin/cluster-bench: bin/%: lib/libengine.a FORCE
	@mkdir -p $(@D)
	@echo "$(call step,go build $@)"
	$(quiet). scripts/go_env.sh && use_go && cd cluster && go build -o ../$@ ./cmd/$*
# A module of its own, without the engine.
bin/cluster-bench-etcd: FORCE
	@mkdir -p $(@D)
	@echo "$(call step,go build $@)"
	$(quiet). scripts/go_env.sh && use_go && cd cluster/bench/etcd && go build -o ../../../$@ .

# Compiles the packages' tests too, so that they do not run beside the compiler. Without Go nothing is
# built, and scripts/run_tests.sh reports the skip.
build-cluster: library
	$(if $(shell . scripts/go_env.sh && find_go),$(MAKE) --no-print-directory cluster-built)
cluster-built: $(cluster_programs)
	@echo 'go test: compile'
	$(quiet). scripts/go_env.sh && use_go && cd cluster && go test $$go_test_flags -run '^$$' ./... > /dev/null
