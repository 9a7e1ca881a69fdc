#!/usr/bin/env bash
# Print each system component the suite needs, why, and whether it was found or installed (as root, by apt); stop with
# advice where one is missing. One line per component: name | test command | Debian package | needed for | kind, where kind is
# required (cannot be brought), test (installed when root) or optional.
set -euo pipefail

python=${PYTHON:-python3}

components() {
  cat <<EOF
python3|$python -c 'import sys; raise SystemExit(sys.version_info < (3, 11))'|python3 (3.11 or later)|everything|required
python3-venv|$python -c 'import venv, ensurepip'|python3-venv|the virtual environment|required
make|make --version|make|running this|required
git|git --version|git|naming the commit in benchmark results|optional
java|java -version|default-jre-headless|the tests of the Spark engine|test
chromium|command -v chromium|chromium|the tests of reports and studio in a real browser|test
postgresql|test -n "\$(find /usr/lib/postgresql /usr/bin /usr/local/bin -name initdb)"|postgresql|the tests of tables in PostgreSQL|test
mosquitto|command -v mosquitto /usr/sbin/mosquitto|mosquitto|the tests of the MQTT gateway|test
systemd-analyze|command -v systemd-analyze|systemd|checking the hardened service unit|test
EOF
}

install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  if [ -z "${updated:-}" ]; then
    apt-get update -qq >/dev/null 2>&1 || true
    updated=yes
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1
}

missing=0
printf '%-14s %-10s %s\n' component status 'needed for'
while IFS='|' read -r name check package reason kind; do
  if bash -c "$check" >/dev/null 2>&1; then
    status=found
  elif [ "$kind" = optional ]; then
    status=absent
  elif [ "$kind" = test ] && install "$package" && bash -c "$check" >/dev/null 2>&1; then
    status=installed
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
