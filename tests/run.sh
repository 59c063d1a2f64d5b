#!/bin/sh
# Runs every test program of $BUILD/tests and every tests/e2e script, two at a time, and prints one
# line for each, the output of those that failed, and the counts. Each speaks TAP.
#
#   sh tests/run.sh            all
#   sh tests/run.sh NAME...    those only: test_queue, e2e/full, ...
#   JOBS=N                     so many at a time (2)
#   SKIPS=forbidden            a skip is a failure
#
# A program has 300 s, a script what its line '# timeout: SECONDS' says, or as much. One with a line
# '# only: all' is left out of `all` unless TESTS=all.
set -eu
cd "$(dirname "$0")/.."

BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$(pwd)/$BUILD ;; esac
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
export BUILD CUDA_HOME
logs=$BUILD/tests/log

# Where a missing GPU, or a sandbox layer that this machine lacks, is not what a skipped test names,
# the skip is a failure.
count='
/^(not )?ok .*# [Ss][Kk][Ii][Pp]/ {
    if (skips != "forbidden" && tolower($0) ~ /gpu|layer/) { skipped++ } else { failed++ }
    next
}
/^ok / { passed++ }
/^not ok / { failed++ }
/^1\.\.[0-9]+/ { planned += substr($1, 4) }
END {
    seen = passed + failed + skipped
    if (planned > seen) { failed += planned - seen }
    if (seen == 0 && planned == 0) { failed++ }
    if (status != 0 && failed == 0) { failed++ }
    printf "%d %d %d\n", passed, failed, skipped
}'

# Runs test $1 and leaves its output in $logs/NAME.out and its counts in $logs/NAME.count.
run_one()
{
    name=$1
    log=$logs/$(echo "$name" | tr / _)
    start=$(date +%s)
    status=0
    case $name in
    e2e/*)
        limit=$(sed -n 's/^# timeout: \([0-9]*\)$/\1/p' "tests/$name.sh")
        timeout -k 5 "${limit:-300}" sh "tests/$name.sh" >"$log.out" 2>&1 || status=$?
        ;;
    *)
        CMOCKA_MESSAGE_OUTPUT=TAP LD_LIBRARY_PATH=$BUILD/lib/sim:$CUDA_HOME/lib64 \
            timeout -k 5 300 "$BUILD/tests/$name" >"$log.out" 2>&1 || status=$?
        ;;
    esac
    case $status in
    124 | 137) echo "not ok - $name ran past its time" >>"$log.out" ;;
    esac
    awk -v status=$status -v skips="${SKIPS:-}" "$count" "$log.out" >"$log.count"
    read -r passed failed skipped <"$log.count"
    verdict=ok
    [ "$failed" -eq 0 ] || verdict=FAILED
    line=$(printf '%-6s %-28s %3d passed, %d failed, %d skipped  %3d s' \
        "$verdict" "$name" "$passed" "$failed" "$skipped" $(($(date +%s) - start)))
    if [ "$failed" -ne 0 ]; then
        line="$line
$(tail -c 20000 "$log.out" | sed 's/^/    /')"
    fi
    printf '%s\n' "$line"
}

if [ "${1:-}" = --one ]; then
    run_one "$2"
    exit 0
fi

mkdir -p "$logs"
rm -f "$logs"/*.count "$logs"/*.out
if [ $# -eq 0 ]; then
    # The scripts first: they take longest.
    for test in tests/e2e/*.sh tests/test_*.c; do
        [ -e "$test" ] || continue
        [ "${TESTS:-}" = all ] || ! grep -q '^# only: all$' "$test" || continue
        test=${test#tests/}
        test=${test%.sh}
        set -- "$@" "${test%.c}"
    done
fi
[ $# -ne 0 ] || set -- none
printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -n 1 sh tests/run.sh --one

cat "$logs"/*.count | awk '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed != 0 || passed == 0
    }'
