#!/bin/bash
# Includes point down. In the library:
# door > copies > scan > task > hot > reclaim > index > l1 > log > io > numa > base. In harness/, above the library:
# apps > claims, compare > siblings > kv > lab > load > data > measure > system. The siblings are
# opponents, race, bench, crash, guest, tools, numa and the experiments. Siblings do not include each other,
# nor do claims and compare.
# In cluster/, a Go module: cmd > admin > resp > node > replica, bench, check > the rest > service, files,
# gate, secret, budget, raftlog, testkit. Packages below others' folders belong to the same room. Only
# engine has C. Tests may import anything.
# The library includes nothing of the harness or the tests, and only its door includes the contest's
# headers. The harness includes nothing of the tests.
set -uo pipefail
cd "$(dirname "$0")/.."

grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.h' --include='*.cc' \
    engine_race harness include | awk '
  BEGIN {
    # From the bottom up; rooms with a comma between them are siblings.
    count = split("base numa io log l1 index reclaim hot task scan copies door " \
                  "harness/system harness/measure harness/data harness/load harness/lab harness/kv " \
                  "harness/opponents,harness/race,harness/bench,harness/crash,harness/guest,harness/tools,harness/numa," \
                  "harness/experiments/io,harness/experiments/l1 harness/claims,harness/compare harness/apps",
                  floors, " ")
    for (i = 1; i <= count; ++i) {
      room_count = split(floors[i], rooms, ",")
      for (j = 1; j <= room_count; ++j) height[rooms[j]] = i
    }
  }
  function complain(what) {
    printf "%s:%s: %s\n", file, line, what
    bad = 1
  }
  # The room of a path: its folder, without engine_race/; the door for what lies directly in there.
  function room_of(path) {
    sub(/\/[^\/]*$/, "", path)
    if (path == "engine_race") return "door"
    sub(/^engine_race\//, "", path)
    return path
  }
  {
    split($0, field, ":"); file = field[1]; line = field[2]
    split($0, quoted, "\""); included = quoted[2]
    if (file ~ /^include\//) {
      if (included ~ /\//) complain("the contract includes " included)
      next
    }
    from = room_of(file)
    if (!(from in height)) { complain("room " from " has no place in the order"); next }
    in_library = file ~ /^engine_race\//
    if (included ~ /^include\//) {
      if (in_library && from != "door") complain("only the door includes " included)
    } else if (in_library && included !~ /^engine_race\//) {
      complain("the library includes " included "; paths start at the root: engine_race/...")
    } else if (included !~ /^(engine_race|harness)\//) {
      complain("the harness includes " included "; paths start at engine_race/ or harness/")
    } else {
      to = room_of(included)
      if (!(to in height)) complain("room " to " has no place in the order")
      else if (height[to] > height[from]) complain(from " includes upwards: " included)
      else if (height[to] == height[from] && to != from) {
        complain(from " includes its sibling: " included)
      }
    }
  }
  END { exit bad }'
includes_bad=$?

# Lines of Go that import a package of the module, or C.
{ grep -rnE '^[[:space:]]*(import[[:space:]]+)?([[:alnum:]_.]+[[:space:]]+)?"(engine_race/cluster/[^"]*|C)"' \
    --include='*.go' --exclude='*_test.go' cluster || true; } | awk '
  BEGIN {
    # From the bottom up; rooms with a comma between them are siblings.
    count = split("service,files,gate,secret,budget,raftlog,testkit engine,keyspace,config,transport " \
                  "bench,check,replica node resp admin cmd", floors, " ")
    for (i = 1; i <= count; ++i) {
      room_count = split(floors[i], rooms, ",")
      for (j = 1; j <= room_count; ++j) height[rooms[j]] = i
    }
  }
  function complain(what) {
    printf "%s:%s: %s\n", file, line, what
    bad = 1
  }
  {
    split($0, field, ":"); file = field[1]; line = field[2]
    split($0, quoted, "\""); imported = quoted[2]
    split(file, folder, "/"); from = folder[2]
    if (!(from in height)) { complain("package " from " has no place in the order"); next }
    if (imported == "C") {
      if (from != "engine") complain("only engine has C")
      next
    }
    split(imported, folder, "/"); to = folder[3]
    if (!(to in height)) complain("package " to " has no place in the order")
    else if (height[to] > height[from]) complain(from " imports upwards: " imported)
    else if (height[to] == height[from] && to != from) complain(from " imports its sibling: " imported)
  }
  END { exit bad }' && [ $includes_bad = 0 ]
