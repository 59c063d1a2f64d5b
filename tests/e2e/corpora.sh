#!/bin/sh
# timeout: 3600
# Every submission of tests/hostile gets the verdict in the simulator that its expected.tsv says,
# and every one of tests/honest is accepted; with TESTS=all also in the worlds that are marked by a
# `+`.
#
#   sh tests/e2e/corpora.sh          as above
#   sh tests/e2e/corpora.sh NAME...  all lines of those
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD

# Both tables, with the folder in front.
rows()
{
    sed -n 's/^[a-z.]/hostile	&/p' tests/hostile/expected.tsv
    sed -n 's/^[a-z.]/honest	&/p' tests/honest/expected.tsv | sed 's/$/	accepted	-/'
}

# Evaluates line $1 of the tables and prints its line of TAP.
one()
{
    tab=$(printf '\t')
    IFS=$tab read -r corpus file task world verdict reason _ <<END
$(rows | sed -n "$1p")
END
    world=${world#+}
    folder=$(mktemp -d)
    case $file in
    */*) cp "tests/$file.cu" "$folder/solution.cu" ;;
    *) cat tests/hostile/work.cuh "tests/$corpus/$file.cu" >"$folder/solution.cu" ;;
    esac
    nice "$BUILD/bin/pkb-worker" --once "$folder/solution.cu" --task "$task" --world "$world" \
        --device sim --schedules 1 >"$folder/result" 2>"$folder/log" || true
    got=$(jq -r '"\(.verdict) \(.reason // "-")"' "$folder/result" 2>/dev/null) || got=
    title="$corpus: $file on $world ranks: $verdict $reason"
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

wanted='	[0-9]'
[ "${TESTS:-}" != all ] || wanted='	[+0-9]'
if [ $# -ne 0 ]; then
    lines=$(for name in "$@"; do
        rows | grep -n "^[a-z]*	$name	" | cut -d : -f 1
    done)
else
    lines=$(rows | grep -n "^[a-z]*	[^	]*	[^	]*$wanted" | cut -d : -f 1)
fi
# shellcheck disable=SC2086 # a list of numbers
set -- $lines
echo "1..$#"
printf '%s\n' "$@" | xargs -P 2 -n 1 sh tests/e2e/corpora.sh --line
