#!/bin/sh
# Runs build-fuzz/fuzz/$FUZZ for $SECONDS seconds on its corpus. What it finds is kept in
# build-fuzz/corpus/$FUZZ; an input that crashes, hangs or takes too much memory is left in
# build-fuzz/found/ and named.
set -eu
cd "$(dirname "$0")/../.."

found=build-fuzz/found/$FUZZ-
corpus=build-fuzz/corpus/$FUZZ
mkdir -p build-fuzz/found "$corpus"
seeds=$FUZZ
[ "$FUZZ" != exec ] || seeds=ptx
set -- "$corpus" "tests/fuzz/corpus/$seeds"
[ ! -e "tests/fuzz/$seeds.dict" ] || set -- "-dict=tests/fuzz/$seeds.dict" "$@"
exec nice -n 19 "build-fuzz/fuzz/$FUZZ" -max_total_time="$SECONDS" -timeout=10 -rss_limit_mb=512 \
    -malloc_limit_mb=512 -max_len=65536 -artifact_prefix="$found" -print_final_stats=1 "$@"
