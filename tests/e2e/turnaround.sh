#!/bin/sh
# timeout: 300
# The script that measures turnaround on a GPU (tests/gpu/turnaround.sh) works, on the simulator:
# every kind of job has its verdict over HTTP. Few jobs; with TESTS=all one round of all kinds.
set -eu
cd "$(dirname "$0")/../.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
jobs=3
[ "${TESTS:-}" != all ] || jobs=30
JOBS=$jobs SINGLES=1 sh tests/gpu/turnaround.sh sim >"$out" 2>&1 || echo "# it failed" >>"$out"
number=0
for row in single mixed; do
    number=$((number + 1))
    word="not ok"
    ! grep -q "^ok $row " "$out" || word=ok
    echo "$word $number - $row: $(sed -n "s/^[a-zA-Z]* $row //p" "$out")"
done
sed 's/^/# /' "$out"
echo "1..$number"
