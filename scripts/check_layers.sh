#!/bin/bash
# Includes point down: door > scan > task > hot > index > l1 > log > io > numa > base. The library knows
# neither the harness nor the tests, and only its door knows the contest's headers.
set -uo pipefail
cd "$(dirname "$0")/.."

grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.h' --include='*.cc' \
    engine_race include | awk '
  BEGIN {
    split("base numa io log l1 index hot task scan door", rooms, " ")
    for (i in rooms) height[rooms[i]] = i + 0
  }
  function complain(what) {
    printf "%s:%s: %s\n", file, line, what
    bad = 1
  }
  # The room of a path below the root; the door for what lies directly in engine_race/.
  function room_of(path, parts, count) {
    count = split(path, parts, "/")
    return count == 2 ? "door" : parts[2]
  }
  {
    split($0, field, ":"); file = field[1]; line = field[2]
    split($0, quoted, "\""); included = quoted[2]
    from_contract = (file ~ /^include\//)
    if (from_contract) {
      if (included ~ /\//) complain("the contract includes " included)
      next
    }
    from = room_of(file)
    if (!(from in height)) { complain("room " from " has no place in the order"); next }
    if (included ~ /^include\//) {
      if (from != "door") complain("only the door includes " included)
    } else if (included ~ /^engine_race\//) {
      to = room_of(included)
      if (!(to in height)) complain("room " to " has no place in the order")
      else if (height[to] > height[from]) complain(from " includes upwards: " included)
    } else {
      complain("the library includes " included "; paths start at the root: engine_race/...")
    }
  }
  END { exit bad }'
