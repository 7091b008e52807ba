#!/bin/sh
# Prints the Python that the project's virtual environment is made with, its argument unless other accounts cannot run
# it: jobs and daemons of several accounts run the tests of root. Then it is another one of this machine, or, where
# there is none, a copy of it in the project's own folder. Nothing outside that folder is changed.
wanted=${1:-python3}
copy=.venv-python

fits() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# setpriv would keep capabilities with which root's folders can be entered still.
is_for_all() {
    "$wanted" - "$1" <<END 2>/dev/null
import subprocess, sys
sys.exit(subprocess.run([sys.argv[1], "-c", "import ssl"], user=65534, group=65534, extra_groups=[], cwd="/").returncode)
END
}

if [ "$(id -u)" != 0 ] || ! fits "$wanted"; then
    echo "$wanted" # what is wrong with it make says
    exit
fi
real=$("$wanted" -c 'import os, sys; print(os.path.realpath(sys.executable))')
for python in "$real" /usr/local/bin/python3 /usr/bin/python3 /usr/bin/python3.1[1-9] "$PWD/$copy/bin/python3"; do
    if [ -x "$python" ] && fits "$python" && is_for_all "$python"; then
        echo "$python"
        exit
    fi
done
base=$("$wanted" -c 'import sys; print(sys.base_prefix)')
version=$("$wanted" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
mkdir -p "$copy/bin" "$copy/lib"
cp "$base/bin/$version" "$copy/bin/python3"
find "$base/lib" -maxdepth 1 -name 'libpython*' -exec cp -P {} "$copy/lib/" \;
tar -C "$base/lib" --exclude=site-packages --exclude=__pycache__ --exclude='test' -cf - "$version" | tar -C "$copy/lib" -xf -
mkdir -p "$copy/lib/$version/site-packages"
chmod -R o+rX "$copy"
# A Python that was built with a shared library looks for it where it was installed: the copy looks beside itself.
"$wanted" - "$base/lib" "$copy"/bin/python3 <<'END'
import sys
from pathlib import Path
where, program = sys.argv[1].encode(), Path(sys.argv[2])
beside = b"$ORIGIN/../lib"
if len(beside) <= len(where):
    content = program.read_bytes()
    program.write_bytes(content.replace(where + b"\0", beside.ljust(len(where), b"\0") + b"\0"))
END
is_for_all "$PWD/$copy/bin/python3" && echo "$PWD/$copy/bin/python3" || echo "$wanted"
