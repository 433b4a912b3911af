#!/usr/bin/env bash
# Gets real servers for the tests of buckets, as far as this machine can: `scripts/test_servers.sh [--long]`.
# Prints lines to be evaluated by a shell. It never fails: a test whose server is missing says SKIPPED and why.
#
# Quick, with python3 and pip: moto's server, into .cache/moto. With --long and a Go toolchain, in some minutes: MinIO
# and fake-gcs-server, into the user's cache directory.
set -u
cd "$(dirname "$0")/.." || exit 0

if ! command -v moto_server >/dev/null && ! [ -x .cache/moto/bin/moto_server ]; then
  {
    timeout 60 python3 -m venv .cache/moto &&
      timeout 180 .cache/moto/bin/python -m pip install --quiet --disable-pip-version-check 'moto[s3]==5.2.1' flask==3.1.2 flask-cors==6.0.1
  } >/dev/null 2>&1 || {
    rm -rf .cache/moto
    echo "no moto_server: it needs python3 with venv and pip, and a package index" >&2
  }
fi

[ "${1:-}" = --long ] || exit 0
bin="${XDG_CACHE_HOME:-$HOME/.cache}/sublet-test-servers/bin"
get() { # VARIABLE PROGRAM PACKAGE
  if ! command -v "$2" >/dev/null && ! [ -x "$bin/$2" ]; then
    GOBIN="$bin" timeout 1200 go install "$3" >/dev/null 2>&1 || {
      echo "no $2: it needs a Go toolchain and a module proxy" >&2
      return
    }
  fi
  if [ -x "$bin/$2" ]; then printf 'export %s=%q\n' "$1" "$bin/$2"; fi
}
get SUBLET_TEST_MINIO minio github.com/minio/minio@latest
get SUBLET_TEST_FAKE_GCS fake-gcs-server github.com/fsouza/fake-gcs-server@latest
exit 0
