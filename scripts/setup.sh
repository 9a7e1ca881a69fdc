#!/usr/bin/env bash
# Create the virtual environment $1 and install this project with the extras $2 (may be empty) and the folder $3 of a
# package beside it (may be left out), pinned by constraints.txt.
# uv where it has a wheel, otherwise pip: the same packages either way, uv is about five times faster.
set -euo pipefail

venv=$1
extras=${2:-}
beside=${3:-}
python=${PYTHON:-python3}

if [ ! -x "$venv/bin/python" ]; then
  if ! "$python" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))'; then
    echo "gaussveil needs Python 3.11 or later; $python is $("$python" --version 2>&1). Set PYTHON=/path/to/python3.11" >&2
    exit 1
  fi
  if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "the Python module venv is missing. Debian, Ubuntu: apt-get install python3-venv; Fedora: dnf install python3-pip" >&2
    exit 1
  fi
  "$python" -m venv "$venv"
fi

if [ ! -x "$venv/bin/uv" ]; then
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary uv -c constraints.txt uv ||
    echo "uv has no wheel here, using pip"
fi

echo "installing gaussveil${extras:+[$extras]}: on the way its kernel in C is compiled, some ten seconds of processor time"
if [ -x "$venv/bin/uv" ]; then
  # PySpark is a source archive of jars: packing them without compressing them again spares most of its wait.
  "$venv/bin/uv" pip install --config-settings-package "pyspark:--build-option=--compression=stored" \
    --python "$venv/bin/python" -c constraints.txt -e ".${extras:+[$extras]}" ${beside:+-e "$beside"}
else
  "$venv/bin/python" -m pip install --disable-pip-version-check -c constraints.txt -e ".${extras:+[$extras]}" ${beside:+-e "$beside"}
fi
