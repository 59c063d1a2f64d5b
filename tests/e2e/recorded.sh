#!/bin/sh
# What the simulator makes of the kernels of tests/gpu/kernels is what an H200 made of them when
# tests/gpu/records/h200-seed1.tar.xz was recorded: integers and exact operations bit by bit, others
# within their bound. Those of tests/gpu/records/check.txt, with TESTS=all every recorded one.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tar -xJf tests/gpu/records/h200-seed1.tar.xz -C "$scratch"
names=$(cat tests/gpu/records/check.txt)
if [ "${TESTS:-}" = all ]; then
    names=$(find "$scratch" -name '*.1' -exec basename {} .1 \; | LC_ALL=C sort)
fi

# Simulates program $1 with the recorded seed; prints what is not as recorded.
differences()
{
    timeout 120 "$BUILD/gpu/simulate" "$BUILD/gpu/$1" "$scratch/$1.sim" 1 2>&1 | tail -n 5
    if [ ! -s "$scratch/$1.sim" ]; then
        echo "the program has not ended well"
    elif ! "$BUILD/gpu/compare" "$scratch/$1.sim" "$scratch/$1.1" >"$scratch/log" 2>&1; then
        cat "$scratch/log"
    fi
}

echo "1..$(echo "$names" | wc -l)"
for name in $names; do
    wrong=$(differences "$name")
    if [ -z "$wrong" ]; then
        echo "ok - $name gives what an H200 gave"
    else
        echo "not ok - $name gives what an H200 gave"
        printf '%s\n' "$wrong" | sed 's/^/# /'
    fi
done
