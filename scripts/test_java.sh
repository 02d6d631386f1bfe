#!/bin/bash
# Builds the Java package and tests its jar. The last line is "N passed, N failed[, N skipped]", or
# "skipped: " and the reason. JAVA_TESTS is a regular expression for the names of test classes.
#
# All tests run under -Xcheck:jni, and a warning of it counts as a failure.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/cases.sh
root=$PWD
# Names of files may have any character.
export LC_ALL=C.UTF-8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

missing=
for tool in javac jar javadoc java; do
  command -v $tool > /dev/null || missing+=" $tool"
done
[ -e /usr/share/java/junit-platform-console.jar ] || missing+=" JUnit 5"
if [ -n "$missing" ]; then
  echo "skipped: there is no$missing; scripts/setup.sh java brings all that is needed"
  exit 0
fi

junit=
for name in junit-platform-console junit-platform-launcher junit-platform-engine junit-platform-commons \
            junit-platform-reporting junit-jupiter-api junit-jupiter-engine junit-jupiter-params opentest4j \
            opentest4j-reporting-events opentest4j-reporting-schema apiguardian-api picocli; do
  [ ! -e /usr/share/java/$name.jar ] || junit+=:/usr/share/java/$name.jar
done
# Newer JDKs want the loading of native libraries to be allowed.
access=()
if java --enable-native-access=ALL-UNNAMED -version > /dev/null 2>&1; then
  access=(--enable-native-access=ALL-UNNAMED)
fi
jar=lib/engine_race-$(sed -n 's/^#define ENGINE_RACE_VERSION_[MP][AIT][JNT].* //p' include/engine_race_c.h | paste -sd .).jar
main=bindings/java/src/main

runs() { "$@" > "$work/log" 2>&1 || { tail -n 60 "$work/log"; return 1; }; }

builds_jar() {
  mkdir -p build && flock build/make.lock make --no-print-directory WERROR=1 jar && [ -s "$jar" ]
}

jar_is_whole() {
  local name
  jar --list --file "$jar" > "$work/names" && for name in module-info.class META-INF/LICENSE \
      META-INF/LICENSE.third-party race/engine/Store.class \
      race/engine/native/linux-x86_64/libengine_race_jni.so; do
    grep -qx "$name" "$work/names" || { echo "the jar has no $name"; return 1; }
  done
  jar --describe-module --file "$jar" | tee "$work/module" | grep -q '^exports race.engine$' ||
    { cat "$work/module"; return 1; }
}

# Every public name has a comment, and each comment is sound.
documents() {
  javadoc -quiet -Xdoclint:all -Werror -encoding UTF-8 -d "$work/doc" --source-path $main/java \
    --module race.engine
}

compiles() {  # directory, sources
  local directory=$1
  shift
  javac --release 17 -encoding UTF-8 -Xlint:all,-path -Werror -cp "$jar$junit" -d "$directory" "$@"
}

# A program that prints where its native library lies.
cat > "$work/Where.java" <<'END'
import java.nio.file.Files;
import java.nio.file.Path;

public class Where {
  public static void main(String[] arguments) throws Exception {
    race.engine.Store.libraryVersion();
    Files.lines(Path.of("/proc/self/maps")).filter(line -> line.contains("libengine_race_jni"))
        .map(line -> line.replaceFirst("^[^/]*", "")).distinct().forEach(System.out::println);
  }
}
END
where() { java "${access[@]}" "$@" Where 2> "$work/log" || { tail -n 20 "$work/log"; return 1; }; }

