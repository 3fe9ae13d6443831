#!/bin/sh
# Compile the native core with several node sizes and measure each: sh benchmarks/core/run.sh [players]
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '%-24s  %8s  %8s  %8s\n' "entries, children" "update" "rank" "bytes"
for sizes in "5 5" "5 6" "6 5" "6 6"; do
    set -- $sizes "${1:-4000000}"
    cc -std=gnu11 -O3 -DLEAF_STEPS="$1" -DINNER_STEPS="$2" -Isrc/rankd/rank \
        benchmarks/core/updates.c src/rankd/rank/*.c -o "$folder/updates" \
        -Wl,--as-needed 2>/dev/null || { echo "no C compiler?" >&2; exit 1; }
    printf '%-24s' "$(((1 << $1) - 1)) in a leaf, $((1 << $2))"
    "$folder/updates" "$3"
    set -- "$3"
done
