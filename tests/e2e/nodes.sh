#!/bin/sh
# timeout: 600
# only: all
# Nodes that fail, drain and come back: real processes and signals, and a pipe for the kernel's log.
set -eu
cd "$(dirname "$0")/../.."
. tests/service.sh
trap stop EXIT
number=0
other=

stop()
{
    kill "$other" 2>/dev/null || true
    wait "$other" 2>/dev/null || true
    service_stop
}

report()
{
    number=$((number + 1))
    if [ "$1" = true ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        tail -n 12 "$dir"/*.log | sed 's/^/# /'
    fi
}

# node_start NAME OPTION...: its process is $started, its log $dir/NAME.log.
node_start()
{
    name=$1
    shift
    "$BUILD/bin/pkb-worker" --server "$url" --token-file "$dir/$name.token" --name "$name" \
        --device sim --work-dir "$dir" --stall-ms 1500 --kmsg "$dir/kmsg" "$@" \
        2>>"$dir/$name.log" &
    started=$!
}

# api PATH [BODY]: as admin.
api()
{
    if [ $# -eq 2 ]; then
        set -- "$1" -d "$2"
    fi
    path=$1
    shift
    curl -s -H "Authorization: Bearer $(cat "$dir/admin.token")" \
        -H 'Content-Type: application/json' "$@" "$url$path"
}

# "STATE REASON" of a node.
state_of()
{
    api /v1/workers | jq -r --arg name "$1" \
        '.workers[] | select(.name == $name) | .state + " " + .reason'
}

first_state()
{
    state_of node1 | sed 's/ .*//'
}

# until_is TEXT COMMAND...: waits until the command prints this.
until_is()
{
    wanted=$1
    shift
    tries=0
    until [ "$("$@")" = "$wanted" ]; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        sleep 0.1
    done
}

# Waits until a line comes up in a log.
until_line()
{
    timeout 60 tail -n +1 -f "$1" 2>/dev/null | grep -m 1 -q -e "$2"
}

submit()
{
    job=$(pkb submit "$1" --task allreduce --world 2 --json | jq -r '.job.id')
}

# A job whose host code never ends; waits until its ranks run.
submit_endless()
{
    submit tests/fixtures/endless_host.cu
    until_is checking stage_of "$job" || service_fail node1
}

stage_of()
{
    pkb status "$1" --json | jq -r '.stage'
}

# What the kernel writes when GPU 1b has this error.
xid()
{
    echo "3,100,2000,-;NVRM: Xid (PCI:0000:1b:00): $1, pid=17, as the test has it" >"$dir/kmsg"
}

ended_as()
{
    # Of a job that was not judged an error follows.
    pkb status "$1" --wait --json | jq -r '.state + " " + .verdict + " " + .worker' | head -n 1
}

service_start --lease-ttl-ms 5000
mkfifo "$dir/kmsg" "$dir/kmsg2"
for name in node1 node2; do
    "$BUILD/bin/pkb-server" token --db "$dir/pkb.db" --role worker --name $name >"$dir/$name.token"
done

# ---- a GPU fails under a job ----
node_start node1
worker=$started
until_is "ready " state_of node1 || true
report "$([ "$(state_of node1)" = "ready " ] && echo true)" "a clean node is ready"
submit_endless
echo "6,99,1000,-;NVRM: Xid (PCI:0000:1b:00): nonsense" >"$dir/kmsg"
xid 31
until_line "$dir/node1.log" "node.xid.*xid=31.*fault=submission action=continue"
report "$([ "$(stage_of "$job")" = checking ] && echo true)" \
    "an error of the submission's own does not stop the job"
xid 79
until_line "$dir/node1.log" "node.xid.*xid=79.*fault=hardware action=reset"
until_is "quarantined Xid 79 of GPU 0000:1b:00: the GPU has left the bus" state_of node1 &&
    is_there=true || is_there=false
report $is_there "a node whose GPU has left the bus quarantines itself, and the server shows why"
until_is queued sh -c "\"\$0\" --server $url --token-file $dir/submitter.token status $job --json |
    jq -r .state" "$BUILD/bin/pkb" && is_back=true || is_back=false
report $is_back "its job is stopped and goes back to the queue"
node_start node2 --kmsg "$dir/kmsg2"
other=$started
report "$([ "$(ended_as "$job")" = "done timeout node2" ] && echo true)" \
    "another node evaluates it"

# ---- one that broke two nodes ----
kill "$other"
wait "$other" || true
api /v1/workers/node1/state '{"state": "ready"}' >/dev/null
until_line "$dir/node1.log" "worker.lifted"
until_is "ready " state_of node1 && is_ready=true || is_ready=false
report $is_ready "a node that an admin lifts passes the gate and is ready"
submit_endless
report "$([ "$(pkb status "$job" --json | jq -r .worker)" = node1 ] && echo true)" \
    "it takes jobs again"
xid 95
until_line "$dir/node1.log" "job.reported job=$job epoch=1"
node_start node2 --kmsg "$dir/kmsg2"
other=$started
until_is checking stage_of "$job" || true
echo "3,1,2,-;NVRM: Xid (PCI:0000:2c:00): 48, x" >"$dir/kmsg2"
end=$(ended_as "$job")
report "$([ "$end" = "quarantined  " ] && echo true)" \
    "a job that broke two nodes is not tried on a third ($end)"
kill "$other" "$worker"
wait "$other" && status=0 || status=$?
wait "$worker" || status=$?
other=
report "$([ $status -eq 0 ] && echo true)" "quarantined nodes end well when they are asked to"
report "$(state_of node1 | grep -q '^quarantined Xid 95' && echo true)" \
    "what they were quarantined for is kept"

# ---- draining ----
api /v1/workers/node1/state '{"state": "ready"}' >/dev/null
node_start node1
worker=$started
submit_endless
kill "$worker"
until_is "draining the worker was asked to end" state_of node1 && is_told=true || is_told=false
report $is_told "a worker that is asked to end says that it drains"
wait "$worker" && status=0 || status=$?
report "$([ $status -eq 0 ] && [ "$(ended_as "$job")" = "done timeout node1" ] && echo true)" \
    "it ends when its job has ended and is reported"
node_start node1
worker=$started
until_is "ready " state_of node1 && is_ready=true || is_ready=false
report $is_ready "it is ready when it is started again"
submit_endless
api /v1/workers/node1/state '{"state": "draining", "reason": "a new disk"}' >/dev/null
submit tests/fixtures/allreduce_loads.cu
waiting=$job
until_line "$dir/node1.log" "worker.held.*draining: a new disk"
report "$([ "$(pkb status "$waiting" --json | jq -r .state)" = queued ] &&
    [ "$(api /v1/workers | jq -r '.workers[] | select(.name == "node1") | .jobs')" = 0 ] &&
    echo true)" "a node that an admin drains ends its job and takes no other"
