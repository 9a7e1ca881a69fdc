#!/usr/bin/env bash
# The jobs of docs/how-to and thirteen messy files, done in a clean environment with a wheel: scripts/try_jobs.sh WHEEL
# [PYTHON]. Says which jobs run; ends with 1 where one does not.
set -uo pipefail

wheel=$1
python=${2:-python3}
work=$(mktemp -d)
unset PYTHONPATH
"$python" -m venv "$work/venv"
if command -v uv >/dev/null; then
  uv pip install --quiet --python "$work/venv/bin/python" "$wheel[standard,excel,studio]" pandas
else
  "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel[standard,excel,studio]" pandas
fi
failed=0
try() { # name, then the command
  local name=$1
  shift
  mkdir -p "$work/$name"
  if "$@" >"$work/$name.log" 2>&1; then echo "runs: $name"; else
    echo "fails: $name"
    tail -5 "$work/$name.log"
    failed=1
  fi
}
try messy "$work/venv/bin/python" scripts/messy_files.py "$work/messy"
for page in README.md docs/getting-started.md docs/how-to/[a-hj-z]*.md; do
  name=$(basename "$page" .md)
  try "$name" "$work/venv/bin/python" scripts/run_examples.py "$work/$name" "$page"
done
"$work/venv/bin/python" -c 'import numpy, pandas, scipy, sys; print("Python", sys.version.split()[0], "numpy", numpy.__version__, "scipy", scipy.__version__, "pandas", pandas.__version__)'
rm -rf "$work"
exit $failed
