#!/bin/sh
# timeout: 1800
# Every task's baseline is accepted in the simulator, and nothing is found in it: the collectives
# (001 to 008) on 4 ranks and all others on 2, in one schedule; with TESTS=all each on 1, 2, 4 and
# 8, in three.
#
#   sh tests/e2e/baselines.sh [TASK_FOLDER WORLD]
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
export BUILD

schedules=1
[ "${TESTS:-}" != all ] || schedules=3

# Evaluates the baseline of folder $1 on $2 ranks and prints its line of TAP.
one()
{
    result=$(mktemp)
    nice "$BUILD/bin/pkb-worker" --once "tasks/$1/baseline.cu" --task "$1" --world "$2" \
        --device sim --schedules "$schedules" >"$result" 2>"$result.log" || true
    if [ "$(jq -r '"\(.verdict) \(.findings // [] | length)"' "$result")" = 'accepted 0' ]; then
        echo "ok - the baseline of $1 is accepted on $2 ranks"
    else
        echo "not ok - the baseline of $1 is accepted on $2 ranks"
        jq -c 'del(.traffic)' "$result" | cut -c 1-2000 | sed 's/^/# /'
        tail -n 5 "$result.log" | sed 's/^/# /'
    fi
    rm -f "$result" "$result.log"
}

if [ $# -eq 2 ]; then
    one "$1" "$2"
    exit 0
fi

runs=$(for task in tasks/[0-9]*_*/baseline.cu; do
    case $task in
    tasks/00[1-8]_*) worlds=4 ;;
    *) worlds=2 ;;
    esac
    [ "${TESTS:-}" != all ] || worlds='1 2 4 8'
    for world in $worlds; do
        echo "$(basename "$(dirname "$task")") $world"
    done
done)
echo "1..$(echo "$runs" | wc -l)"
echo "$runs" | xargs -P 2 -n 2 sh tests/e2e/baselines.sh
