#!/bin/sh
# timeout: 300
# What becomes of a job when its worker is killed, stopped for too long, or asked to end, and when
# the server is away while the job ends.
set -eu
cd "$(dirname "$0")/../.."
. tests/service.sh
trap stop EXIT
number=0
other=

stop()
{
    kill -CONT "$worker" 2>/dev/null || true
    kill "$other" 2>/dev/null || true
    service_stop
}

report()
{
    number=$((number + 1))
    if [ "$1" = true ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        tail -n 8 "$dir"/*.log | sed 's/^/# /'
    fi
}

# A second node.
other_start()
{
    "$BUILD/bin/pkb-worker" --server "$url" --token-file "$dir/other.token" --name node2 \
        --device sim --work-dir "$dir" --stall-ms 1500 2>"$dir/other.log" &
    other=$!
}

# A job whose host code never ends; waits until its ranks run, on node1.
submit_endless()
{
    job=$(pkb submit tests/fixtures/endless_host.cu --task allreduce --world 2 --json |
        jq -r '.job.id')
    tries=0
    until [ "$(pkb status "$job" --json | jq -r '.stage')" = checking ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || service_fail worker
        sleep 0.1
    done
}

# Waits until a line comes up in a log.
until_line()
{
    timeout 120 tail -n +1 -f "$1" 2>/dev/null | grep -m 1 -q -e "$2"
}

# All processes below process $1.
below()
{
    for child in $(ps -o pid= --ppid "$1"); do
        echo "$child"
        below "$child"
    done
}

# Are all of these gone within a second? One that only waits to be reaped is.
gone()
{
    list=$(echo "$@" | tr ' ' ,)
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        if ! ps -o stat= -p "$list" | grep -q -v '^Z'; then
            return 0
        fi
        sleep 0.1
    done
    return 1
}

verdict_of()
{
    pkb status "$1" --wait --json | jq -r '.result.verdict + " " + .result.reason + " " + .worker'
}

service_start --lease-ttl-ms 3000
"$BUILD/bin/pkb-server" token --db "$dir/pkb.db" --role worker --name node2 >"$dir/other.token"

# ---- kill -9 ----
worker_start
submit_endless
processes=$(below "$worker")
report "$([ "$(echo "$processes" | wc -l)" -ge 5 ] && echo true)" \
    "a job in the middle has its keeper, judge, ranks and simulator"
kill -KILL "$worker"
# shellcheck disable=SC2086 # a list of processes
report "$(gone $processes && echo true)" "no process of a killed worker lives for a second"
wait "$worker" 2>/dev/null || true
other_start
report "$([ "$(verdict_of "$job")" = "timeout host_busy node2" ] && echo true)" \
    "another worker evaluates the job after the lease has ended"

# ---- SIGTERM ----
kill "$other"
wait "$other" && status=0 || status=$?
report "$([ $status -eq 0 ] && echo true)" "an idle worker ends at once when it is asked to"
worker_start
submit_endless
kill "$worker"
wait "$worker" && status=0 || status=$?
report "$([ $status -eq 0 ] && echo true)" "a busy worker ends well when it is asked to"
report "$([ "$(verdict_of "$job")" = "timeout host_busy node1" ] && echo true)" \
    "it has ended and reported its job before"
report "$([ -z "$(ls -d "$dir"/pkb-node1/job-* 2>/dev/null)" ] && echo true)" \
    "nothing of the job is left on the disk"

# ---- SIGSTOP past the lease ----
worker_start
submit_endless
kill -STOP "$worker"
other_start
report "$([ "$(verdict_of "$job")" = "timeout host_busy node2" ] && echo true)" \
    "the job of a worker that stands still is evaluated by another"
kill -CONT "$worker"
until_line "$dir/worker.log" "job.abandoned job=$job"
report true "the worker gives the job up when it goes on"
kill "$other"
wait "$other" 2>/dev/null || true

# ---- the server is away while the job ends ----
submit_endless
kill -KILL "$server"
wait "$server" 2>/dev/null || true
until_line "$dir/worker.log" "job.abandoned job=$job"
report true "a worker that cannot renew its lease gives the job up"
"$BUILD/bin/pkb-server" run --db "$dir/pkb.db" --listen "127.0.0.1:$port" \
    --lease-ttl-ms 60000 2>>"$dir/server.log" &
server=$!
until_line "$dir/worker.log" "job.leased job=$job epoch=2"
kill -KILL "$server"
wait "$server" 2>/dev/null || true
until_line "$dir/worker.log" "report.failed job=$job"
"$BUILD/bin/pkb-server" run --db "$dir/pkb.db" --listen "127.0.0.1:$port" \
    --lease-ttl-ms 60000 2>>"$dir/server.log" &
server=$!
until_line "$dir/worker.log" "job.reported job=$job"
report "$([ "$(verdict_of "$job")" = "timeout host_busy node1" ] && echo true)" \
    "a result that could not be sent is sent again until it is acknowledged"
echo "1..$number"
