#!/bin/bash
# Installs what a goal of the Makefile needs and this machine lacks, on Debian and Ubuntu.
#
#   scripts/setup.sh [race|test|mutants|fuzz|check|guest|plot|rocksdb|peers|deb|package|wheel|python|rust|java|flame|l1|
#                     browser|cluster|test-cluster|bench-cluster|redis-py|node-redis|ci|all]
#
# When nothing is missing it does nothing, fast, and needs neither the network nor any rights. Go, its
# modules and staticcheck come from Go's module proxy, which GOPROXY names. redis-py and node-redis, which
# test the service, come from the registries that pip and npm have. Only ci and their own goals demand
# them: test-cluster and all go on without.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/go_env.sh

# The needs of each goal, one a line. First a probe for it: a command, a header below the include
# directories, or a whole path. Then the packages that contain it, the preferred one first.
library_needs='
g++                      g++
ld                       binutils
xxhash.h                 libxxhash-dev
liburing.h               liburing-dev
'
build_needs="$library_needs"'
CLI/CLI.hpp              libcli11-dev
nlohmann/json.hpp        nlohmann-json3-dev
'
race_needs="$build_needs"'
fio                      fio
numactl                  numactl
'
test_needs="$race_needs"'
boost/context/fiber.hpp  libboost-context-dev
gtest/gtest.h            libgtest-dev
benchmark/benchmark.h    libbenchmark-dev
python3                  python3
setarch                  util-linux
mkfs.ext4                e2fsprogs
mkfs.xfs                 xfsprogs
mkfs.btrfs               btrfs-progs
'
# Formats and findings differ between versions, so version 14 is preferred to the newest one.
fuzz_needs="$test_needs"'
clang++-14,clang++            clang-14 clang
git                           git
/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a  libclang-rt-14-dev libclang-rt-dev
'
# Besides Go: see install_go.
check_needs="$fuzz_needs"'
clang-format-14,clang-format  clang-format-14 clang-format
clang-tidy-14,clang-tidy      clang-tidy-14 clang-tidy
gcc                           gcc
'
# For QEMU guests. scripts/guest_kernel.sh fetches their kernel.
guest_needs="$build_needs"'
python3                  python3
qemu-system-x86_64       qemu-system-x86
mkfs.ext4                e2fsprogs
numactl                  numactl
'

# mkfs lies here, outside the PATH of ordinary users.
PATH=$PATH:/usr/sbin:/sbin

# For scripts/mutants.py, which puts faults into the engine.
mutants_needs="$test_needs"'
git                      git
'

# For scripts/plot, which draws the measurements of bin/lab.
plot_needs='
/usr/bin/python3         python3
/usr/lib/python3*/dist-packages/matplotlib  python3-matplotlib
'

# The packaged programs edit lines.
deb_needs="$build_needs"'
editline/readline.h      libedit-dev
dpkg-shlibdeps           dpkg-dev
help2man                 help2man
python3                  python3
'
# For tests of what is installed and packed.
package_needs="$deb_needs"'
cmake                    cmake
pkg-config               pkg-config
lintian                  lintian
man                      man-db
'

# For `make wheel` and `pip install ./python`.
wheel_needs="$library_needs"'
make                     make
/usr/bin/python3         python3
/usr/lib/python3.*/ensurepip                   python3-venv
/usr/lib/python3/dist-packages/pip             python3-pip
/usr/lib/python3/dist-packages/setuptools      python3-setuptools
/usr/lib/python3/dist-packages/wheel           python3-wheel
'
# For tests and measurements of the Python package, which take the system's own Python.
python_needs="$build_needs$wheel_needs"'
/usr/lib/python3/dist-packages/cffi            python3-cffi
/usr/lib/python3/dist-packages/numpy           python3-numpy
/usr/lib/python3/dist-packages/pytest          python3-pytest
/usr/lib/python3/dist-packages/mypy            python3-mypy
/usr/lib/python3/dist-packages/lmdb            python3-lmdb
debootstrap              debootstrap
'

# For the Rust crate and its tests.
rust_needs="$library_needs"'
make                     make
gcc                      gcc
pkg-config               pkg-config
cargo                    cargo
rustc                    rustc
'
# For the Java package and its tests.
java_needs="$build_needs"'
make                     make
javac                    openjdk-17-jdk-headless default-jdk-headless
/usr/share/java/junit-platform-console.jar     junit5
'

