#!/bin/sh
# Runs the target $FUZZ for $SECONDS seconds on its corpus. What it finds is kept in $WORK/corpus;
# an input that crashes, hangs or takes too much memory is left in $WORK/found/ and named.
set -eu
cd "$(dirname "$0")/../.."

PROGRAM=${PROGRAM:-build-fuzz/fuzz/pkb-fuzz}
WORK=${WORK:-build-fuzz}
export LD_LIBRARY_PATH="${LIBRARIES:-}"
targets=$(env -u FUZZ "$PROGRAM")
seeds=$(echo "$targets" | sed -n "s/^$FUZZ //p")
if [ -z "$seeds" ]; then
    echo "no target '$FUZZ'; there are:" $(echo "$targets" | cut -d' ' -f1) >&2
    exit 2
fi
mkdir -p "$WORK/found" "$WORK/corpus/$FUZZ"
set -- "$WORK/corpus/$FUZZ" "tests/fuzz/corpus/$seeds"
[ ! -e "tests/fuzz/$seeds.dict" ] || set -- "-dict=tests/fuzz/$seeds.dict" "$@"
case $FUZZ in
requests | peers) length=4096 ;;
json | reports | http) length=16384 ;;
*) length=65536 ;;
esac
# Freed memory that is kept to find its use counts as memory.
export FUZZ ASAN_OPTIONS=quarantine_size_mb=32
exec nice -n 10 "$PROGRAM" -max_total_time="$SECONDS" -timeout=20 -report_slow_units=20 \
    -rss_limit_mb=1024 -malloc_limit_mb=512 -max_len=$length \
    -artifact_prefix="$WORK/found/$FUZZ-" -print_final_stats=1 "$@"
