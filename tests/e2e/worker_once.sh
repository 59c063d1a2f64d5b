#!/bin/sh
# timeout: 200
# One evaluation without a server: what it prints, refuses and leaves behind; and what the daemon
# refuses before it starts.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
number=0
source=tests/fixtures/zeros.cu

report()
{
    number=$((number + 1))
    if [ "$1" = true ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        head -c 1000 "$dir/out" "$dir/err" | sed 's/^/# /'
    fi
}

# refuses CODE PATTERN ARGUMENT...: exits so, says that, and prints nothing on stdout.
refuses()
{
    code=$1
    pattern=$2
    shift 2
    status=0
    "$BUILD/bin/pkb-worker" "$@" >"$dir/out" 2>"$dir/err" || status=$?
    report "$([ $status -eq "$code" ] && [ ! -s "$dir/out" ] && grep -q -e "$pattern" "$dir/err" &&
        echo true)" "exit code $code, '$pattern': $*"
}

refuses 2 "has to name a task" --once $source
refuses 2 "has to name a task" --once $source --task nothing --world 2
refuses 2 "1, 2, 4, 8" --once $source --task 1 --world 3
refuses 2 "bf16, fp16, fp32" --once $source --task 1 --world 2 --dtype int8
refuses 2 "does not know" --once $source --task 1 --world 2 --dtype bf17
refuses 2 "a number up to 8" --once $source --task 1 --world 9
refuses 2 "a number up to" --once $source --task 1 --world 2 --seed x
refuses 2 "not expected" --once $source --task 1 --world 2 more
refuses 2 "unknown option" --twice
refuses 1 "cannot open" --once "$dir/none.cu" --task 1 --world 2
refuses 1 "cannot use" --once $source --task 1 --world 2 --work-dir "$dir/none"
: >"$dir/empty.cu"
refuses 2 "is empty" --once "$dir/empty.cu" --task 1 --world 2
head -c 262145 /dev/zero >"$dir/large.cu"
refuses 1 "over 262144 bytes" --once "$dir/large.cu" --task 1 --world 2
refuses 2 "are needed" --server http://127.0.0.1:1 --device sim
refuses 1 "cannot open" --server http://127.0.0.1:1 --token-file "$dir/none" --name a
: >"$dir/empty"
refuses 2 "holds no token" --server http://127.0.0.1:1 --token-file "$dir/empty" --name a
echo token >"$dir/token"
refuses 2 "has no '/'" --server http://127.0.0.1:1 --token-file "$dir/token" --name a/b

refuses 2 "the simulator has no times" --once $source --task 1 --world 2 --bench
refuses 2 "exclusive-timing" --once $source --task 1 --world 2 --exclusive-timing perhaps
if [ ! -e /dev/nvidiactl ]; then
    refuses 78 "no GPU can be used" --server http://127.0.0.1:1 --token-file "$dir/token" \
        --name a --device cuda
    refuses 78 "no GPU can be used" --once $source --task 1 --world 2 --device cuda-shared
fi

# What the node lacks is found before a job is taken.
home=$CUDA_HOME
export CUDA_HOME="$dir/none"
refuses 78 "$dir/none/bin/nvcc" --once $source --task 1 --world 2
refuses 78 "$dir/none/bin/nvcc" --server http://127.0.0.1:1 --token-file "$dir/token" --name a
export CUDA_HOME=cuda
refuses 78 "CUDA_HOME 'cuda'" --once $source --task 1 --world 2
export CUDA_HOME="$home"
refuses 78 "$dir/pkb-judge" --once $source --task 1 --world 2 --bin-dir "$dir"

# Two at a time in one work directory.
mkdir "$dir/work"
for run in 1 2; do
    "$BUILD/bin/pkb-worker" --once $source --task 1 --world 2 --work-dir "$dir/work" --seed 5 \
        >"$dir/out.$run" 2>"$dir/err" &
done
wait
cat "$dir/out.1" "$dir/out.2" >"$dir/out"
report "$([ "$(jq -r .verdict "$dir/out")" = "$(printf 'wrong_answer\nwrong_answer')" ] &&
    echo true)" "two at a time in one directory"
report "$([ "$(wc -l <"$dir/out")" -eq 2 ] && echo true)" "each prints one line, the result"
report "$([ "$(jq -c .mismatch "$dir/out" | sort -u | wc -l)" -eq 1 ] && echo true)" \
    "the same seed finds the same element"
report "$([ -z "$(ls "$dir/work")" ] && echo true)" "nothing is left in the work directory"

# A signal ends it, with all that it started.
"$BUILD/bin/pkb-worker" --once tests/fixtures/endless_kernel.cu --task 1 --world 2 \
    --work-dir "$dir/work" >"$dir/out" 2>"$dir/err" &
worker=$!
until [ -n "$(ls "$dir/work")" ]; do
    sleep 0.05
done
kill -TERM $worker
wait $worker && status=0 || status=$?
report "$([ $status -eq 1 ] && [ ! -s "$dir/out" ] && echo true)" "SIGTERM ends it without a result"
report "$([ -z "$(ls "$dir/work")" ] && echo true)" "and leaves nothing behind"
echo "1..$number"
