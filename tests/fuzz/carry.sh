#!/bin/sh
# Makes build-fuzz/carry: the fuzzer with the libraries that it needs beside libc, the corpus, and
# the scripts, so that `sh build-fuzz/carry/tests/fuzz/long.sh` runs where there is no compiler.
set -eu
cd "$(dirname "$0")/../.."

carry=build-fuzz/carry
rm -rf "$carry"
mkdir -p "$carry/lib" "$carry/tests/fuzz"
cp build-fuzz/fuzz/pkb-fuzz "$carry/"
strip --strip-debug "$carry/pkb-fuzz"
cp -r tests/fuzz/corpus tests/fuzz/*.dict tests/fuzz/run.sh tests/fuzz/long.sh "$carry/tests/fuzz/"
libc='^(libc|libm|libdl|libpthread|librt|libresolv)[.]so'
ldd "$carry/pkb-fuzz" | awk -v libc="$libc" '$3 ~ /^\// && $1 !~ libc { print $3 }' |
    while read -r library; do
        cp "$library" "$carry/lib/"
    done
du -sh "$carry" | cut -f1
