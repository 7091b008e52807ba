#!/usr/bin/env bash
# Lays freetrain out below STAGE as a package installs it: a virtual environment of its own in /opt/freetrain, so that
# the distribution's Python packages do not matter, and the units, man pages and settings where the system looks for them.
# It is made for the Python that makes it (PYTHON=/usr/bin/python3.12): a package needs the same minor version.
#
#   layout.sh STAGE [options of pip, as --no-index --find-links=wheels/]
set -euo pipefail
stage=$(realpath -m "$1")
shift
project=$(realpath "$(dirname "$0")/../..")
venv=/opt/freetrain

# setuptools installs whatever an earlier build left here, modules that are gone by now included.
rm -rf "$project/build/lib"
"${PYTHON:-/usr/bin/python3}" -m venv "$stage$venv"
"$stage$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile "$@" "$project[report]"
env -u PYTHONPATH "$stage$venv/bin/pip" uninstall --quiet --yes pip setuptools
# The tests of numpy, pyomo and matplotlib: a tenth of all.
find "$stage$venv/lib" -name tests -type d -prune -exec rm -r {} +
# What pip and venv have written names the stage, and direct_url.json where this project lies.
find "$stage$venv" \( -name __pycache__ -o -name direct_url.json \) -prune -exec rm -r {} +
# Nobody but root could keep compiled files there later. Some packages bring templates that do not compile.
"$stage$venv/bin/python" -m compileall -q -s "$stage" --invalidation-mode unchecked-hash "$stage$venv/lib" || true
grep -rlI --null "$stage" "$stage$venv" | xargs -0 --no-run-if-empty sed -i "s#$stage##g"

install -d "$stage/usr/bin"
ln -s "$venv/bin/freetrain" "$stage/usr/bin/freetrain"
cd "$project"
install -Dm644 -t "$stage/usr/lib/systemd/system" systemd/*.service systemd/*.timer
install -Dm644 systemd/freetrain.sysusers "$stage/usr/lib/sysusers.d/freetrain.conf"
install -Dm644 systemd/freetrain.tmpfiles "$stage/usr/lib/tmpfiles.d/freetrain.conf"
# The settings are the site's own: freetrain config init writes them. This shows all that there are.
install -d "$stage/etc/freetrain"
for page in etc/man/*; do
    install -Dm644 -t "$stage/usr/share/man/man${page##*.}" "$page"
done
install -Dm644 -t "$stage/usr/share/doc/freetrain" README.md CHANGELOG.md LICENSE etc/freetrain.toml
(cd docs && find . -name '*.md' -exec install -Dm644 {} "$stage/usr/share/doc/freetrain/docs/{}" \;)
install -Dm644 -t "$stage/usr/share/doc/freetrain/slurm" etc/slurm/*.lua
install -Dm755 -t "$stage/usr/share/doc/freetrain/notify" etc/notify/chat.py
install -Dm644 -t "$stage/usr/share/doc/freetrain/monitoring" etc/prometheus/*.yml etc/grafana/*.json
add_completion() {
    "$stage$venv/bin/python" -B -m freetrain completion "$1" | install -Dm644 /dev/stdin "$stage/usr/share/$2"
}
add_completion bash bash-completion/completions/freetrain
add_completion fish fish/vendor_completions.d/freetrain.fish
add_completion zsh zsh/site-functions/_freetrain
