# Finds Go for cluster/ and sets its environment. For scripts and make, which source this file:
#
#   . scripts/go_env.sh && use_go && cd cluster && go test ./...
#
# The caller stands in the project's root. GO_CACHE_DIR is where scripts/setup.sh puts the tools that
# no package of Debian has, by default ~/.cache/engine_race.
go_release=1.26.8
staticcheck_release=v0.8.2
go_cache=${GO_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/engine_race}
cluster_clients=$go_cache/clients
staticcheck_program=$go_cache/staticcheck-$staticcheck_release/staticcheck

# Whether a directory has a Go that is new enough for cluster/go.mod.
go_suffices() {
  local needed has
  [ -x "$1/go" ] || return 1
  needed=$(sed -n 's/^go //p' cluster/go.mod)
  has=$(cd / && GOTOOLCHAIN=local "$1/go" version | sed -n 's/^go version go\([0-9.]*\).*/\1/p')
  [ -n "$has" ] && [ "$(printf '%s\n' "$needed" "$has" | sort -V | head -n 1)" = "$needed" ]
}

# The directory of a Go that is new enough, or a failure.
find_go() {
  local directory
  for directory in "$(dirname "$(command -v go || echo /none/go)")" /usr/local/go/bin \
      "$go_cache/go-$go_release/bin"; do
    if go_suffices "$directory"; then
      echo "$directory"
      return
    fi
  done
  return 1
}

# Flags of `go test` for make build-cluster and scripts/test_cluster.sh: with other flags Go would compile all
# packages again. In CI the race detector is on only if SCOPE has `go`. scripts/check_go.sh runs go vet.
go_test_flags="-vet=off -race"
case " ${SCOPE-go} " in *' go '*) ;; *) go_test_flags=-vet=off ;; esac

# Puts a new enough Go into PATH. Go's cache of builds knows neither the engine's archive nor its
# header: the flags name both by a checksum, so that changed ones compile and link again.
use_go() {
  local directory archive
  directory=$(find_go) || {
    echo "Go $go_release is missing: scripts/setup.sh cluster brings it" >&2
    return 1
  }
  unset GOROOT
  export PATH=$directory:$PATH GOTOOLCHAIN=local GOWORK=off CLUSTER_CLIENTS=$cluster_clients
  archive=none
  [ ! -f lib/libengine.a ] || archive=$(cksum < lib/libengine.a | tr ' ' -)
  export GOFLAGS="-buildvcs=false -trimpath -ldflags=-X=engine_race/cluster/engine.archiveChecksum=$archive"
  export CGO_CFLAGS="-O2 -g -DENGINE_RACE_HEADER_CHECKSUM=$(cksum < include/engine_race_c.h | cut -d ' ' -f 1)"
}
