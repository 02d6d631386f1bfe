#!/bin/bash
# Makes Debian packages of a checkout, in out/: libengine-race0 with the shared library,
# libengine-race-dev with headers, archive, pkg-config and CMake files, and engine-race-tools with
# programs and their man pages. The debug information of the library and of the programs is in
# packages whose names end in -dbgsym. Called by `make deb`.
set -euo pipefail
cd "$(dirname "$0")/../.."
upstream=$1
version=$upstream-1
maintainer='engine_race developers <maintainers@engine-race.invalid>'
arch=$(dpkg --print-architecture)
libdir=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=build/deb
major=${upstream%%.*}
shared=libengine-race$major
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
rm -rf "$work"
make --no-print-directory install DESTDIR="$work/staged" PREFIX=/usr LIBDIR="$libdir" > /dev/null
make --no-print-directory install-programs DESTDIR="$work/staged" PREFIX=/usr > /dev/null
sed -i '1s|.*|#!/usr/bin/python3|' "$work/staged/usr/bin/engine-race-report"
gzip -9n "$work"/staged/usr/share/man/man1/*.1
mkdir -p out "$work/debian"

changelog() {
  printf 'engine-race (%s) unstable; urgency=medium\n\n' "$version"
  printf '  * Built from the sources; their CHANGELOG.md says what is new.\n\n'
  printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

begin_package() {  # name, files of the staged install
  local name=$1 file docs=$work/$1/usr/share/doc/$1
  shift
  for file in "$@"; do
    install -d "$work/$name/$(dirname "$file")"
    cp -a "$work/staged/$file" "$work/$name/$file"
  done
  install -D -m 644 scripts/package/copyright "$docs/copyright"
  changelog | gzip -9n > "$docs/changelog.Debian.gz"
  chmod 644 "$docs/changelog.Debian.gz"
  install -d "$work/$name/usr/share/lintian/overrides"
  {
    echo '# The package is made by its own project, not for an upload to Debian.'
    echo "$name: initial-upload-closes-no-bugs *"
    if [ "$name" != libengine-race-dev ]; then
      echo '# Copies have fixed sizes, which tests check under AddressSanitizer.'
      echo "$name: hardening-no-fortify-functions *"
      echo '# Parts of symbols, not words.'
      echo "$name: spelling-error-in-binary *"
    fi
  } > "$work/$name/usr/share/lintian/overrides/$name"
  chmod 644 "$work/$name/usr/share/lintian/overrides/$name"
  install -d "$work/$name/DEBIAN"
}

end_package() {  # name; the control fields that are its own come from standard input
  local name=$1
  {
    printf 'Package: %s\nSource: engine-race\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' \
      "$name" "$version" "$arch" "$maintainer"
    printf 'Installed-Size: %s\n' "$(du -sk --exclude=DEBIAN "$work/$name" | cut -f1)"
    cat
  } > "$work/$name/DEBIAN/control"
  (cd "$work/$name" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums)
  find "$work/$name" -type d -exec chmod 00755 {} +
  chmod 644 "$work/$name/DEBIAN"/*
  dpkg-deb --build --root-owner-group "$work/$name" out/
}

# Makes the package with the debug information of another package's files. Debuggers find it by the
# build id of each file.
make_dbgsym() {  # package, files that have the debug information
  local package=$1 name=$1-dbgsym file id place ids=()
  shift
  for file in "$@"; do
    id=$(readelf -n "$file" | sed -n 's/^ *Build ID: //p')
    place=$work/$name/usr/lib/debug/.build-id/${id:0:2}
    install -d "$place"
    objcopy --only-keep-debug --compress-debug-sections "$file" "$place/${id:2}.debug"
    chmod 644 "$place/${id:2}.debug"
    ids+=("$id")
  done
  install -d "$work/$name/usr/share/doc" "$work/$name/DEBIAN"
  ln -s "$package" "$work/$name/usr/share/doc/$name"
  end_package "$name" << END
Section: debug
Priority: optional
Auto-Built-Package: debug-symbols
Depends: $package (= $version)
Description: debug symbols for $package
Build-Ids: ${ids[*]}
END
}

# The packages that the files of a package need, as dpkg-shlibdeps finds them.
needs_of() {  # package, its files
  local package=$1
  shift
  printf 'Source: engine-race\n\nPackage: %s\nArchitecture: any\n' "$package" > "$work/debian/control"
  (cd "$work/$package" && ln -sfn ../debian debian && dpkg-shlibdeps -O "$@" && rm debian) |
    sed -n 's/^shlibs:Depends=//p'
}

begin_package "$shared" "${libdir#/}/libengine_race.so.$major" "${libdir#/}/libengine_race.so.$upstream"
chmod 644 "$work/$shared$libdir/libengine_race.so.$upstream"
rm -rf "$work/$shared/usr/share/doc/engine_race"
# A program depends on the version that brought the newest function that it uses: a function's
# symbol version names it.
{
  echo "libengine_race.so.$major $shared #MINVER#"
  echo '* Build-Depends-Package: libengine-race-dev'
  nm -D --defined-only --with-symbol-versions "$work/$shared$libdir/libengine_race.so.$upstream" |
    LC_ALL=C sort -k 3 | sed -nE 's/^[^ ]* [A-Z] ([^@]*)@@ENGINE_RACE_([0-9.]+)$/ \1@ENGINE_RACE_\2 \2/p;
                               s/^[^ ]* A ENGINE_RACE_([0-9.]+)@@.*$/ ENGINE_RACE_\1@ENGINE_RACE_\1 \1/p'
} > "$work/$shared/DEBIAN/symbols"
echo "libengine_race $major $shared" > "$work/$shared/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' > "$work/$shared/DEBIAN/triggers"
end_package "$shared" << END
Section: libs
Priority: optional
Multi-Arch: same
Depends: $(needs_of "$shared" "${libdir#/}/libengine_race.so.$upstream")
Description: key-value store of 8-byte keys and 4 KiB values (library)
 A storage engine for records of one size, written once and read many times
 by many threads. Writes that returned outlive the process, however it ends.
 .
 This package has the shared library. It needs a processor of the level
 x86-64-v2, as all since 2009 to 2013 are.
END

make_dbgsym "$shared" "lib/libengine_race.so.$upstream.debug"

begin_package libengine-race-dev usr/include "${libdir#/}/libengine_race.a" \
  "${libdir#/}/libengine_race.so" "${libdir#/}/pkgconfig" "${libdir#/}/cmake"
end_package libengine-race-dev << END
Section: libdevel
Priority: optional
Multi-Arch: same
Depends: $shared (= $version)
Description: key-value store of 8-byte keys and 4 KiB values (development)
 A storage engine for records of one size, written once and read many times
 by many threads. Writes that returned outlive the process, however it ends.
 .
 This package has the headers for C and C++, the static library, and files
 for pkg-config and CMake.
END
begin_package engine-race-tools usr/bin usr/share/man
programs=()
for program in store bench race numa; do programs+=("usr/bin/engine-race-$program"); done
end_package engine-race-tools << END
Section: utils
Priority: optional
Depends: $(needs_of engine-race-tools "${programs[@]}"), python3
Recommends: fio
Description: key-value store of 8-byte keys and 4 KiB values (programs)
 A storage engine for records of one size, written once and read many times
 by many threads. Writes that returned outlive the process, however it ends.
 .
 This package has programs that verify, copy, dump and follow stores, and
 that measure what a store does on a disk.
END
make_dbgsym engine-race-tools "${programs[@]/#*engine-race-/bin/}"
echo "$version" > "$work/version"
