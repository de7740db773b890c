#!/usr/bin/env bash
# Run every test: jest, browser tests, then pytest, whose closing line is the last one when all is
# well. A failure in an earlier suite does not stop the later ones, but fails the whole.
set -u
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin

selection=(-m "not soak")
if [ "${1:-}" = --long ]; then
    selection=()
fi

failed=()

echo "== jest"
"$bin/jlpm" test || failed+=(jest)

echo "== browser tests"
if command -v chromium >/dev/null; then
    (cd ui-tests && CI=true "$bin/jlpm" test) || failed+=("browser tests")
elif [ "${CI:-}" = true ]; then
    echo "No Chromium here: the browser tests cannot run, and a CI without them must not pass."
    failed+=("browser tests")
else
    echo "SKIPPED: the browser tests need Chromium (Debian: apt-get install chromium)."
fi

if [ ${#failed[@]} -gt 0 ]; then
    echo "== failed so far: ${failed[*]}"
fi

echo "== pytest"
# Two at a time, as many as there are cores where CI runs: a test mostly waits for processes to
# start. The tests of a file stay together, they share servers.
"$bin/python" -m pytest -n 2 --dist loadfile "${selection[@]}" || exit 1

if [ ${#failed[@]} -gt 0 ]; then
    echo "pytest passed, but these failed before it: ${failed[*]}"
    exit 1
fi
