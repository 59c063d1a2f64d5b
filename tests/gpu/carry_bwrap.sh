#!/bin/sh
# Makes folder $1 hold bubblewrap with its libraries, and a script "bwrap" that starts it with them.
set -eu
folder=$1
real=$(command -v bwrap)
rm -rf "$folder"
mkdir -p "$folder/lib"
cp "$real" "$folder/bwrap.bin"
ldd "$real" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*ld-[^ ]*\) .*/\1/p' |
    while read -r library; do
        cp -L "$library" "$folder/lib/"
    done
cat >"$folder/bwrap" <<'END'
#!/bin/sh
here=${0%/*}
for loader in "$here"/lib/ld-linux*; do
    exec "$loader" --library-path "$here/lib" "$here/bwrap.bin" "$@"
done
END
chmod 755 "$folder" "$folder/lib" "$folder/bwrap" "$folder/bwrap.bin" "$folder"/lib/*
