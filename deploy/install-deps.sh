#!/bin/sh
# Installs the Debian packages that are missing, and checks that CUDA is where CUDA_HOME says.
# Does nothing, in a moment, when all is there. Exits 1 when something is missing that it cannot
# install, and says what to do.
set -eu

packages="gcc g++ make
libmicrohttpd-dev libjansson-dev libsqlite3-dev libuv1-dev libcurl4-openssl-dev libzstd-dev
libsodium-dev libseccomp-dev libcmocka-dev
bubblewrap curl jq clang-format clang-tidy cppcheck"

missing=
for package in $packages; do
    case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true) in
    ii*) ;;
    *) missing="$missing $package" ;;
    esac
done

if [ -n "$missing" ]; then
    install="apt-get install -y --no-install-recommends$missing"
    if [ "$(id -u)" -ne 0 ]; then
        echo "install-deps: packages are missing; run: sudo sh -c 'apt-get update && $install'" >&2
        exit 1
    fi
    echo "install-deps: installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    # A fresh machine has no package lists yet, and old ones name versions that are gone.
    apt-get update -q >&2
    # shellcheck disable=SC2086 # a list of words
    $install -q >&2
fi

CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
absent=
for file in bin/nvcc bin/ptxas include/cuda.h include/cuda_runtime_api.h include/nccl.h \
    lib64/libcudart.so lib64/libcublas.so lib64/libcublasLt.so lib64/libnccl.so \
    lib64/stubs/libcuda.so; do
    [ -e "$CUDA_HOME/$file" ] || absent="$absent $file"
done
if [ -n "$absent" ]; then
    echo "install-deps: CUDA_HOME is '$CUDA_HOME', and there it lacks:$absent" >&2
    echo "install-deps: install CUDA 13.0 or later with NCCL, then set the folder that holds" \
        "bin/nvcc: make CUDA_HOME=/path/to/cuda ..." >&2
    exit 1
fi

release=$("$CUDA_HOME/bin/nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
if [ "${release:-0}" -lt 13 ]; then
    echo "install-deps: '$CUDA_HOME/bin/nvcc' is release ${release:-unknown}; 13.0 or later" \
        "is needed, set another: make CUDA_HOME=/path/to/cuda ..." >&2
    exit 1
fi
