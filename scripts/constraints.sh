#!/usr/bin/env bash
# Rewrite constraints.txt from the two environments: names and versions only, so that any index and any machine will do.
# Lines that neither environment has (build back end, extras not installed here) are kept. deploy/requirements.txt holds
# what the image installs, with the hashes of every file of it.
set -euo pipefail

freeze() { "$1/bin/python" -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' | tr '[:upper:]_' '[:lower:]-'; }

pinned=$(mktemp)
{ freeze .venv; freeze .venv-peers; } | grep -vE '^(pip|setuptools|gaussveil)==' | sort -u >"$pinned"
kept=$(grep -vE '^#' constraints.txt | grep -vE "^($(cut -d= -f1 "$pinned" | paste -sd'|'))==" || true)
{
  echo "# What make installs: names and versions only. Refresh with: make constraints"
  { cat "$pinned"; echo "$kept"; } | grep . | sort -u
} >constraints.txt
rm "$pinned"
.venv/bin/uv pip compile -q pyproject.toml --extra studio -c constraints.txt --generate-hashes --no-annotate --no-header \
  --no-emit-index-url --python-version 3.13 -o deploy/requirements.txt
