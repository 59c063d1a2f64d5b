#!/bin/sh
# Every target at once, for SECONDS seconds (600) on JOBS processors (all): a table of what each has
# tried, reached and found, and the inputs that crash, hang or take too much memory in $OUT. Exits
# with 1 where there are any.
#
#     make fuzz-carry && SECONDS=600 OUT=out sh build-fuzz/carry/tests/fuzz/long.sh
set -u
cd "$(dirname "$0")/../.."

export PROGRAM="$PWD/pkb-fuzz"
if [ -x "$PROGRAM" ]; then
    export LIBRARIES="$PWD/lib"
else
    PROGRAM=$PWD/build-fuzz/fuzz/pkb-fuzz
fi
SECONDS=${SECONDS:-600}
JOBS=${JOBS:-$(nproc)}
RESTARTS_MAX=50 # of a process: what it finds ends it
OUT=${OUT:-fuzz-out}
mkdir -p "$OUT/work" || exit 2
OUT=$(cd "$OUT" && pwd)
export WORK="$OUT/work"
targets=$(LD_LIBRARY_PATH=${LIBRARIES:-} env -u FUZZ "$PROGRAM" | cut -d' ' -f1)
[ -n "$targets" ] || exit 2
count=$(echo "$targets" | wc -l)
start=$(date +%s)

# One process of a target, again and again until the time is over.
drive() {
    restarts=0
    while left=$((start + SECONDS - $(date +%s))) && [ "$left" -gt 1 ] &&
        [ "$restarts" -lt "$RESTARTS_MAX" ]; do
        FUZZ=$1 SECONDS=$left sh tests/fuzz/run.sh >>"$WORK/$1.$2.log" 2>&1
        restarts=$((restarts + 1))
    done
}

# What processors are left go to those that run whole kernels and machines.
spare=$((JOBS > count ? JOBS - count : 0))
for target in $targets; do
    case $target in
    exec) processes=$((1 + (spare + 1) / 2)) ;;
    requests | ptx) processes=$((1 + spare / 4)) ;;
    *) processes=1 ;;
    esac
    for number in $(seq "$processes"); do
        drive "$target" "$number" &
    done
done
wait

printf '%-10s %14s %9s %9s %7s %6s\n' target executions coverage features corpus found
total=0
all=0
for target in $targets; do
    logs=$(ls "$WORK/$target".*.log)
    executions=$(cat $logs | sed -n 's/^stat::number_of_executed_units: //p' |
        awk '{ sum += $1 } END { print sum + 0 }')
    coverage=$(sed -n 's/^#.* cov: \([0-9]*\).*/\1/p' $logs | sort -n | tail -1)
    features=$(sed -n 's/^#.* ft: \([0-9]*\).*/\1/p' $logs | sort -n | tail -1)
    found=0
    for input in "$WORK/found/$target"-*; do
        [ -e "$input" ] || continue
        found=$((found + 1))
        cp "$input" "$OUT/"
    done
    total=$((total + executions))
    all=$((all + found))
    printf '%-10s %14s %9s %9s %7s %6s\n' "$target" "$executions" "${coverage:-?}" \
        "${features:-?}" "$(ls "$WORK/corpus/$target" | wc -l)" "$found"
    grep -hE '^SUMMARY|Assertion|runtime error' $logs | sort | uniq -c | sort -rn | head -8
done
printf '%-10s %14s %34s\n' all "$total" "$all"
[ "$all" -eq 0 ]