api /v1/workers/node1/state '{"state": "ready"}' >/dev/null
report "$([ "$(ended_as "$waiting")" = "done accepted node1" ] && echo true)" \
    "it goes on when the admin says so"

# ---- a full disk, and what a killed worker leaves ----
kill "$worker"
wait "$worker" || true
setpriv --reuid 66400 --regid 66400 --clear-groups sleep 1000 &
leftover=$!
node_start node1 --disk-free-mib 2000000000
worker=$started
until_line "$dir/node1.log" "slot.leftover pid=$leftover"
wait $leftover && status=0 || status=$?
report "$([ $status -eq 137 ] && echo true)" \
    "a process that a killed worker left in a slot is ended"
until_line "$dir/node1.log" "node.state state=draining"
until_line "$dir/server.log" "state=draining by=node1 .*MiB are needed" # not why it drained before
until_is draining first_state && is_told=true || is_told=false
found="MiB are free for '$dir/pkb-node1', and 2000000000 MiB are needed"
report "$($is_told && state_of node1 | grep -q "$found" && echo true)" \
    "a node without room on its disk drains, and says how much is missing"
kill "$worker"
wait "$worker" && status=0 || status=$?
worker=
report "$([ $status -eq 0 ] && echo true)" "it ends well, too"
echo "1..$number"
