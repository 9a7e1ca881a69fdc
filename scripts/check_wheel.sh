#!/usr/bin/env bash
# Build sdist and wheel (the wheel from the sdist), install the wheel alone and with its extra 'standard' in empty
# environments and run the core's check and the README's example there.
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

wheel=$(ls "$work"/dist/*.whl)
# The light core alone, then with everything the README's examples need.
for extra in core standard; do
  "$venv/bin/python" -m venv "$work/$extra"
  asked="$wheel"
  [ "$extra" = core ] || asked="$wheel[$extra]"
  if [ -x "$venv/bin/uv" ]; then
    "$venv/bin/uv" pip install --quiet --python "$work/$extra/bin/python" -c constraints.txt "$asked"
  else
    "$work/$extra/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$asked"
  fi
done

# The independent verifier, alone in an environment of its own: it must not need the package whose word it checks.
"$venv/bin/python" -m venv "$work/verifier"
if [ -x "$venv/bin/uv" ]; then
  "$venv/bin/uv" pip install --quiet --python "$work/verifier/bin/python" -c constraints.txt ./verifier
else
  "$work/verifier/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt ./verifier
fi
"$venv/bin/python" scripts/sample_certificate.py "$work/certificate.json" "$work/owner.key"
"$work/verifier/bin/gaussveil-verifier" "$work/certificate.json" --public-key "$work/owner.key.pub"

"$work/core/bin/python" scripts/check_core.py
"$work/standard/bin/python" scripts/run_examples.py "$work/standard" README.md
