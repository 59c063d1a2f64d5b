#!/bin/sh
# Every target at once, for SECONDS seconds (600) on JOBS processors (all): a table of what each has
# tried, reached and found, and new inputs that crash, hang or take too much memory in $OUT.
# Exits with 1 where there are any.
#
#     make fuzz-carry && SECONDS=600 OUT=out sh build-fuzz/carry/tests/fuzz/long.sh
set -u
cd "$(dirname "$0")/../.."

export PROGRAM="$PWD/pkb-fuzz" SECONDS="${SECONDS:-600}"
[ -x "$PROGRAM" ] || PROGRAM=$PWD/build-fuzz/fuzz/pkb-fuzz
JOBS=${JOBS:-$(nproc)}
OUT=${OUT:-fuzz-out}
mkdir -p "$OUT" || exit 2
OUT=$(cd "$OUT" && pwd)
export WORK="$OUT/work"
mkdir -p "$WORK"
targets=$(env -u FUZZ "$PROGRAM" | cut -d' ' -f1) || exit 2
count=$(echo "$targets" | wc -l)
echo "$count targets for $SECONDS s on $JOBS processors"

# Each has one process; what processors are left go to those that run whole kernels and machines.
spare=$((JOBS - count))
for target in $targets; do
    fork=1
    case $target in
    exec) [ "$spare" -le 0 ] || fork=$((1 + (spare + 1) / 2)) ;;
    ptx | requests) [ "$spare" -le 3 ] || fork=$((1 + spare / 4)) ;;
    esac
    FORK=$fork FUZZ=$target sh tests/fuzz/run.sh >"$WORK/$target.log" 2>&1 &
done
wait

field() { sed -n "s/.*$2 \([0-9]*\).*/\1/p" "$WORK/$1.log" | tail -1; }
printf '%-10s %12s %9s %9s %7s %7s\n' target executions coverage features corpus found
total=0
all=0
for target in $targets; do
    # With -fork: "#123: cov: 45 ft: 67 corp: 8 exec/s 9 oom/timeout/crash: 0/0/0 time: 10s ..."
    line=$(grep -E '^#[0-9]+: cov:' "$WORK/$target.log" | tail -1)
    executions=$(echo "$line" | sed -n 's/^#\([0-9]*\):.*/\1/p')
    coverage=$(echo "$line" | sed -n 's/.* cov: \([0-9]*\).*/\1/p')
    features=$(echo "$line" | sed -n 's/.* ft: \([0-9]*\).*/\1/p')
    found=0
    for input in "$WORK/found/$target-"*; do
        [ -e "$input" ] || continue
        found=$((found + 1))
        cp "$input" "$OUT/"
    done
    all=$((all + found))
    total=$((total + ${executions:-0}))
    printf '%-10s %12s %9s %9s %7s %7s\n' "$target" "${executions:-?}" "${coverage:-?}" \
        "${features:-?}" "$(ls "$WORK/corpus/$target" 2>/dev/null | wc -l)" "$found"
    [ "$found" -eq 0 ] || grep -hE 'SUMMARY|Assertion' "$WORK/$target.log" | sort | uniq -c | sort -rn | head -5
    [ -n "$line" ] || tail -5 "$WORK/$target.log"
done
printf '%-10s %12s %36s\n' all "$total" "$all"
[ "$all" -eq 0 ]
