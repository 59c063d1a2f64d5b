#!/bin/sh
# The report of a deadlock says who waits where for what, soon after the run has begun.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
source=tests/fixtures/no_signal.cu
number=0

# holds TEXT CONDITION: the condition is true of the result.
holds()
{
    number=$((number + 1))
    if jq -e "$2" "$dir/result" >/dev/null; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
    fi
}

# What other tests do at the same time may slow it down, but not three times.
for attempt in 1 2 3; do
    "$BUILD/bin/pkb-worker" --once "$source" --task allreduce --world 4 --device sim \
        >"$dir/result" 2>"$dir/log" || true
    ! jq -e '.run_ms < 2000' "$dir/result" >"$dir/attempt$attempt" || break
done
line=$(grep -n '/\* here \*/' "$source" | cut -d : -f 1)

holds "rank 1 never signals: the verdict is deadlock" '.verdict == "deadlock"'
holds "every rank is in the report" '[.waits[].rank] | unique == [0, 1, 2, 3]'
holds "they wait in the kernel" 'all(.waits[]; .where == "kernel")'
holds "the kernel is named" 'all(.waits[]; .kernel | startswith("allreduce"))'
holds "the line is named" \
    "[.waits[] | select(.source == \"solution.cu:$line\") | .rank] | unique == [0, 1, 2, 3]"
holds "block, warp and lanes are named" 'all(.waits[]; .cta >= 0 and .warp >= 0 and .lanes != 0)'
holds "rank 0 waits for a word of its own signal pad" \
    'any(.waits[]; .rank == 0 and .owner == 0 and (.address | test("^rank 0 signal\\+[0-9]+$")))'
holds "the value is what lies there" 'any(.waits[]; .rank == 0 and .value == "0")'
holds "the word of rank 1 was never written" \
    'any(.waits[]; .rank == 0 and .last_writer == "never written")'
holds "it came within 2 s of the start of the run" '.run_ms < 2000'
if [ "$number" -ne 10 ] || ! jq -e '.verdict == "deadlock"' "$dir/result" >/dev/null; then
    tail -n 5 "$dir/log" | sed 's/^/# /'
fi
jq -c '.waits' "$dir/result" 2>/dev/null | cut -c 1-4000 | sed 's/^/# /'
jq -r '"# run_ms \(.run_ms) build_ms \(.build_ms)"' "$dir/result" 2>/dev/null || true
echo "1..$number"
