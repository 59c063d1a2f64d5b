#!/bin/sh
# timeout: 1800
# Every submission of tests/fixtures gets the verdict that expected.tsv says, two at a time. With
# TESTS=all also in the worlds that are marked by a `+`, and under three schedules instead of one.
#
#   sh tests/e2e/fixtures.sh          all
#   sh tests/e2e/fixtures.sh NAME...  those only
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD
table=tests/fixtures/expected.tsv
schedules=1
[ "${TESTS:-}" != all ] || schedules=3

# Holds the result on stdin against one check: prints what is wrong.
check()
{
    text=${1#*=}
    case $1 in
    rank=*) jq -r --argjson rank "$text" 'select(.rank != $rank) | "rank \(.rank)"' ;;
    stage=*) jq -r --arg text "$text" 'select(.stage != $text) | "stage \(.stage)"' ;;
    output=*)
        jq -r --arg text "$text" 'select(.mismatch.output != $text) | "output \(.mismatch)"'
        ;;
    index=*)
        jq -r --arg text "$text" '
            .mismatch.index // "" | gsub(" "; "") | select(. != $text) | "index \(.)"'
        ;;
    kernel=*)
        jq -r --arg text "$text" '
            [(.waits // [])[], (.faults // [])[]] | map(.kernel // "" | sub("\\(.*"; ""))
            | select(index($text) == null) | "kernels \(.)"'
        ;;
    line=*)
        jq -r --arg text "solution.cu:$text" '
            [(.waits // [])[], (.faults // [])[]] | map(.source)
            | select(index($text) == null) | "lines \(.), not \($text)"'
        ;;
    fault=*)
        jq -r --arg text "$text" '
            (.faults // []) | map(.kind) | select(index($text) == null) | "faults \(.)"'
        ;;
    waits=*)
        jq -r --arg text "$text" '
            (.waits // []) | map(.rank) | unique | join(",") | select(. != $text) | "waits of \(.)"'
        ;;
    where=*)
        jq -r --arg text "$text" '
            (.waits // []) | map(.where) | select(index($text) == null) | "where \(.)"'
        ;;
    moved=*)
        jq -r --arg text "$text" '
            (.traffic // []) | map(select(.source != .owner and .mechanism == $text))
            | select(length == 0) | "nothing moved by \($text)"'
        ;;
    bytes=*)
        jq -r --argjson least "$text" '
            (.traffic // []) | map(select(.source != .owner) | .bytes | tonumber) | add // 0
            | select(. < $least) | "\(.) bytes between ranks"'
        ;;
    exact=*)
        jq -r --arg mechanism "${text%:*}" --argjson exact "${text#*:}" '
            (.traffic // []) | map(select(.source != .owner and .mechanism == $mechanism))
            | map(.bytes | tonumber) | add // 0
            | select(. != $exact) | "\(.) bytes between ranks by \($mechanism), not \($exact)"'
        ;;
    message=*)
        jq -r --arg text "$text" '
            select(.message // "" | contains($text) | not) | "message \(.message)"'
        ;;
    log=*)
        jq -r --arg text "$text" '
            select((.build_log // "") + (.run_log // "") | contains($text) | not)
            | "not in the log: \($text)"'
        ;;
    finding=*)
        jq -r --arg text "$text" '
            (.findings // []) | map(.kind) | select(index($text) == null) | "findings \(.)"'
        ;;
    *) echo "there is no check '$1'" ;;
    esac
}

# Evaluates the fixture of line $1 of the table and prints its line of TAP.
one()
{
    tab=$(printf '\t')
    IFS=$tab read -r file task world verdict reason checks <<END
$(sed -n "$1p" "$table")
END
    source=tests/fixtures/$file.cu
    world=${world#+}
    options=$(printf '%s\n' "$checks" | tr ' ' '\n' | sed -n 's/^switch=/--/p')
    name="$file on $world ranks: $verdict"
    [ "$reason" = - ] || name="$name $reason"
    [ -z "$options" ] || name="$name with $options"
    result=$(mktemp)
    # shellcheck disable=SC2086 # some words
    nice "$BUILD/bin/pkb-worker" --once "$source" --task "$task" --world "$world" --device sim \
        --schedules $schedules --builds "$builds" $options >"$result" 2>"$result.log" || true
    wrong=$(
        jq -r --arg verdict "$verdict" --arg reason "$reason" '
            (select(.verdict != $verdict) | "verdict \(.verdict)"),
            (select($reason != "-" and .reason != $reason) | "reason \(.reason)")' "$result" 2>&1
        [ -s "$result" ] || echo "no result"
        # What is right has no findings but those that are expected.
        case " $checks" in
        *" finding="*) ;;
        *)
            jq -r 'select(.verdict == "accepted") | (.findings // [])[]
                | "finding \(.kind): \(.message)"' "$result"
            ;;
        esac
        for check in $checks; do
            case $check in
            - | switch=*) continue ;;
            line) check=line=$(grep -n '/\* here \*/' "$source" | cut -d : -f 1) ;;
            esac
            check "$check" <"$result" 2>&1
        done
    )
    {
        if [ -z "$wrong" ]; then
            echo "ok - $name"
        else
            echo "not ok - $name"
            printf '%s\n' "$wrong" | sed 's/^/# /'
            jq -c 'del(.traffic)' "$result" 2>/dev/null | cut -c 1-2000 | sed 's/^/# /'
            tail -n 5 "$result.log" | sed 's/^/# /'
        fi
    } >"$result.tap"
    cat "$result.tap"
    rm -f "$result" "$result.log" "$result.tap"
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
        grep -n "$rows" "$table" | grep "^[0-9]*:$name	"
    done | cut -d : -f 1)
fi
builds=$(mktemp -d) # a source that runs in several worlds is built once
export builds
trap 'rm -rf "$builds"' EXIT
# shellcheck disable=SC2086 # a list of numbers
set -- $lines
echo "1..$#"
printf '%s\n' "$@" | xargs -P 2 -n 1 sh tests/e2e/fixtures.sh --line
