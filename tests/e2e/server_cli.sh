#!/bin/sh
# pkb-server's commands: what they print, refuse and leave behind. Speaks TAP.
set -eu

BUILD=${BUILD:-build}
server=$BUILD/bin/pkb-server
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
number=0

# is DESCRIPTION CONDITION...: one test.
is()
{
    number=$((number + 1))
    description=$1
    shift
    if "$@"; then
        echo "ok $number - $description"
    else
        echo "not ok $number - $description"
    fi
}

# ends CODE COMMAND...: the command ends with this exit code; its output is in $dir/out and err.
ends()
{
    code=$1
    shift
    status=0
    "$@" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" -eq "$code" ]
}

says()
{
    grep -q -- "$1" "$dir/err"
}

is "help is printed" ends 0 "$server" --help
is "a command is needed" ends 2 "$server"
is "an unknown command is refused" ends 2 "$server" dance --db "$dir/db"
is "--db is needed" ends 2 "$server" init
is "run without a database fails" ends 1 "$server" run --db "$dir/db"
is "and says how to make one" says "pkb-server init"
is "init prints one token" ends 0 "$server" init --db "$dir/db"
is "of the right form" grep -Eqx 'pkb_[0-9a-f]{16}_[0-9a-f]{64}' "$dir/out"
cp "$dir/out" "$dir/admin"
is "init does not touch what is there" ends 1 "$server" init --db "$dir/db"
is "and says so" says "exists already"
is "a role is needed" ends 2 "$server" token --db "$dir/db" --name sam
is "a role must be one" ends 2 "$server" token --db "$dir/db" --name sam --role king
is "and is named with those there are" says \
    "no role 'king': give reader, submitter, worker or admin"
is "a name is needed" ends 2 "$server" token --db "$dir/db" --role reader
is "a node is for workers" ends 2 "$server" token --db "$dir/db" --role reader --name a --node b
is "an unknown option is refused" ends 2 "$server" token --db "$dir/db" --colour red
is "a word too many is refused" ends 2 "$server" init --db "$dir/db" more
is "a token is printed" ends 0 "$server" token --db "$dir/db" --role reader --name sam
is "the database does not hold it" sh -c \
    "! grep -aq \"\$(sed 's/.*_//' '$dir/out')\" '$dir/db' '$dir/db-wal' 2>/dev/null"
is "a ttl must be a number" ends 2 "$server" run --db "$dir/db" --lease-ttl-ms soon
is "other machines are not listened to without TLS" \
    ends 2 "$server" run --db "$dir/db" --listen 0.0.0.0:0
is "and it says why" says "without TLS"

mkfifo "$dir/port"
"$server" run --db "$dir/db" --listen 127.0.0.1:0 --port-file "$dir/port" 2>"$dir/log" &
process=$!
port=$(timeout 20 cat "$dir/port")
url=http://127.0.0.1:$port
is "a free port is found and told" ends 0 curl -fsS "$url/healthz"
is "the first token is an admin's" \
    ends 0 curl -fsS -H "Authorization: Bearer $(cat "$dir/admin")" "$url/v1/submissions"
is "a token made while the server runs works at once" \
    ends 0 "$server" token --db "$dir/db" --role submitter --name sam
is "for its role" ends 0 curl -fsS -H "Authorization: Bearer $(cat "$dir/out")" \
    -H 'Content-Type: text/x-cuda' --data-binary 'x' "$url/v1/submissions?task=1"
is "a second server on the database is refused" \
    ends 1 "$server" run --db "$dir/db" --listen 127.0.0.1:0
is "and says so" says "another pkb-server"
kill "$process"
status=0
wait "$process" || status=$?
is "SIGTERM ends it in good order" [ "$status" -eq 0 ]
is "the log holds no token" sh -c "! grep -q 'pkb_' '$dir/log'"
echo "1..$number"
