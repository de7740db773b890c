#!/usr/bin/env bash
# Build sdist and wheel, install each into a fresh environment on a PATH without Node, and see
# that Jupyter finds both halves of the extension there.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "== building sdist and wheel"
.venv/bin/python -m build --outdir "$work/dist" . >"$work/build.log" 2>&1 || { tail -40 "$work/build.log"; exit 1; }
ls "$work/dist"

# A PATH on which there is Python but no node: links to what pip and python need, nothing else.
mkdir "$work/path"
for tool in sh env uname cat; do
    ln -s "$(command -v "$tool")" "$work/path/$tool"
done
export HOME="$work/home"
mkdir "$HOME"

for archive in "$work"/dist/*.whl "$work"/dist/*.tar.gz; do
    echo "== installing $(basename "$archive") without Node"
    .venv/bin/python -m venv "$work/fresh"
    env PATH="$work/fresh/bin:$work/path" "$work/fresh/bin/python" -m pip install -q --disable-pip-version-check "$archive"
    (
        cd "$work"
        export PATH="$work/fresh/bin:$work/path"
        jupyter server extension list >server.txt 2>&1
        jupyter labextension list >lab.txt 2>&1
        python -c 'import jupyter_gkews.app, jupyter_gkews.provisioning, importlib.util as u; assert not u.find_spec("torch")'
    )
    grep -E 'jupyter_gkews .*OK' "$work/server.txt"
    grep -E 'jupyter_gkews .*enabled.*OK' "$work/lab.txt"
    rm -rf "$work/fresh"
done
echo "both archives install without Node"
