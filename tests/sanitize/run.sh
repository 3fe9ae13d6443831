#!/bin/sh
# The native parts under AddressSanitizer and UndefinedBehaviorSanitizer: `make sanitize`.
#
# Built apart from the extension in use, into build/sanitize, and run from there. A wrong access or
# an undefined operation ends the run at once. Leaks are not left to the sanitizer, which would
# report the interpreter's: the tests assert that every byte the list took is given back.
#
#     SOAK_SECONDS=600 make sanitize      soak longer than the usual few seconds
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python}
OUT=build/sanitize

rm -rf "$OUT"
mkdir -p "$OUT/rankd"
cp -R src/rankd/. "$OUT/rankd/"
find "$OUT/rankd" -name '*.so' -delete  # Those in use came along with the copy.
RANKD_SANITIZE=1 "$PYTHON" setup.py --quiet build_ext --force \
    --build-lib "$OUT" --build-temp "$OUT-temp"

export PYTHONPATH="$PWD/$OUT"
export PYTHONMALLOC=malloc                       # so that buffers from Python are watched too
export PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
LIBRARIES="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"

LD_PRELOAD="$LIBRARIES" "$PYTHON" - <<'PROOF'
import pathlib
from rankd.adapters.sqlite import _player_entries
from rankd.templates import _native
from rankd.rules import _native as rules
from rankd.rank import _ranklist

parts = (_ranklist, _native, rules, _player_entries)
for binary in map(pathlib.Path, (part.__file__ for part in parts)):
    assert "sanitize" in binary.parts, binary
    assert b"__asan_report_load" in binary.read_bytes(), f"{binary}: no AddressSanitizer"
PROOF

LD_PRELOAD="$LIBRARIES" "$PYTHON" -m pytest -q -p no:cacheprovider -o timeout=1200 \
    tests/unit/rank tests/unit/rules tests/unit/templates \
    tests/unit/adapters/sqlite/test_player_entries.py tests/property/test_rank_list.py tests/property/test_judging.py tests/property/test_rules.py tests/sanitize
LD_PRELOAD="$LIBRARIES" "$PYTHON" tests/property/rank_soak.py --seconds "${SOAK_SECONDS:-20}"
