#!/bin/bash
# Starts a cluster of three nodes on loopback and stops it at Ctrl-C.
#
#   scripts/cluster_demo.sh [DIRECTORY]
#
# DIRECTORY gets configurations, data and logs, and is kept; by default they go to a temporary
# directory, which is deleted at the end. CLUSTER_DEMO_PORT is the first port: node N serves clients
# on PORT + N, other nodes on PORT + 100 + N, and its admin page on PORT + 200 + N.
# CLUSTER_DEMO_SHARDS says how many shards there are, and CLUSTER_DEMO_VALUE_BYTES how long values are.
set -uo pipefail
given=${1:+$(realpath -m -- "$1")}
cd "$(dirname "$0")/.."
program=$PWD/bin/engine-raced
port=${CLUSTER_DEMO_PORT:-7000}
shards=${CLUSTER_DEMO_SHARDS:-4}
value_bytes=${CLUSTER_DEMO_VALUE_BYTES:-4096}
wait_s=60
[ -x "$program" ] || { echo "demo: $program was not built: make cluster" >&2; exit 1; }

pids=()
stop() {
  trap '' INT TERM
  local pid
  [ ${#pids[@]} = 0 ] || kill -TERM "${pids[@]}" 2> /dev/null
  for pid in "${pids[@]}"; do wait "$pid" 2> /dev/null; done
  [ -z "${temporary:-}" ] || rm -rf "$temporary"
}
trap stop EXIT
trap 'echo; echo "demo: stopping"; exit 0' INT TERM

if [ -n "$given" ]; then
  directory=$given
  mkdir -p "$directory" || exit
else
  directory=$(mktemp -d) temporary=$directory
fi

node_table() {
  local node
  for node in 1 2 3; do
    printf '  {id = %d, raft = "127.0.0.1:%d", client = "127.0.0.1:%d", admin = "127.0.0.1:%d"},\n' \
      $node $((port + 100 + node)) $((port + node)) $((port + 200 + node))
  done
}

write_configuration() {  # node
  cat > "$directory/node$1.toml" << END
node_id = $1
data_dir = "$directory/node$1"
raft_address = "127.0.0.1:$((port + 100 + $1))"
client_address = "127.0.0.1:$((port + $1))"
admin_address = "127.0.0.1:$((port + 200 + $1))"

[cluster]
name = "demo"
shards = $shards
replicas = 3
value_bytes = $value_bytes
nodes = [
$(node_table)
]

[log]
level = "info"
format = "text"
END
}

# Whether a node takes requests.
is_ready() {
  { exec 9<> "/dev/tcp/127.0.0.1/$((port + 200 + $1))"; } 2> /dev/null || return 1
  printf 'GET /readyz HTTP/1.0\r\n\r\n' >&9
  local answer
  read -r -t 5 answer <&9
  exec 9>&-
  [[ $answer == *' 200 '* ]]
}

for node in 1 2 3; do
  [ -e "$directory/node$node.toml" ] && continue
  write_configuration $node
  # A file without a node would keep the next run from making one.
  if ! "$program" init --config "$directory/node$node.toml"; then
    rm "$directory/node$node.toml"
    exit 1
  fi
done
# In sessions of their own: Ctrl-C must not reach them before this script, which ends them in order.
for node in 1 2 3; do
  setsid "$program" serve --config "$directory/node$node.toml" >> "$directory/node$node.log" 2>&1 &
  pids+=($!)
done

end=$((SECONDS + wait_s))
for node in 1 2 3; do
  until is_ready $node; do
    if ! kill -0 "${pids[node - 1]}" 2> /dev/null || [ $SECONDS -ge $end ]; then
      echo "demo: node $node did not become ready; the end of $directory/node$node.log:" >&2
      tail -n 20 "$directory/node$node.log" >&2
      exit 1
    fi
    sleep 0.2
  done
done

cat << END
demo: three nodes serve $shards shards from $directory
$(for node in 1 2 3; do
    echo "  node $node: clients 127.0.0.1:$((port + node)), admin 127.0.0.1:$((port + 200 + node))"
  done)
Keys have 8 bytes and values $value_bytes. Any node answers for any key:
  head -c $value_bytes /dev/zero | tr '\\0' v | redis-cli -p $((port + 1)) -x SET 8bytes-1
  redis-cli -p $((port + 2)) GET 8bytes-1 | head -c 40
  redis-cli -p $((port + 3)) INFO
  $program status --admin 127.0.0.1:$((port + 201))
Ctrl-C stops all nodes.
END
wait
