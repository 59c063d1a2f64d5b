#!/bin/sh
# timeout: 60
# The quick lines of `make bench`: each is a name, a positive number and a unit, in the output and
# in bench.json alike, and a name that it does not know ends it.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/build"
for folder in bench bin lib; do
    ln -s "$(cd "$BUILD" && pwd)/$folder" "$dir/build/$folder"
done
number=0

check()
{
    number=$((number + 1))
    what=$1
    shift
    if "$@" >"$dir/log" 2>&1; then
        echo "ok $number - $what"
    else
        echo "not ok $number - $what"
        sed 's/^/# /' "$dir/log"
    fi
}

is_complete()
{
    awk '
    NF != 3 || $2 !~ /^[0-9.e+-]+$/ || $2 + 0 <= 0 || $2 + 0 > 1e6 { print; bad = 1 }
    { names = names " " $1 }
    END { exit bad || names != " bench.cal sim.saxpy sim.copy128" }' "$dir/lines"
}

is_same_in_json()
{
    jq -r '.figures[] | "\(.name) \(.value) \(.unit)"' "$dir/build/bench.json" >"$dir/json" &&
        awk '{ print $1, $2 + 0, $3 }' "$dir/lines" >"$dir/plain" &&
        awk '{ print $1, $2 + 0, $3 }' "$dir/json" | diff "$dir/plain" - &&
        jq -e '(.cpu | length > 0) and .cores > 0 and (.date | test("^20..-.*Z$"))' \
            "$dir/build/bench.json"
}

bench()
{
    BUILD=$dir/build SAMPLE_MS=1 sh tests/bench/bench.sh "$@"
}

refuses_unknown()
{
    ! bench sim.nothing
}

bench bench.cal sim.saxpy sim.copy128 >"$dir/lines" 2>"$dir/errors" || cat "$dir/errors"
check "each line is a name, a positive number and a unit" is_complete
check "bench.json has the same figures, the processor and the date" is_same_in_json
check "a figure that it does not know is refused" refuses_unknown
echo "1..$number"