loads_from_everywhere() {
  local natives=$work/natives bare=$work/bare found
  mkdir -p "$natives" "$bare" "$work/where" "$work/tmp"
  (cd "$bare" && jar --extract --file "$root/$jar") &&
    mv "$bare"/race/engine/native/linux-x86_64/* "$natives/" && rm -r "$bare/race/engine/native" &&
    javac -cp "$jar" -d "$work/where" "$work/Where.java" || return 1
  found=$(where -Djava.io.tmpdir="$work/tmp" -cp "$jar:$work/where")
  [[ $found == "$work/tmp/"*" (deleted)" ]] || { echo "from the jar: $found"; return 1; }
  [ -z "$(ls "$work/tmp")" ] || { echo "left behind: $(ls -R "$work/tmp")"; return 1; }
  found=$(where -Drace.engine.library="$natives/libengine_race_jni.so" -cp "$jar:$work/where")
  [ "$found" = "$natives/libengine_race_jni.so" ] || { echo "by the property: $found"; return 1; }
  found=$(where -Djava.library.path="$natives" -cp "$bare:$work/where")
  [ "$found" = "$natives/libengine_race_jni.so" ] || { echo "by the path: $found"; return 1; }
  ! where -cp "$bare:$work/where" > "$work/refused" && grep -q UnsatisfiedLinkError "$work/refused"
}

# A program that is a module itself.
runs_as_module() {
  local sources=$work/module_sources
  mkdir -p "$sources/app" && printf 'module app {\n  requires race.engine;\n}\n' > "$sources/module-info.java" &&
    sed 's/^import java.nio.file.Files;/package app;\n\n&/' "$work/Where.java" > "$sources/app/Where.java" &&
    javac -p "$jar" -d "$work/app" "$sources/module-info.java" "$sources/app/Where.java" &&
    java -p "$jar:$work/app" -m app/app.Where | grep -q libengine_race_jni
}

# Adds the tests of the package to the counts.
runs_tests() {
  local log=$work/tests.log status good bad omitted warnings
  mkdir -p "$work/tmp"
  timeout -k 10 1500 java "${access[@]}" -Xcheck:jni -Xmx512m -XX:MaxDirectMemorySize=512m \
    -XX:ErrorFile="$work/hs_err.log" \
    -Djava.io.tmpdir="$work/tmp" -Dengine_race.docs="$root/docs" -cp "$jar:$work/classes$junit" \
    org.junit.platform.console.ConsoleLauncher --scan-classpath "$work/classes" --disable-banner \
    --include-classname "${JAVA_TESTS:-.*Test}" --details tree --disable-ansi-colors \
    --config junit.jupiter.execution.timeout.default=240s > "$log" 2>&1
  status=$?
  good=$(sed -n 's/^\[ *\([0-9]*\) tests successful *\]$/\1/p' "$log")
  bad=$(sed -n 's/^\[ *\([0-9]*\) tests failed *\]$/\1/p' "$log")
  omitted=$(sed -n 's/^\[ *\([0-9]*\) tests skipped *\]$/\1/p' "$log")
  if [ "${good:-0}" = 0 ]; then
    tail -n 80 "$log"
    fail "the tests end"
    return
  fi
  passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + omitted))
  # A class that cannot begin, or a crash at the end, is no failed test.
  if [ $status != 0 ] && [ "$bad" = 0 ]; then
    tail -n 80 "$log"
    fail "the tests end well"
  fi
  if [ "$bad" != 0 ]; then
    grep -v '✔$' "$log" | head -n 200
    sed -n 's/^[^A-Za-z]*\(.*\) ✘ .*/FAILED \1/p' "$log"
  fi
  # Of this package: the JDK's own libraries cause some, too.
  warnings=$(grep -A 4 -E '^(WARNING|FATAL ERROR) in native method|^WARNING: JNI local refs' "$log" |
    grep -c 'race\.engine')
  check "-Xcheck:jni warns of nothing" [ "$warnings" = 0 ]
  [ "$warnings" = 0 ] ||
    grep -A 12 -E '^(WARNING|FATAL ERROR) in native method|^WARNING: JNI' "$log" | head -n 60
}

measures_reads() {
  cat > "$work/Fill.java" <<'END'
import race.engine.*;

public class Fill {
  public static void main(String[] arguments) {
    try (Store store = Store.open(java.nio.file.Path.of(arguments[0]))) {
      for (long key = 0; key < 1000; key++) store.write(key, new byte[4096]);
    }
  }
}
END
  mkdir -p "$work/examples" && javac -cp "$jar" -d "$work/examples" "$work/Fill.java" &&
    compiles "$work/examples" bindings/java/src/examples/java/ReadCost.java &&
    java "${access[@]}" -cp "$jar:$work/examples" Fill "$work/store" &&
    java "${access[@]}" -cp "$jar:$work/examples" ReadCost "$work/store" 5000 |
    grep -Ex '\{"reads": 5000, "cpu_ns_per_read": [0-9.]+\}' > /dev/null
}

check "the jar builds" runs builds_jar
if [ $failed = 0 ]; then
  check "the jar has its licences, its module and its library" jar_is_whole
  check "javadoc finds no fault" runs documents
  check "the native library is found in each place" loads_from_everywhere
  check "a module may use the package" runs runs_as_module
  check "the tests compile" runs compiles "$work/classes" bindings/java/src/test/java/race/engine/*.java
  runs_tests
  check "the cost of a read is measured" runs measures_reads
fi
finish
