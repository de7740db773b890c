#!/usr/bin/env bash
# Bring Debian's runsc (gVisor) and uidmap for the tests of sandboxed kernels, where this user may
# install packages. Never fails: those tests skip with the reason where it cannot run.
set -u

if command -v runsc >/dev/null && command -v newuidmap >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "No gVisor here, and only root on Debian may install it: apt-get install runsc uidmap"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -q -y --no-install-recommends runsc uidmap \
    || echo "apt-get could not install runsc: the tests of sandboxed kernels are skipped"
exit 0
