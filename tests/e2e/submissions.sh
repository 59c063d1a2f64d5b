#!/bin/sh
# timeout: 1800
# The submissions that are written to win are accepted, and what an agent might write in their place
# is refused for what is wrong with it: as tests/submissions/expected.tsv says. Without TESTS=all
# only the former, on the ranks that the table says, under one schedule; with it on 1, 2, 4 and 8,
# and the latter, too.
#
#   sh tests/e2e/submissions.sh            as above
#   sh tests/e2e/submissions.sh NAME...    all lines of those, on the ranks that the table says
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD
table=tests/submissions/expected.tsv
schedules=1
[ "${TESTS:-}" != all ] || schedules=3

# Evaluates line $1 of the table, on $2 ranks if given, and prints its line of TAP.
one()
{
    tab=$(printf '\t')
    IFS=$tab read -r name task world verdict reason output change <<END
$(sed -n "$1p" "$table")
END
    world=${2:-$world}
    folder=$(mktemp -d)
    result=$folder/result
    cp "tests/submissions/$name.cu" "$folder/solution.cu"
    title="$name on $world ranks: $verdict"
    wrong=
    if [ "$change" != - ]; then
        title="$title with $(echo "$change" | tr -d '#')"
        sed "$change" "tests/submissions/$name.cu" >"$folder/solution.cu"
        ! cmp -s "tests/submissions/$name.cu" "$folder/solution.cu" || wrong="changes nothing"
    fi
    nice "$BUILD/bin/pkb-worker" --once "$folder/solution.cu" --task "$task" --world "$world" \
        --device sim --schedules "$schedules" >"$result" 2>"$folder/log" || true
    wrong=$wrong$(
        jq -r --arg verdict "$verdict" --arg reason "$reason" --arg output "$output" '
            (select(.verdict != $verdict) | "verdict \(.verdict)"),
            (select($reason != "-" and .reason != $reason) | "reason \(.reason)"),
            (select($output != "-" and .mismatch.output != $output) | "output \(.mismatch)"),
            (select(.verdict == "accepted") | (.findings // [])[]
                | "finding \(.kind): \(.message)")
            ' "$result" 2>&1
        [ -s "$result" ] || echo "no result"
    )
    {
        if [ -z "$wrong" ]; then
            echo "ok - $title"
        else
            echo "not ok - $title"
            printf '%s\n' "$wrong" | sed 's/^/# /'
            jq -c 'del(.traffic)' "$result" 2>/dev/null | cut -c 1-2000 | sed 's/^/# /'
            tail -n 5 "$folder/log" | sed 's/^/# /'
        fi
    } >"$folder/tap"
    cat "$folder/tap"
    rm -rf "$folder"
}

if [ "${1:-}" = --line ]; then
    one "$2" "${3:-}"
    exit 0
fi

# Prints "LINE" or "LINE WORLD" for all that is to be evaluated.
runs()
{
    tab=$(printf '\t')
    grep -n '^[a-z]' "$table" |
    while IFS=$tab read -r name task world verdict reason output change; do
        line=${name%%:*}
        if [ $# -ne 0 ]; then
            case " $* " in *" ${name#*:} "*) echo "$line $world" ;; esac
        elif [ "$change" = - ] && [ "${TESTS:-}" = all ]; then
            for each in 1 2 4 8; do
                echo "$line $each"
            done
        elif [ "$change" = - ] || [ "${TESTS:-}" = all ]; then
            echo "$line $world"
        fi
    done
}

list=$(runs "$@")
echo "1..$(echo "$list" | wc -l)"
echo "$list" | xargs -P 2 -n 2 sh tests/e2e/submissions.sh --line
