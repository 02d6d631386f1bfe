#!/bin/bash
# Makes the wheel of the Python package, in out/. Called by `make wheel`, after `make shared`.
#
# PYTHON is the interpreter that builds it: it needs pip, setuptools and wheel, and no network.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
work=build/wheel
# setuptools keeps files of earlier builds.
rm -rf "$work" python/build python/src/*.egg-info
mkdir -p "$work" out
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
  --no-cache-dir --wheel-dir "$work" ./python
rm -rf python/build python/src/*.egg-info
rm -f out/engine_race-*.whl
cp "$work"/engine_race-*.whl out/
ls out/engine_race-*.whl