# The opponent of bin/claims, and a peer of bin/compare.
rocksdb_needs='
rocksdb/db.h             librocksdb-dev
'
# The stores that bin/compare runs beside the engine.
peers_needs="$rocksdb_needs"'
leveldb/db.h             libleveldb-dev
lmdb.h                   liblmdb-dev
wiredtiger.h             libwiredtiger-dev
'
# For flame graphs.
flame_needs='
/usr/bin/python3         python3
perf                     linux-perf linux-tools-generic
'
# For the test that looks at the pages of bin/report. Without a font text has no size.
browser_needs='
python3                  python3
chromium,chromium-browser,google-chrome  chromium
/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf  fonts-dejavu-core
'
# For cluster/, the networked service. It also needs Go: see install_go.
cluster_needs="$library_needs"'
gcc                      gcc
redis-cli                redis-tools
'
# For its tests, which cut networks, mount disks and measure. staticcheck and Go come besides.
test_cluster_needs="$cluster_needs"'
python3                  python3
ip                       iproute2
nft                      nftables
haproxy                  haproxy
mkfs.ext4                e2fsprogs
mount                    mount
unshare                  util-linux
systemd-analyze          systemd
'
# For clients of Redis that its tests run: see install_redis_py and install_node_redis.
redis_py_needs='
/usr/bin/python3         python3
/usr/lib/python3.*/ensurepip                   python3-venv
'
node_redis_needs='
node                     nodejs
npm                      npm
'
# For .ci/run alone: it compiles the opponents too. Its other goals install what they need themselves.
ci_needs="$peers_needs$package_needs$python_needs$rust_needs$java_needs$test_cluster_needs$redis_py_needs$node_redis_needs"'
ccache                   ccache
'
# Optional tools of bin/lab l1: they count, sample and draw.
l1_needs="$flame_needs$plot_needs"'
valgrind                 valgrind
'

goal=${1:-all}
case $goal in
  race) needs=$race_needs ;;
  test) needs=$test_needs ;;
  mutants) needs=$mutants_needs ;;
  fuzz) needs=$fuzz_needs ;;
  check) needs=$check_needs ;;
  guest) needs=$guest_needs ;;
  plot) needs=$plot_needs ;;
  rocksdb) needs=$rocksdb_needs ;;
  peers) needs=$peers_needs ;;
  deb) needs=$deb_needs ;;
  package) needs=$package_needs ;;
  wheel) needs=$wheel_needs ;;
  python) needs=$python_needs ;;
  java) needs=$java_needs ;;
  flame) needs=$flame_needs ;;
  l1) needs=$l1_needs ;;
  browser) needs=$browser_needs ;;
  cluster) needs=$cluster_needs ;;
  test-cluster | bench-cluster) needs=$test_cluster_needs ;;
  redis-py) needs=$redis_py_needs ;;
  node-redis) needs=$node_redis_needs ;;
  rust) needs=$rust_needs ;;
  ci) needs=$ci_needs ;;
  all) needs=$check_needs$guest_needs$peers_needs$package_needs$python_needs$rust_needs$java_needs$l1_needs$test_cluster_needs ;;
  *) echo "usage: $0 [race|test|mutants|fuzz|check|guest|plot|rocksdb|peers|deb|package|wheel|python|rust|java|flame|l1|browser|cluster|test-cluster|bench-cluster|redis-py|node-redis|ci|all]" >&2; exit 2 ;;
esac

is_there() {  # a comma-separated list of probes, any of which will do
  local probe
  for probe in ${1//,/ }; do
    case $probe in
      /*) compgen -G "$probe" > /dev/null && return ;;
      *.h | *.hpp) compgen -G "/usr/include/$probe" > /dev/null && return
                   compgen -G "/usr/local/include/$probe" > /dev/null && return ;;
      *) command -v "$probe" > /dev/null && return ;;
    esac
  done
  return 1
}

missing() {
  local probe packages
  while read -r probe packages; do
    [ -z "$probe" ] || is_there "$probe" || echo "$packages"
  done <<< "$needs"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

check_compiler() {  # of the goals that compile
  grep -q '^g++ ' <<< "$needs" || return 0
  if ! echo 'int main() {}' | g++ -std=c++20 -march=x86-64-v2 -x c++ -fsyntax-only - 2> /dev/null; then
    echo "setup: this g++ ($(g++ -dumpfullversion)) is too old: GCC 12 or newer is needed" >&2
    exit 1
  fi
}

needs_go() {
  case $goal in
    check | cluster | test-cluster | bench-cluster | ci | all) ;;
    *) return 1 ;;
  esac
}

# The checksum of Go's toolchain module, as go.sum has those of other modules. It also makes sure that
# the archive is the one that the Go project published.
go_sum=h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=

# Debian's Go is too old for cluster/, but it fetches the newer one. The module proxy serves that as
# an ordinary module, whose files have no permissions to be run.
install_go() {
  local module=golang.org/toolchain@v0.0.1-go$go_release.linux-amd64 bootstrap directory partial answer
  bootstrap=$(command -v go || compgen -G '/usr/lib/go-*/bin/go' || echo /usr/local/go/bin/go)
  bootstrap=$(head -n 1 <<< "$bootstrap")
  echo "setup: fetching Go $go_release through $("$bootstrap" version)"
  # The script compares checksums itself, so that proxies without a checksum database work too.
  answer=$(cd / && GOFLAGS=-mod=mod GOTOOLCHAIN=local GONOSUMDB=golang.org/toolchain \
             "$bootstrap" mod download -json "$module") || { echo "$answer" >&2; return 1; }
  if ! grep -qF "\"Sum\": \"$go_sum\"" <<< "$answer"; then
    echo "setup: the checksum of $module is wrong: $answer" >&2
    return 1
  fi
  directory=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<< "$answer")
  # Moved into its place when complete: an interrupted copy is none.
  mkdir -p "$go_cache"
  partial=$(mktemp -d "$go_cache/partial.XXXXXX")
  cp -R "$directory/." "$partial/"
  chmod -R u+w,go+rX "$partial"
  chmod 755 "$partial" "$partial"/bin/* "$partial"/pkg/tool/*/*
  rm -rf "$go_cache/go-$go_release"
  mv -T "$partial" "$go_cache/go-$go_release"
}

