#!/bin/sh
# timeout: 200
# What becomes of a job whose simulator is ended while its ranks run: by its filter of system calls,
# which is our fault, or by whoever may kill it.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
dir=$(mktemp -d)
worker=
trap 'kill "$worker" 2>/dev/null || true; rm -rf "$dir"' EXIT
number=0

# The processes below process $1 that are called $2.
below()
{
    for child in $(ps -o pid= --ppid "$1"); do
        [ "$(cat "/proc/$child/comm" 2>/dev/null)" != "$2" ] || echo "$child"
        below "$child" "$2"
    done
}

# Whether process $1 has used more than 100 ms of a processor: the kernel that never ends runs.
works()
{
    [ "$(cut -d' ' -f14 "/proc/$1/stat" 2>/dev/null || echo 0)" -gt 10 ]
}

# dies SIGNAL JQ_CONDITION SENTENCE
dies()
{
    "$BUILD/bin/pkb-worker" --once tests/fixtures/endless_kernel.cu --task allreduce --world 2 \
        --work-dir "$dir" --fuel 100000000000 >"$dir/out" 2>"$dir/err" &
    worker=$!
    simulator=
    until [ -n "$simulator" ] && works "$simulator"; do
        kill -0 "$worker" || break
        sleep 0.1
        simulator=$(below "$worker" simd | tail -n 1)
    done
    kill -s "$1" "$simulator"
    wait "$worker" || true
    number=$((number + 1))
    if jq -e "$2" "$dir/out" >/dev/null; then
        echo "ok $number - $3"
    else
        echo "not ok $number - $3"
        head -c 1000 "$dir/out" "$dir/err" | sed 's/^/# /'
    fi
}

dies SYS '.verdict == "internal_error" and (.message | contains("the simulator") and
    contains("SIGSYS"))' "a call that its filter refuses is named, and nobody's fault but ours"
dies KILL '.verdict == "runtime_error" and .reason == "killed_evaluator"' \
    "who kills it while code of the submission runs is to blame"
echo "1..$number"
