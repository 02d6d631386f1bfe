#!/bin/bash
# Installs into a directory of its own, and uses what is there as strangers do: from C, from C++, as
# a judge, through pkg-config and through CMake. Makes the Debian packages and looks into them. The
# last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/cases.sh

for tool in cmake pkg-config lintian dpkg-shlibdeps help2man man; do
  if ! command -v $tool > /dev/null; then
    echo "skipped: $tool is missing; scripts/setup.sh package brings it"
    exit
  fi
done

root=$PWD
out=$root/build/package
staged=$out/staged
prefix=/opt/engine_race
rm -rf "$out"
mkdir -p "$out"

in_staged() { PKG_CONFIG_PATH=$staged$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$staged "$@"; }
flags_of() { in_staged pkg-config "$@"; }
# The libraries of a program, in one piece: grep may leave a pipe early, which fails it.
links_with() {  # program, text
  local linked
  linked=$(ldd "$1") && grep -qF "$2" <<< "$linked"
}

installs() {
  umask 077
  make --no-print-directory install DESTDIR="$staged" PREFIX=$prefix > "$out/install.log" 2>&1 ||
    { tail "$out/install.log"; return 1; }
}

# Every other user may read what was installed, and nothing names the place where it was staged.
readable_and_clean() {
  [ -z "$(find "$staged$prefix" ! -type l ! -perm -o=r)" ] &&
    [ -z "$(find "$staged$prefix" -type d ! -perm -o=x)" ] &&
    ! grep -rlF "$staged" "$staged" --include='*.pc' --include='*.cmake' &&
    [ "$(flags_of --cflags engine_race | xargs)" = "-I$staged$prefix/include" ]
}

shared_library_shows_c_only() {
  local library=$staged$prefix/lib/libengine_race.so
  local shown wanted dynamic
  shown=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | LC_ALL=C sort)
  wanted=$(grep -oE '\bengine_race_[a-z_]+\(' include/engine_race_c.h | tr -d '(' | LC_ALL=C sort -u)
  dynamic=$(readelf -d "$library")
  [ "$shown" = "$wanted" ] && [ -n "$wanted" ] &&
    grep -q 'SONAME.*\[libengine_race.so.0\]' <<< "$dynamic" &&
    ! grep -q 'NEEDED.*libstdc++' <<< "$dynamic"
}

runs() { timeout -k 10 300 "$@" > "$out/run.log" 2>&1 || { tail -n 20 "$out/run.log"; return 1; }; }

c_strict='-std=c99 -pedantic -Wall -Wextra -Werror -D_DEFAULT_SOURCE'

c_program_shared() {
  gcc $c_strict test/judges/c_program.c $(flags_of --cflags --libs engine_race) -o "$out/c_shared" &&
    LD_LIBRARY_PATH=$staged$prefix/lib runs "$out/c_shared" &&
    LD_LIBRARY_PATH=$staged$prefix/lib links_with "$out/c_shared" "$staged"
}

c_handles_shared() {
  gcc $c_strict test/judges/c_handles.c $(flags_of --cflags --libs engine_race) -lpthread -o "$out/c_handles" &&
    LD_LIBRARY_PATH=$staged$prefix/lib runs "$out/c_handles"
}

c_program_archive() {
  gcc $c_strict test/judges/c_program.c $(flags_of --cflags --libs engine_race-static) -o "$out/c_static" &&
    runs "$out/c_static" && ! links_with "$out/c_static" engine_race
}

# Of a program without shared libraries pkg-config gives the private libraries, too.
c_program_all_static() {
  gcc -static $c_strict test/judges/c_program.c $(flags_of --static --cflags --libs engine_race) \
    -o "$out/c_all_static" 2> "$out/link.log" && runs "$out/c_all_static"
}

