#!/usr/bin/env bash
# What build.sh runs: sources and tools into WORK, kube-apiserver, etcd and etcdctl into BIN.
# Needs the function apt_ of build.sh (apt with its own lists) and some 3 GB in WORK.
set -euo pipefail
work=$1
bin=$2

cd "$work"
mkdir -p debs root
(
    cd debs
    apt_ apt-get download golang-1.19-go golang-1.19-src etcd-server etcd-client \
        golang-github-modern-go-reflect2-dev
    for package in *.deb; do dpkg -x "$package" ../root; done
)
apt_ apt-get source --download-only kubernetes
rm -rf kubernetes
dpkg-source --no-check -x kubernetes_*.dsc kubernetes

export GOROOT=$work/root/usr/lib/go-1.19 GOPATH=$work/gopath GOCACHE=$work/gocache
export GOFLAGS= GO111MODULE=off GOPROXY=off CGO_ENABLED=0
export PATH=$GOROOT/bin:$PATH
mkdir -p "$GOPATH/src/k8s.io"
ln -sfn "$work/kubernetes" "$GOPATH/src/k8s.io/kubernetes"
cd "$GOPATH/src/k8s.io/kubernetes"

# the vendored reflect2 1.0.1 crashes when maps are encoded with Go >= 1.18: Debian's 1.0.2
reflect2=vendor/github.com/modern-go/reflect2
rm -f $reflect2/*.go $reflect2/*.s
cp "$work"/root/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} $reflect2/
# with Go >= 1.18 the validation of CRDs takes an empty string for null
sed -i 's/if data == nil || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data)) {/if data == nil {/' \
    vendor/github.com/go-openapi/validate/type.go vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go

# its OpenAPI is generated, not checked in
go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
folders=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd plugin staging/src/k8s.io \
    | grep -v -e code-generator -e sample-apiserver -e _test.go -e zz_generated \
    | xargs -n1 dirname | sort -u \
    | sed 's#^staging/src/#k8s.io/kubernetes/vendor/#; t; s#^#k8s.io/kubernetes/#' | paste -sd,)
"$work/openapi-gen" --logtostderr -i "$folders" -p k8s.io/kubernetes/pkg/generated/openapi \
    -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
    -r "$work/openapi-report.txt"

prefix=k8s.io/kubernetes/vendor/k8s.io
flags="-s -w -X $prefix/component-base/version.gitVersion=v1.20.2"
flags+=" -X $prefix/component-base/version.gitMajor=1 -X $prefix/component-base/version.gitMinor=20"
flags+=" -X $prefix/client-go/pkg/version.gitVersion=v1.20.2"
go build -ldflags "$flags" -o "$work/kube-apiserver" ./cmd/kube-apiserver
cp "$work/root/usr/bin/etcd" "$work/root/usr/bin/etcdctl" "$bin/"
mv "$work/kube-apiserver" "$bin/"
