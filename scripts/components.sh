#!/usr/bin/env bash
# Print each system component the suite needs, why, and whether it was found; stop with advice where a required one is missing.
# One line per component: name | test command | what to install on Debian | needed for | required or optional
set -euo pipefail

python=${PYTHON:-python3}

components() {
  cat <<EOF
python3|$python -c 'import sys; raise SystemExit(sys.version_info < (3, 11))'|python3 (3.11 or later)|everything|required
python3-venv|$python -c 'import venv, ensurepip'|python3-venv|the virtual environment|required
make|make --version|make|running this|required
git|git --version|git|naming the commit in benchmark results|optional
EOF
}

missing=0
printf '%-14s %-10s %s\n' component status 'needed for'
while IFS='|' read -r name check package reason need; do
  if bash -c "$check" >/dev/null 2>&1; then
    status=found
  elif [ "$need" = optional ]; then
    status=absent
  else
    status=MISSING
    missing=1
    advice="${advice:-}  $name: install $package (Debian, Ubuntu: apt-get install ${package%% *})"$'\n'
  fi
  printf '%-14s %-10s %s\n' "$name" "$status" "$reason"
done < <(components)

if [ "$missing" = 1 ]; then
  printf '\nmissing, cannot go on:\n%s' "$advice" >&2
  exit 1
fi
