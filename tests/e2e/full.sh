#!/bin/sh
# timeout: 400
# Server, worker and command line together: what a person does with them, and the exit codes.
set -eu
cd "$(dirname "$0")/../.."
. tests/service.sh
trap service_stop EXIT
number=0

report()
{
    number=$((number + 1))
    if [ "$1" = true ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        cat "$dir/out" "$dir/err" | head -c 3000 | sed 's/^/# /'
    fi
}

# exits CODE TEXT ARGUMENT...: pkb with these arguments exits so.
exits()
{
    code=$1
    text=$2
    shift 2
    status=0
    pkb "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
    report "$([ "$status" -eq "$code" ] && echo true)" "$text (exit code $status)"
}

# holds TEXT CONDITION: the condition is true of the last output, which is JSON.
holds()
{
    report "$(jq "$2" "$dir/out" 2>/dev/null)" "$1"
}

# shows TEXT PATTERN...: the last output has them all.
shows()
{
    text=$1
    shift
    all=true
    for pattern in "$@"; do
        cat "$dir/out" "$dir/err" | grep -q -e "$pattern" || all=false
    done
    report $all "$text"
}

service_start

exits 0 "tasks lists the tasks" tasks
shows "all three are there" allreduce allgather alltoall
exits 0 "a task is given by number" task 1
shows "its statement is shown" "all-reduce\|allreduce"
exits 0 "its header is given" task 001 --header
shows "the header declares what a submission gets" "struct pkb_inputs" "solution.h"
exits 2 "an unknown task is named" submit tests/fixtures/zeros.cu --task nothing
shows "the message names it" nothing
exits 2 "a world that the task does not allow" submit tests/fixtures/zeros.cu --task 1 --world 3
shows "the message says which it allows" "1, 2, 4, 8"
exits 2 "an unknown option is a usage error" submit tests/fixtures/zeros.cu --tusk 1
exits 1 "a job that does not exist" status nothing

exits 0 "a submission is taken without a worker" submit tests/fixtures/allreduce_loads.cu \
    --task allreduce --world 2 --json
job=$(jq -r .job.id "$dir/out")
exits 0 "it is queued" status "$job" --json
holds "its state says so" '.state == "queued"'

[ -x "$BUILD/bin/pkb-worker" ] || exit 1
worker_start
exits 0 "a right answer is accepted" submit tests/fixtures/allreduce_loads.cu --task allreduce \
    --world 4 --model gpt --wait
shows "the verdict is shown" accepted
exits 12 "zeros are a wrong answer" submit tests/fixtures/zeros.cu --task 1 --world 2 --wait
shows "the output and the rank are named" wrong_answer "rank 0"
exits 10 "a syntax error is a compile error" submit tests/fixtures/syntax_error.cu --task 1 \
    --world 2 --wait --json
holds "JSON says so, too" '.result.verdict == "compile_error"'
failed=$(jq -r .id "$dir/out")
exits 0 "the log is given" log "$failed"
shows "the compiler names the line" "solution.cu(11)"
exits 17 "a deadlock is told" submit tests/fixtures/no_signal.cu --task 1 --world 2 --wait
shows "with its kernel and line" "allreduce" "solution.cu:"

exits 0 "the first job is done by now" status "$job" --json
holds "and accepted" '.state == "done" and .verdict == "accepted"'
exits 0 "its replay is given" status "$job" --replay
holds "and names the schedule" '.schedule_seed == 1 and .task == "allreduce" and .world == 2'
exits 1 "a job that did not run has no replay" status "$failed" --replay
shows "which is said" "has no replay"
exits 0 "the board is given" board allreduce --world 4 --json
holds "it has the accepted one alone" '.rows | length == 1 and .[0].model == "gpt"'
exits 0 "the board of another world is empty" board allreduce --world 8 --json
holds "it has no rows" '.rows == []'

kill -TERM "$worker" "$server"
status=0
wait "$server" || status=$?
server=
report "$([ "$status" -eq 0 ] && echo true)" "the server ends well when told to (exit code $status)"
status=0
wait "$worker" || status=$?
worker=
report "$([ "$status" -eq 0 ] && echo true)" "so does the worker (exit code $status)"
exits 1 "without a server there is no answer" tasks

echo "1..$number"
