#!/bin/bash
# House rules that no other tool checks: lengths, and a library that never prints, exits or aborts.
set -uo pipefail
cd "$(dirname "$0")/.."
bad=0

while read -r file; do
  lines=$(wc -l < "$file")
  [ "$lines" -le 400 ] || { echo "$file: $lines lines; the most is 400"; bad=1; }
  awk -v file="$file" 'length($0) > 100 { print file ":" NR ": over 100 columns"; bad = 1 }
                       END { exit bad }' "$file" || bad=1
done < <(find include engine_race harness test -name '*.h' -o -name '*.cc')

# Comments may speak of what code may not do.
while read -r file; do
  sed 's|//.*||' "$file" |
    grep -nE '\b(v?f?printf|puts|putchar|perror|v?dprintf|syslog|exit|_exit|quick_exit|abort|signal|sigaction|std::c(out|err|log)|std::terminate)\b *(\(|<<|;)' |
    sed "s|^|$file: the library never prints, exits or traps signals: |" | grep . && bad=1
done < <(find engine_race -name '*.h' -o -name '*.cc')

exit $bad