install_staticcheck() {
  echo "setup: building staticcheck $staticcheck_release"
  (cd / && GOFLAGS=-buildvcs=false GOBIN=$(dirname "$staticcheck_program") \
     go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_release")
}

# The modules of a folder, so that builds and tests work without a network afterwards.
fetch_modules() {
  (cd "$1" && { GOPROXY=off go list -deps -test ./... > /dev/null 2>&1 || {
     echo "setup: fetching the Go modules of $1"
     go list -deps -test ./... > /dev/null
   }; })
}

# redis-py and node-redis in the versions that cluster/check/clients names, with their checksums. They
# are complete when their copies of these lists are there.
client_lists=cluster/check/clients

install_redis_py() {
  local python=$cluster_clients/python
  if cmp -s $client_lists/requirements.txt "$python/requirements.txt" &&
      "$python/bin/python3" -c 'import redis' 2> /dev/null; then
    return
  fi
  echo "setup: installing redis-py"
  /usr/bin/python3 -m venv --clear "$python"
  "$python/bin/pip" install -q --disable-pip-version-check --only-binary :all: --require-hashes \
    -r $client_lists/requirements.txt < /dev/null
  cp $client_lists/requirements.txt "$python/"
}

install_node_redis() {
  local node=$cluster_clients/node release
  release=$(node --version)
  release=${release#v}
  if [ "${release%%.*}" -lt 20 ]; then
    echo "setup: node-redis needs Node.js 20 or newer, and this is $release" >&2
    return 1
  fi
  if ! cmp -s $client_lists/package-lock.json "$node/installed.json"; then
    echo "setup: installing node-redis"
    mkdir -p "$node"
    cp $client_lists/package.json $client_lists/package-lock.json "$node/"
    (cd "$node" && npm ci --ignore-scripts --no-audit --no-fund < /dev/null)
    cp $client_lists/package-lock.json "$node/installed.json"
  fi
}

install_clients() {
  local client
  case $goal in
    redis-py) install_redis_py ;;
    node-redis) install_node_redis ;;
    ci) install_redis_py; install_node_redis ;;
    test-cluster | all)
      for client in redis-py node-redis; do
        scripts/setup.sh $client || echo "setup: going on without $client: its test is skipped" >&2
      done ;;
  esac
}

# What no package has, of the goals that need Go.
install_go_tools() {
  needs_go || return 0
  find_go > /dev/null || install_go
  use_go
  fetch_modules cluster
  [ "$goal" != cluster ] || return 0
  fetch_modules cluster/bench/etcd
  [ -x "$staticcheck_program" ] || [ "$goal" = bench-cluster ] || install_staticcheck
}

# Any Go can fetch the newer one.
if needs_go && ! find_go > /dev/null; then
  needs+='
go,/usr/lib/go-*/bin/go,/usr/local/go/bin/go   golang-go
'
fi

wanted=$(missing)
if [ -z "$wanted" ]; then
  check_compiler
  install_go_tools
  install_clients
  exit 0
fi
names=$(awk '{print $1}' <<< "$wanted" | xargs)

if ! command -v apt-get > /dev/null; then
  echo "setup: missing here: $names (as Debian calls them); this system has no apt-get, please" \
       "install them by hand" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ] && ! command -v sudo > /dev/null; then
  echo "setup: missing: $names; run this as root: apt-get install $names" >&2
  exit 1
fi

echo "setup: installing $names"
as_root apt-get update -q < /dev/null || echo "setup: apt-get update failed; trying anyway" >&2
chosen=()
while read -r candidates; do
  package=${candidates%% *}
  for candidate in $candidates; do
    if apt-cache show "$candidate" > /dev/null 2>&1; then
      package=$candidate
      break
    fi
  done
  chosen+=("$package")
done <<< "$wanted"
as_root apt-get install -q -y --no-install-recommends "${chosen[@]}" < /dev/null

wanted=$(missing)
if [ -n "$wanted" ]; then
  echo "setup: still missing after the installation: $wanted" >&2
  exit 1
fi
check_compiler
install_go_tools
install_clients
