# service.sh: a server and a worker in a folder of their own, for the scripts that source this.
#
#   service_start     makes $dir, starts pkb-server on a free port, sets $url; its arguments go to
#                     pkb-server run
#   worker_start      starts a pkb-worker for the simulator, $worker is its process
#   service_stop      ends both and removes $dir; safe at any time
#   pkb ...           the command line, as a submitter

BUILD=${BUILD:-build}
dir=
server=
worker=
url=

service_start()
{
    dir=$(mktemp -d)
    "$BUILD/bin/pkb-server" init --db "$dir/pkb.db" >"$dir/admin.token" 2>"$dir/init.log" ||
        service_fail init
    "$BUILD/bin/pkb-server" token --db "$dir/pkb.db" --role submitter --name demo \
        >"$dir/submitter.token" 2>"$dir/token.log" || service_fail token
    "$BUILD/bin/pkb-server" token --db "$dir/pkb.db" --role worker --name node1 \
        >"$dir/worker.token" 2>"$dir/token.log" || service_fail token
    # On a port of the system's choice: the file comes when the server listens.
    "$BUILD/bin/pkb-server" run --db "$dir/pkb.db" --listen 127.0.0.1:0 --port-file "$dir/port" \
        "$@" 2>"$dir/server.log" &
    server=$!
    tries=0
    until [ -e "$dir/port" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 400 ] || ! kill -0 $server 2>/dev/null; then
            service_fail server
        fi
        sleep 0.05
    done
    port=$(cat "$dir/port")
    url=http://127.0.0.1:$port
}

worker_start()
{
    "$BUILD/bin/pkb-worker" --server "$url" --token-file "$dir/worker.token" --name node1 \
        --device sim --work-dir "$dir" 2>"$dir/worker.log" &
    worker=$!
}

service_fail()
{
    echo "the $1 failed:" >&2
    tail -n 20 "$dir/$1.log" >&2
    exit 1
}

service_stop()
{
    for process in $worker $server; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    [ -z "$dir" ] || rm -rf "$dir"
}

pkb()
{
    timeout 120 "$BUILD/bin/pkb" --server "$url" --token-file "$dir/submitter.token" "$@"
}