# Names every holder whose code the libraries and programs contain, and has the terms of every
# licence that it names.
has_licences() {  # a copyright file
  local holder licence
  for holder in 'Jens Axboe' 'Yann Collet' 'Free Software Foundation' 'University of Cincinnati' \
      'Niels Lohmann' 'Bjoern Hoehrmann' 'Florian Loitsch' 'Evan Nemerson' 'The Abseil Authors'; do
    grep -qF "$holder" "$1" || { echo "$1 does not name $holder"; return 1; }
  done
  while IFS= read -r licence; do
    grep -q '^ [A-Z]' <<< "$(grep -A 1 -xF "License: $licence" "$1")" ||
      { echo "$1 has no terms of $licence"; return 1; }
  done < <(sed -n 's/^License: //p' "$1" | sort -u)
}

# Of a library that Debian describes: its own holders and terms are among ours.
agrees_with_debian() {  # our copyright file, package, paragraph of its licence
  local theirs=/usr/share/doc/$2/copyright holder
  if [ ! -f "$theirs" ]; then echo "$2 has no $theirs here: not compared"; return; fi
  holder=$(awk '/^Files:/ { wanted = /^Files: \*$/ } wanted && sub(/^Copyright: [0-9-]+ /, "")' "$theirs")
  [ -n "$holder" ] && grep -qF "$holder" "$1" || { echo "$1 lacks '$holder' of $2"; return 1; }
  words_of() {  # file, licence
    awk -v heading="License: $2" '/^[A-Z]/ { inside = $0 == heading } inside && /^ /' "$1" |
      tr -s ' \n' ' '
  }
  local wanted
  wanted=$(words_of "$theirs" "$3")
  [ -n "$wanted" ] && { [ "$(words_of "$1" "$3")" = "$wanted" ] ||
    [ "$(words_of "$1" MIT)" = "$wanted" ]; } || { echo "the terms of $2 are others"; return 1; }
}

licences_are_installed() {
  has_licences "$staged$prefix/share/doc/engine_race/copyright" &&
    grep -qF 'Apache License' "$staged$prefix/share/doc/engine_race/LICENSE" &&
    agrees_with_debian scripts/package/copyright libcli11-dev BSD-3-clause &&
    agrees_with_debian scripts/package/copyright nlohmann-json3-dev Expat
}

line_of() {  # file, name of a function, a flag of nm: where its debug information says that it is
  local address
  address=$(nm ${3:-} "$1" | sed -n "s/^\([0-9a-f]*\) [Tt] $2\(@@.*\)\?$/\1/p") &&
    addr2line -e "$1" "0x$address"
}

# The debug information lies apart, and debuggers find it.
debug_information_is_apart() {
  local library=$staged$prefix/lib/libengine_race.so without=$out/without
  grep -q 'engine_race/c_[a-z]*\.cc:[0-9]' <<< "$(line_of "$library" engine_race_open -D)" ||
    { echo "the shared library's lines are not found"; return 1; }
  # They come from the file beside it.
  mkdir -p "$without"
  cp -L "$library" "$without/"
  grep -q '^??:' <<< "$(line_of "$without/libengine_race.so" engine_race_open -D)" &&
    gcc $c_strict test/judges/c_program.c -L"$staged$prefix/lib/debug" $(flags_of --cflags --libs engine_race-static) \
      -o "$out/c_debug" &&
    grep -q 'engine_race/c_[a-z]*\.cc:[0-9]' <<< "$(line_of "$out/c_debug" engine_race_open)" &&
    grep -q '^??:' <<< "$(line_of "$out/c_static" engine_race_open)"
}

# Without debug information of its own.
small_shared_library() {
  local bytes
  bytes=$(stat -Lc %s "$staged$prefix/lib/libengine_race.so") || return
  echo "the shared library has $bytes bytes"
  [ "$bytes" -lt 2200000 ]
}

# The judges' own helpers lie in the checkout; headers of the engine may come from the staged tree
# alone.
judge_sources() {
  rm -rf "$out/judge"
  mkdir -p "$out/judge/test"
  cp -r test/judges "$out/judge/test/"
}

