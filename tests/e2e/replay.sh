#!/bin/sh
# timeout: 200
# A race that most schedules hide is found by one of several, and the replay of its result repeats
# that schedule to the byte.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
source=tests/fixtures/rare_race.cu
number=0

report()
{
    number=$((number + 1))
    if [ "$1" = true ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        head -c 2000 "$dir/result" "$dir/again" "$dir/log" 2>/dev/null | sed 's/^/# /'
    fi
}

# holds FILE CONDITION: the condition is true of that result.
holds()
{
    jq -e "$2" "$dir/$1" >/dev/null && echo true
}

# All but how it was built, how long it took and how many schedules came before it.
bare()
{
    jq -S 'del(.builder, .build_ms, .run_ms, .schedules)' "$1"
}

once()
{
    "$BUILD/bin/pkb-worker" --once "$@" --builds "$dir/builds" </dev/null 2>"$dir/log"
}

once $source --task allreduce --world 2 --seed 7 --schedules 64 >"$dir/result" || true
report "$(holds result '.verdict == "wrong_answer"')" "one schedule of 64 shows the race"
report "$(holds result '.schedules > 1')" "and the first does not"
report "$(holds result '.replay.schedule_seed == .schedules')" "the result names the seed"

jq .replay "$dir/result" >"$dir/replay"
bare "$dir/result" >"$dir/one"
for run in 1 2; do
    once $source --replay "$dir/replay" >"$dir/again" || true
    bare "$dir/again" >"$dir/two"
    report "$(cmp -s "$dir/one" "$dir/two" && holds again '.schedules == 1')" \
        "replay $run gives the same index, values and traffic in one schedule"
done

once tests/fixtures/no_signal.cu --task allreduce --world 2 >"$dir/result" || true
once tests/fixtures/no_signal.cu --replay "$dir/result" >"$dir/again" || true
bare "$dir/result" >"$dir/one"
bare "$dir/again" >"$dir/two"
report "$(cmp -s "$dir/one" "$dir/two" && holds again '.waits | length > 1')" \
    "the replay of a deadlock has the same waits"

# refuses CODE PATTERN ARGUMENT...: exits so, says that, and prints nothing on stdout.
refuses()
{
    code=$1
    pattern=$2
    shift 2
    status=0
    once "$@" >"$dir/again" || status=$?
    report "$([ $status -eq "$code" ] && [ ! -s "$dir/again" ] &&
        grep -q -e "$pattern" "$dir/log" && echo true)" "exit code $code, '$pattern': $*"
}

refuses 1 "of a source with the hash" tests/fixtures/zeros.cu --replay "$dir/replay"
refuses 1 "cannot open" $source --replay "$dir/none"
echo '{"format":1}' >"$dir/wrong"
refuses 2 "is no replay" $source --replay "$dir/wrong"
refuses 2 "come from the file" $source --replay "$dir/replay" --seed 1
jq '.evaluator = "0.0"' "$dir/replay" >"$dir/old"
refuses 1 "of pkb-worker 0.0" $source --replay "$dir/old"
refuses 2 "1 at least" $source --task 1 --world 2 --schedules 0
echo "1..$number"
