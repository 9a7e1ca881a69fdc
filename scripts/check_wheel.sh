#!/usr/bin/env bash
# Build sdist and wheel (the wheel from the sdist), install the wheel in an empty environment and run the README's example there.
set -euo pipefail

venv=$1
work=build/package
rm -rf "$work"
mkdir -p "$work"

if [ -x "$venv/bin/uv" ]; then
  "$venv/bin/uv" build --quiet --build-constraint constraints.txt --python "$venv/bin/python" --out-dir "$work/dist" .
else
  PIP_CONSTRAINT="$PWD/constraints.txt" "$venv/bin/python" -m build --outdir "$work/dist" .
fi
ls "$work/dist"

"$venv/bin/python" -m venv "$work/empty"
wheel=$(ls "$work"/dist/*.whl)
if [ -x "$venv/bin/uv" ]; then
  "$venv/bin/uv" pip install --quiet --python "$work/empty/bin/python" -c constraints.txt "$wheel"
else
  "$work/empty/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$wheel"
fi

# The independent verifier, alone in an environment of its own: it must not need the package whose word it checks.
"$venv/bin/python" -m venv "$work/verifier"
if [ -x "$venv/bin/uv" ]; then
  "$venv/bin/uv" pip install --quiet --python "$work/verifier/bin/python" -c constraints.txt ./verifier
else
  "$work/verifier/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt ./verifier
fi
"$venv/bin/python" scripts/sample_certificate.py "$work/certificate.json" "$work/owner.key"
"$work/verifier/bin/gaussveil-verifier" "$work/certificate.json" --public-key "$work/owner.key.pub"

"$work/empty/bin/python" scripts/run_examples.py "$work/empty" README.md
