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

compiled() { # link what Python compiled of the same files in $venv: else it compiles them again in each environment
  local from to package
  from=$(realpath "$venv"/lib/python3*/site-packages) to=$(realpath "$1"/lib/python3*/site-packages)
  for package in "$to"/*/; do
    package=$(basename "$package")
    [ ! -d "$from/$package" ] || (cd "$from" && find "$package" -name __pycache__ -exec cp -alf --parents -t "$to" {} +)
  done
}

install() { # environment, which is made where it is not there yet, then what to install into it
  local environment=$1
  shift
  if [ -x "$venv/bin/uv" ]; then # it needs no pip inside: making one takes longer than all that is installed
    [ -e "$environment" ] || "$venv/bin/python" -m venv --without-pip "$environment"
    "$venv/bin/uv" pip install --quiet --python "$environment/bin/python" "$@"
    compiled "$environment" 2>/dev/null || true # it spares time only
  else
    [ -e "$environment" ] || "$venv/bin/python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  fi
}

install "$work/twine" twine
"$work/twine/bin/twine" check --strict "$work"/dist/*
wheel=$(ls "$work"/dist/*.whl)

# The light core alone, then with everything the README's examples need; the verifier alone in an environment of its
# own, since it must not need the package whose word it checks.
install "$work/core" -c constraints.txt "$wheel"
install "$work/standard" -c constraints.txt "$wheel[standard]"
install "$work/verifier" -c constraints.txt ./verifier

"$venv/bin/python" scripts/sample_certificate.py "$work/certificate.json" "$work/owner.key"
"$work/verifier/bin/gaussveil-verifier" "$work/certificate.json" --public-key "$work/owner.key.pub"

"$work/core/bin/python" scripts/check_core.py
"$work/standard/bin/python" scripts/run_examples.py "$work/standard" README.md

# The studies are a package of their own: one sentence without it, all of them with it.
if "$work/standard/bin/gaussveil" study list 2>"$work/refusal"; then exit 1; fi
grep "study needs gaussveil_studies: pip install ./studies" "$work/refusal"
install "$work/standard" -c constraints.txt ./studies
"$work/standard/bin/gaussveil" study list
