#!/usr/bin/env bash
# Installs what the tests need besides Python: a Slurm with accounting, Lua, a browser, Prometheus, and what reads units,
# man pages and RPMs.
# As root on Debian or its like it does so; elsewhere it says in one line what to install. Without them CI fails, and
# elsewhere their tests are skipped.
set -euo pipefail

packages=(slurm-wlm slurmdbd munge mariadb-server lua5.1 lua5.4 chromium systemd groff-base rpm cpio prometheus)
programs=(slurmctld slurmd slurmdbd munged mariadbd lua5.1 lua5.4 chromium systemd-analyze groff rpmbuild cpio prometheus promtool)
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
missing=()
for program in "${programs[@]}"; do
    command -v "$program" >/dev/null || missing+=("$program")
done
[ "${#missing[@]}" = 0 ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing ${packages[*]}: the tests need ${missing[*]}."
    # The distribution's services are not wanted: the tests start their own, in directories of their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' > "$policy"
        chmod +x "$policy"
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
else
    echo "Not installed: ${missing[*]}. On Debian and Ubuntu: sudo apt install ${packages[*]}"
    [ -z "${CI:-}" ]
fi
