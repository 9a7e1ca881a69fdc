#!/usr/bin/env bash
# Install a wheel in every Python given (3.12, or the path of an interpreter) and run the core's check, a query
# and the README's examples there: scripts/try_pythons.sh WHEEL 3.12 3.13 3.14
set -uo pipefail

wheel=$1
shift
work=$(mktemp -d)
failed=0
for version in "$@"; do
  place="$work/$(basename "$(dirname "$(dirname "$version")")")-$(basename "$version")"
  if ! uv venv --quiet --python "$version" "$place" || ! uv pip install --quiet --python "$place/bin/python" "$wheel[standard]" pandas; then
    echo "$version: cannot be installed"
    failed=1
    continue
  fi
  unset PYTHONPATH
  if "$place/bin/python" scripts/check_core.py --blocked >"$place/core" 2>&1 &&
    "$place/bin/python" scripts/run_examples.py "$place" README.md >"$place/readme" 2>&1; then
    echo "$version: holds ($("$place/bin/python" -c 'import numpy, pandas, scipy; print("numpy", numpy.__version__, "scipy", scipy.__version__, "pandas", pandas.__version__)'))"
  else
    echo "$version: fails"
    tail -5 "$place/core" "$place/readme" 2>/dev/null
    failed=1
  fi
done
rm -rf "$work"
exit $failed
