#!/usr/bin/env bash
# Bring a real kube-apiserver and etcd for the tests in tests/kube: Debian 12's kubernetes source is
# built, its etcd unpacked, into ~/.cache/gkews-kube/bin. About 5 minutes on 2 cores, once; at once
# when they are there. Installs nothing and changes no list of apt (it keeps its own).
# Never fails: where it cannot be had, the reason is written beside it and those tests skip with it.
#   scripts/kube/build.sh [--again]      --again: try once more what could not be had
set -u

cache=${GKEWS_KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gkews-kube}
bin=$cache/bin
work=$cache/work
here=$(cd "$(dirname "$0")" && pwd)

there() { [ -x "$bin/kube-apiserver" ] && [ -x "$bin/etcd" ]; }

there && exit 0
mkdir -p "$bin" "$work" || exit 0
exec 9>"$cache/lock"
flock 9 # another checkout may be building the same
there && exit 0
[ "${1:-}" = --again ] && rm -f "$cache/why-not"
if [ -f "$cache/why-not" ]; then
    echo "No kube-apiserver for the tests: $(cat "$cache/why-not") ($0 --again tries once more)"
    exit 0
fi

give_up() {
    echo "$1" | tee "$cache/why-not"
    exit 0
}

for tool in apt-get dpkg dpkg-source openssl; do
    command -v "$tool" >/dev/null \
        || give_up "building Debian's kube-apiserver needs $tool, which is not here"
done

# apt's own lists stay as they are: a twin of the machine's sources, with deb-src, lives in the cache
mkdir -p "$work/apt/parts" "$work/apt/lists/partial" "$work/apt/archives/partial"
for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && sed 's/^Types:.*/Types: deb deb-src/' "$file" >"$work/apt/parts/$(basename "$file")"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] && sed -n 's/^deb \(.*\)/deb \1\ndeb-src \1/p' "$file" >"$work/apt/parts/twin-$(basename "$file" .list).list"
done
apt_() {
    local command=$1
    shift
    "$command" -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/apt/parts" \
        -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@"
}
apt_ apt-get update >"$work/apt.log" 2>&1 || give_up "apt-get update failed (see $work/apt.log)"
version=$(apt_ apt-cache showsrc kubernetes 2>/dev/null | sed -n 's/^Version: //p' | sort -V | tail -1)
case $version in
    *1.20.2*) ;;
    "") give_up "Debian's source index has no kubernetes here" ;;
    *) give_up "this Debian has kubernetes $version; the build is known for Debian 12's 1.20.2 only" ;;
esac

echo "Building kube-apiserver $version for the tests in $cache (once, some 5 minutes) ..."
export -f apt_
if (work=$work nice -n 19 bash "$here/compile.sh" "$work" "$bin") >"$work/build.log" 2>&1 && there; then
    rm -rf "$work" # 3 GB of sources and objects
else
    tail -5 "$work/build.log"
    give_up "the build of kube-apiserver failed (see $work/build.log)"
fi
exit 0
