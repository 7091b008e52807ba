#!/usr/bin/env bash
# Makes a Debian package in the present directory: deb.sh [options of pip]. Needs dpkg-deb and python3-venv.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
"$here/layout.sh" "$stage" "$@"
mv "$stage/usr/share/zsh/site-functions" "$stage/usr/share/zsh/vendor-completions"  # where Debian's zsh looks

python=$(readlink -f "$stage/opt/freetrain/bin/python")
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')
version=$("$stage/opt/freetrain/bin/python" -B -c 'import freetrain; print(freetrain.__version__)')
architecture=$(dpkg --print-architecture)
mkdir "$stage/DEBIAN"
cat > "$stage/DEBIAN/control" <<END
Package: freetrain
Version: $version
Architecture: $architecture
Maintainer: the authors of freetrain <freetrain@localhost>
Section: net
Priority: optional
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), procps, systemd
Installed-Size: $(du -sk "$stage" | cut -f1)
Description: idle nodes of a Slurm machine for deep-learning training
 Lends nodes that will be idle for a while to elastic trainings, as preemptible
 jobs, and gives them back before Slurm needs them. By default it only observes.
END
# dpkg sets DPKG_ROOT where it installs into another root than the one that it runs in.
cat > "$stage/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
systemd-sysusers ${DPKG_ROOT:+--root="$DPKG_ROOT"} freetrain.conf
# systemd-tmpfiles needs /proc, which the build of an image may lack; there it runs at the first boot.
if [ -d /proc/self ]; then
    systemd-tmpfiles ${DPKG_ROOT:+--root="$DPKG_ROOT"} --create freetrain.conf
fi
[ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
END
cat > "$stage/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
[ "$1" != remove ] || [ -n "$DPKG_ROOT" ] || [ ! -d /run/systemd/system ] || systemctl disable --now freetrain.service freetrain-web.service \
    freetrain-report.timer freetrain-ledger.timer freetrain-backup.timer
END
cat > "$stage/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
[ "$1" = purge ] || exit 0
rm -rf "$DPKG_ROOT/etc/freetrain/freetrain.toml" "$DPKG_ROOT/run/freetrain"
# What the daemon knows stays in /var/lib until an administrator removes it, and so does the account that owns it.
if ! ls -d "$DPKG_ROOT"/var/lib/freetrain* > /dev/null 2>&1 && command -v userdel > /dev/null; then
    ! grep -q ^freetrain: "$DPKG_ROOT/etc/passwd" || userdel ${DPKG_ROOT:+--prefix "$DPKG_ROOT"} freetrain
    ! grep -q ^freetrain: "$DPKG_ROOT/etc/group" || groupdel ${DPKG_ROOT:+--prefix "$DPKG_ROOT"} freetrain
fi
END
chmod 755 "$stage/DEBIAN/postinst" "$stage/DEBIAN/prerm" "$stage/DEBIAN/postrm"
dpkg-deb --root-owner-group -Zxz --build "$stage" "freetrain_${version}_$architecture.deb"
