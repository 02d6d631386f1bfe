#!/bin/bash
# House rules that no other tool checks: lengths, a library that never prints, exits or aborts, and
# one fixture for each test suite.
set -uo pipefail
cd "$(dirname "$0")/.."
bad=0

while read -r file; do
  lines=$(wc -l < "$file")
  [ "$lines" -le 400 ] || { echo "$file: $lines lines; the most is 400"; bad=1; }
  awk -v file="$file" 'length($0) > 100 { print file ":" NR ": over 100 columns"; bad = 1 }
                       END { exit bad }' "$file" || bad=1
done < <(find include engine_race harness test -name '*.h' -o -name '*.cc')

# The first header of a room, the public ones and the format of the disk are pages to be read whole.
# Other headers are short, but for three at most.
front_pages=$(grep -oE '\b(engine_race|include)/[a-z_0-9/]+\.h\b' README.md)
long_headers=$(find include engine_race harness test -name '*.h' -exec wc -l {} + |
  awk '$1 > 200 && $2 != "total" { print $2 }' |
  grep -vxF "$front_pages"$'\n'engine_race/log/format.h)
[ "$(wc -l <<< "$long_headers")" -le 3 ] || {
  echo "more than three headers have over 200 lines:"
  echo "$long_headers"
  bad=1
}

# A tab of Go counts as one column.
while read -r file; do
  lines=$(wc -l < "$file")
  [ "$lines" -le 400 ] || { echo "$file: $lines lines; the most is 400"; bad=1; }
  awk -v file="$file" 'length($0) > 100 { print file ":" NR ": over 100 columns"; bad = 1 }
                       END { exit bad }' "$file" || bad=1
done < <(find cluster bindings/java -name '*.go' -o -name '*.java' -o -name '*.[ch]')

while read -r file; do
  lines=$(wc -l < "$file")
  [ "$lines" -le 400 ] || { echo "$file: $lines lines; the most is 400"; bad=1; }
  awk -v file="$file" 'length($0) > 100 { print file ":" NR ": over 100 columns"; bad = 1 }
                       END { exit bad }' "$file" || bad=1
done < <(find bindings -name '*.rs' -o -name '*.c')

# Comments may speak of what code may not do.
while read -r file; do
  sed 's|//.*||' "$file" |
    grep -nE '\b(v?f?printf|puts|putchar|perror|v?dprintf|syslog|exit|_exit|quick_exit|abort|signal|sigaction|std::c(out|err|log)|std::terminate)\b *(\(|<<|;)' |
    sed "s|^|$file: the library never prints, exits or traps signals: |" | grep . && bad=1
done < <(find engine_race -name '*.h' -o -name '*.cc')

# Sanitized programs have the tests of many rooms, and googletest fails a suite with two fixtures.
two_fixtures=$({
  grep -rhoE --include='*.cc' '^TEST\(\w+' test | sed 's/.*(/no fixture /' | sort -u
  grep -rhoE --include='*.cc' --include='*.h' '^(class|struct) \w+Test\b' test | sed 's/^\w* /fixture /'
} | awk '{ print $NF }' | sort | uniq -d)
for suite in $two_fixtures; do echo "test: $suite is the name of two test suites"; bad=1; done

exit $bad