cxx11_judge() {
  local contest
  contest=$staged$(in_staged pkg-config --variable=contest_includedir engine_race-static)
  contest=${contest/#$staged$staged/$staged}
  g++ -std=c++11 -I"$out/judge" -I"$contest" "$out/judge/test/judges/contest_judge.cc" \
    $(flags_of --cflags --libs engine_race-static) -o "$out/contest_judge" && runs "$out/contest_judge"
}

cxx20_program() {
  g++ -std=c++20 -I"$out/judge" "$out/judge/test/judges/store_judge.cc" \
    $(flags_of --cflags --libs engine_race-static) -o "$out/store_judge" && runs "$out/store_judge"
}

cmake_project() {
  local project=$out/cmake
  mkdir -p "$project"
  cat > "$project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(user C CXX)
find_package(engine_race $1 REQUIRED)
find_package(engine_race REQUIRED)
add_executable(with_shared $root/test/judges/c_program.c)
target_link_libraries(with_shared engine_race::engine_race)
add_executable(with_archive $out/judge/test/judges/store_judge.cc)
target_compile_features(with_archive PRIVATE cxx_std_20)
target_include_directories(with_archive PRIVATE $out/judge)
target_link_libraries(with_archive engine_race::static)
add_executable(judge $out/judge/test/judges/contest_judge.cc)
target_include_directories(judge PRIVATE $out/judge)
target_link_libraries(judge engine_race::contest)
END
  rm -rf "$project/build"
  cmake -S "$project" -B "$project/build" -DCMAKE_PREFIX_PATH="$2" > "$out/cmake.log" 2>&1
}

cmake_builds() {
  cmake_project 0.9 "$staged$prefix" && cmake --build "$out/cmake/build" >> "$out/cmake.log" 2>&1 ||
    { tail -n 20 "$out/cmake.log"; return 1; }
  runs "$out/cmake/build/with_shared" && runs "$out/cmake/build/with_archive" && runs "$out/cmake/build/judge"
}

cmake_refuses_versions() {
  local version
  for version in 0.99 1.0 0.1...0.5 0.1...'<'0.9.0 1.0...2.0 '0.8 EXACT'; do
    if cmake_project "$version" "$staged$prefix" || ! grep -q 'not accepted' "$out/cmake.log"; then
      echo "version $version"
      return 1
    fi
  done
  for version in 0.1 0.9.0 0.9...0.99 0.1...0.9.0 '0.9.0 EXACT'; do
    cmake_project "$version" "$staged$prefix" || { echo "version $version"; return 1; }
  done
}

# The tree works where it was moved to.
moved_tree_works() {
  local moved=$out/moved
  rm -rf "$moved"
  cp -a "$staged$prefix" "$moved"
  gcc test/judges/c_program.c -o "$out/c_moved" \
      $(PKG_CONFIG_PATH=$moved/lib/pkgconfig pkg-config --define-prefix --cflags --libs engine_race) &&
    LD_LIBRARY_PATH=$moved/lib runs "$out/c_moved" &&
    cmake_project 0.9 "$moved" && cmake --build "$out/cmake/build" --target with_shared > "$out/cmake.log" 2>&1 &&
    links_with "$out/cmake/build/with_shared" "$moved"
}

# As on systems where /lib is a symlink.
found_behind_symlink() {
  local linked=$out/linked
  mkdir -p "$linked/lib"
  ln -sfn "$staged$prefix/lib/cmake" "$linked/lib/cmake"
  cmake_project 0.9 "$linked" && cmake --build "$out/cmake/build" --target with_shared > "$out/cmake.log" 2>&1
}

# Every program has a page of the manual that lists its flags, without a complaint of troff.
programs_have_pages() {
  local program page text
  make --no-print-directory install-programs install-compare DESTDIR="$staged" PREFIX=$prefix > "$out/programs.log" 2>&1 ||
    { tail "$out/programs.log"; return 1; }
  for program in store bench race numa report compare; do
    [ "$("$staged$prefix/bin/engine-race-$program" --version)" = "$program (engine_race) $(flags_of --modversion engine_race)" ] ||
      { echo "engine-race-$program --version is wrong"; return 1; }
    page=$staged$prefix/share/man/man1/engine-race-$program.1
    text=$(MANWIDTH=100 man --warnings -l "$page" 2> "$out/man.log") || return 1
    [ ! -s "$out/man.log" ] || { cat "$out/man.log"; return 1; }
    for flag in $("$staged$prefix/bin/engine-race-$program" --help | grep -oE '^ +(-[a-z],)?--[a-z_-]+' | grep -oE -- '--[a-z_-]+'); do
      grep -qF -- "$flag" <<< "${text//$'\n'/ }" || { echo "$program: $flag is not in its page"; return 1; }
    done
    grep -q '^ *Exit codes:$' <<< "$text" || { echo "$program: there are no exit codes in its page"; return 1; }
    ! grep -nE '\b(bin|docs|harness|scripts)/' <<< "$text" || { echo "the page of $program names files of a checkout"; return 1; }
  done
}

# The NAME of each page is what the program does, and the index of the pages takes it.
pages_have_names() {
  local program page summary
  rm -rf "$out/man"
  cp -r "$staged$prefix/share/man" "$out/man"
  mandb --quiet --create --user-db "$out/man" || return 1
  for program in store bench race numa report compare; do
    page=$out/man/man1/engine-race-$program.1
    summary=$("$staged$prefix/bin/engine-race-$program" --help | head -n 1)
    [[ ${summary,,} != usage:* ]] && [ "$(lexgrog "$page")" = "$page: \"engine-race-$program - ${summary%.}\"" ] ||
      { echo "$(lexgrog "$page"), not $summary"; return 1; }
    grep -qxE "engine-race-$program \(1\) +- ${summary%.}" <<< "$(whatis --long -M "$out/man" "engine-race-$program")" ||
      { echo "engine-race-$program has no entry in the index"; return 1; }
  done
}

# Without a checkout there is no program to copy. A message says what to do, and that works.
installed_numa_race_runs() {
  local numa=$staged$prefix/bin/engine-race-numa message
  message=$("$numa" race --dir "$out/instances" 2>&1)
  [ $? = 2 ] && grep -q -- '--text remap' <<< "$message" && ! grep -qE '\bmake\b' <<< "$message" ||
    { echo "$message"; return 1; }
  runs "$numa" race --dir "$out/instances" --groups 1 --text remap --threads 2 --num 100
}

# Programs alone bring the licences of what they contain.
programs_have_licences() {
  local alone=$out/programs
  make --no-print-directory install-programs DESTDIR="$alone" PREFIX=$prefix > "$out/programs.log" 2>&1 ||
    { tail "$out/programs.log"; return 1; }
  has_licences "$alone$prefix/share/doc/engine_race/copyright" &&
    [ -f "$alone$prefix/share/doc/engine_race/LICENSE" ] &&
    [ ! -e "$alone$prefix/bin/engine-race-compare" ]
}

# Only the files of others stay.
uninstalls() {
  local copy=$out/uninstalled other
  cp -a "$staged" "$copy"
  for other in lib/libother.so include/other.h bin/other share/man/man1/other.1 lib/.debug/libother.so.debug; do
    echo > "$copy$prefix/$other"
  done
  make --no-print-directory uninstall DESTDIR="$copy" PREFIX=$prefix > "$out/uninstall.log" 2>&1 ||
    { tail "$out/uninstall.log"; return 1; }
  local left
  left=$(find "$copy" ! -type d ! -name '*other*')
  [ -z "$left" ] || { echo "left: $left"; return 1; }
  [ "$(find "$copy" -type f -name '*other*' | wc -l)" = 5 ]
}

debian_packages() {
  local version
  make --no-print-directory deb > "$out/deb.log" 2>&1 || { tail "$out/deb.log"; return 1; }
  version=$(cat build/deb/version)
  lintian -I out/libengine-race0_"$version"_*.deb \
    out/libengine-race-dev_"$version"_*.deb out/engine-race-tools_"$version"_*.deb \
    out/libengine-race0-dbgsym_"$version"_*.deb out/engine-race-tools-dbgsym_"$version"_*.deb > "$out/lintian.log" 2>&1 &&
    # Whether parts of symbols look like words depends on what is inlined.
    ! grep -E '^[EWI]: ' "$out/lintian.log" | grep -v 'unused-override spelling-error-in-binary' | grep -q . ||
    { cat "$out/lintian.log"; return 1; }
}

packages_work_unpacked() {
  local version tree=$out/debs libdir
  version=$(cat build/deb/version)
  libdir=$tree/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
  rm -rf "$tree"
  dpkg-deb -x out/libengine-race0_"$version"_*.deb "$tree" &&
    dpkg-deb -x out/libengine-race-dev_"$version"_*.deb "$tree" &&
    grep -q 'libc6 (>= 2' <<< "$(dpkg-deb -f out/libengine-race0_"$version"_*.deb Depends)" &&
    grep -q '^ engine_race_open@ENGINE_RACE_0.9 0.9$' "build/deb/libengine-race0/DEBIAN/symbols" &&
    gcc test/judges/c_program.c -o "$out/c_deb" \
      $(PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$tree pkg-config --cflags --libs engine_race) &&
    LD_LIBRARY_PATH=$libdir runs "$out/c_deb"
}

has_lines() { grep -qF .debug_line <<< "$(readelf -S "$1" 2> /dev/null)"; }

# Each package has the licences, and each stripped file of a package has its debug information in
# another one.
packages_are_whole() {
  local version tree=$out/whole name file id
  version=$(cat build/deb/version)
  rm -rf "$tree"
  for name in libengine-race0 libengine-race-dev engine-race-tools; do
    dpkg-deb -x out/"$name"_"$version"_*.deb "$tree" &&
      has_licences "$tree/usr/share/doc/$name/copyright" || return
  done
  for name in libengine-race0 engine-race-tools; do
    dpkg-deb -x out/"$name"-dbgsym_"$version"_*.deb "$tree" &&
      grep -qF "$name (= $version)" <<< "$(dpkg-deb -f out/"$name"-dbgsym_"$version"_*.deb Depends)" || return
  done
  for file in "$tree"/usr/lib/*/libengine_race.so.*.*.* "$tree"/usr/bin/engine-race-{store,bench,race,numa}; do
    id=$(readelf -n "$file" | sed -n 's/^ *Build ID: //p')
    ! has_lines "$file" && has_lines "$tree/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" ||
      { echo "the debug information of $file is not apart"; return 1; }
  done
}

judge_sources
check "make install" installs
check "what is installed is readable, and names no staging directory" readable_and_clean
check "the shared library shows the C API alone" shared_library_shows_c_only
check "a C program with the shared library" c_program_shared
check "closed stores with the shared library" c_handles_shared
check "a C program with the archive" c_program_archive
check "a C program without shared libraries" c_program_all_static
check "the shared library is small" small_shared_library
check "debug information apart" debug_information_is_apart
check "licences" licences_are_installed
check "a judge of C++11" cxx11_judge
check "a program of C++20" cxx20_program
check "a CMake project" cmake_builds
check "CMake refuses versions that do not fit" cmake_refuses_versions
check "a moved tree" moved_tree_works
check "a tree behind a symlink" found_behind_symlink
check "programs with pages of the manual" programs_have_pages
check "names of the pages" pages_have_names
check "an installed numa race" installed_numa_race_runs
check "licences of the programs" programs_have_licences
check "make uninstall" uninstalls
check "Debian packages that lintian accepts" debian_packages
check "Debian packages with licences and debug information" packages_are_whole
check "Debian packages work" packages_work_unpacked
finish
