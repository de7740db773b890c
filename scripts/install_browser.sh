#!/usr/bin/env bash
# Bring Debian's Chromium for the browser tests, where this user may install packages. Never
# fails: run_tests.sh says what it skips without a browser, and why.
set -u

if command -v chromium >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "No Chromium here, and only root on Debian may install it: apt-get install chromium fonts-dejavu-core"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core \
    || echo "apt-get could not install chromium"
exit 0
