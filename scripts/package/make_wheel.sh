#!/bin/bash
# Makes the wheel of the Python package, in the directory given, by default out/. It takes the place
# of other wheels there. Several runs at once do not disturb each other.
#
# PYTHON is the interpreter that builds it: it needs pip, setuptools and wheel, and no network.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
out=${1:-out}
mkdir -p build "$out"
work=$(mktemp -d "$PWD/build/wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

# setuptools writes beside the sources, and keeps files of earlier builds.
mkdir -p "$work/python/src/engine_race"
cp python/setup.py python/pyproject.toml python/README.md "$work/python/"
cp python/src/engine_race/*.{py,c} python/src/engine_race/py.typed "$work/python/src/engine_race/"
ENGINE_RACE_CHECKOUT=$PWD "$python" -m pip wheel --quiet --disable-pip-version-check \
  --no-build-isolation --no-deps --no-cache-dir --wheel-dir "$work" "$work/python"

(
  flock 9
  rm -f "$out"/engine_race-*.whl
  mv "$work"/engine_race-*.whl "$out/"
  ls "$out"/engine_race-*.whl
) 9> build/wheel.lock
