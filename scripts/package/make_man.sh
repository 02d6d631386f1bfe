#!/bin/bash
# Makes the man page of each program from its help, which is the only description of its flags.
#
#   scripts/package/make_man.sh VERSION DIRECTORY PROGRAM...
#
# PROGRAM is the built bin/NAME; its page is DIRECTORY/engine-race-NAME.1, after its installed name.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1 directory=$2
shift 2
mkdir -p "$directory"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# As help2man reads it: under the installed name, short and long flags apart.
tidy() {  # name of the program, its installed name
  sed -E "s|^Usage: [^ ]*$1|Usage: $2|; s/^( *-[A-Za-z]),(--)/\1, \2/"
}

subcommands_of() {  # a help text
  sed -n '/^Subcommands:/,/^$/s/^  ([a-z0-9_-]+) .*/\1/p' -E <<< "$1"
}

for program in "$@"; do
  name=$(basename "$program")
  installed=engine-race-$name
  help=$("$program" --help)
  summary=$(head -n 1 <<< "$help")
  {
    sed '/^Exit codes:$/,$d' <<< "$help" | tidy "$name" "$installed"
    for subcommand in $(subcommands_of "$help"); do
      echo
      echo "Arguments of $subcommand:"
      "$program" "$subcommand" --help | tidy "$name" "$installed" |
        sed '1,/^Usage:/d; /^Exit codes:$/,$d; /^Positionals:$/d; /^Options:$/d; /--help  /d; /^$/d'
    done
    echo
    sed -n '/^Exit codes:$/,$p' <<< "$help"
  } > "$work/help"
  # The first line is the name's; help2man would show it twice.
  sed -i 1d "$work/help"
  printf '#!/bin/sh\ncase $1 in --help) cat "%s/help" ;; esac\n' "$work" > "$work/$installed"
  chmod +x "$work/$installed"
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || date +%s)} \
    help2man --no-info --section 1 --source "engine_race $version" --version-string "$version" \
    --manual 'engine_race' --name "${summary%.}" --output "$directory/$installed.1" "$work/$installed"
done
