#!/bin/sh
# bubblewrap, but nothing of /sys is in the view. $1...: its arguments. Runs without an environment.
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    if [ "$word" = -- ]; then
        set -- "$@" -- # the rest belongs to the program
        while [ "$count" -gt 0 ]; do
            word=$1
            shift
            set -- "$@" "$word"
            count=$((count - 1))
        done
    elif [ "$word" = --ro-bind-try ] && [ "${1#/sys}" != "$1" ]; then
        shift 2
        count=$((count - 2))
    else
        set -- "$@" "$word"
    fi
done
for bwrap in "${0%/*}/bwrap" /usr/bin/bwrap; do
    [ ! -x "$bwrap" ] || exec "$bwrap" "$@"
done
