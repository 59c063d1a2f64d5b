#!/bin/sh
# timeout: 1800
# Every submission of tests/hostile gets the verdict in the simulator that expected.tsv says; with
# TESTS=all also in the worlds that are marked by a `+`.
#
#   sh tests/e2e/hostile.sh          as above
#   sh tests/e2e/hostile.sh NAME...  all lines of those
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD
table=tests/hostile/expected.tsv

# Evaluates line $1 of the table and prints its line of TAP.
one()
{
    tab=$(printf '\t')
    IFS=$tab read -r file task world verdict reason _ <<END
$(sed -n "$1p" "$table")
END
    world=${world#+}
    folder=$(mktemp -d)
    case $file in
    */*) cp "tests/$file.cu" "$folder/solution.cu" ;;
    *) cat tests/hostile/work.cuh "tests/hostile/$file.cu" >"$folder/solution.cu" ;;
    esac
    nice "$BUILD/bin/pkb-worker" --once "$folder/solution.cu" --task "$task" --world "$world" \
        --device sim --schedules 1 >"$folder/result" 2>"$folder/log" || true
    got=$(jq -r '"\(.verdict) \(.reason // "-")"' "$folder/result" 2>/dev/null) || got=
    title="$file on $world ranks: $verdict $reason"
    {
        if [ "$got" = "$verdict $reason" ]; then
            echo "ok - $title"
        else
            echo "not ok - $title"
            echo "# ${got:-no result}"
            jq -c 'del(.traffic)' "$folder/result" 2>/dev/null | cut -c 1-1500 | sed 's/^/# /'
            tail -n 5 "$folder/log" | sed 's/^/# /'
        fi
    } >"$folder/tap"
    cat "$folder/tap"
    rm -rf "$folder"
}

if [ "${1:-}" = --line ]; then
    one "$2"
    exit 0
fi

rows='^[a-z]'
[ "${TESTS:-}" = all ] || rows='^[a-z][^	]*	[a-z]*	[0-9]'
lines=$(grep -n "$rows" "$table" | cut -d : -f 1)
if [ $# -ne 0 ]; then
    lines=$(for name in "$@"; do
        grep -n "^$name	" "$table" | cut -d : -f 1
    done)
fi
# shellcheck disable=SC2086 # a list of numbers
set -- $lines
echo "1..$#"
printf '%s\n' "$@" | xargs -P 2 -n 1 sh tests/e2e/hostile.sh --line
