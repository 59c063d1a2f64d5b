#!/bin/sh
# Takes a real CUDA all-reduce that reads its peers' memory, compiles it with nvcc, runs it on four
# simulated ranks, judges it, and shows it on the task's board. Leaves nothing behind.
set -eu
cd "$(dirname "$0")/.."
. tests/service.sh
trap service_stop EXIT
trap 'exit 130' INT TERM

say()
{
    printf '\n\033[1m$ %s\033[0m\n' "$*"
    "$@"
}

service_start
worker_start
say pkb tasks
say pkb submit tests/fixtures/allreduce_loads.cu --task allreduce --world 4 --model demo --wait
say pkb board allreduce --world 4
