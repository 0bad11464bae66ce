#!/usr/bin/env python3
"""Check the wheel and the sdist in a folder: every file that belongs there, no other, the same version, small enough.

Run by ``make dist`` in a Git checkout; ends with an error that names what is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_MB = {"wheel": 5, "sdist": 8}

LEFT_OUT = (".ci/*", "docs/images/*", "docs/dossiers/*.png", "docs/dossiers/*.pdf")
"""Files that are not in the sdist: pictures, printed pages, and developer tools."""


def files_of_wheel(tracked: list[str]) -> set[str]:
    """List the files of a wheel, except its metadata."""
    return {name.removeprefix("src/") for name in tracked if name.startswith("src/")} | {"evenhand/VERSION"}


def files_of_metadata(tracked: list[str]) -> set[str]:
    """List the metadata files of a wheel."""
    licences = {f"licenses/{name}" for name in tracked if name == "LICENSE" or fnmatch(name, "src/*NOTICE.md")}
    return licences | {"METADATA", "RECORD", "WHEEL", "entry_points.txt"}


def files_of_sdist(tracked: list[str]) -> set[str]:
    """List the files of an sdist, relative to its folder."""
    return {name for name in tracked if not any(fnmatch(name, pattern) for pattern in LEFT_OUT)} | {"PKG-INFO"}


def differences(found: set[str], expected: set[str]) -> list[str]:
    """Describe each missing and each unexpected file in a line."""
    return [f"missing: {name}" for name in sorted(expected - found)] + [
        f"unexpected: {name}" for name in sorted(found - expected)
    ]


def check(folder: Path, tracked: list[str]) -> list[str]:
    """List the errors of the distributions in a folder."""
    (wheel,), (sdist,) = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        version = archive.read("evenhand/VERSION").decode().strip()
    metadata = f"evenhand-{version}.dist-info/"
    with tarfile.open(sdist) as archive:
        top = f"evenhand-{version}/"
        outside = [one.name for one in archive if not one.isfile() or not one.name.startswith(top)]
        unpacked = {name.removeprefix(top) for name in archive.getnames()}
    expected = files_of_wheel(tracked) | {metadata + name for name in files_of_metadata(tracked)}
    wrong = [f"{wheel.name}: {line}" for line in differences(inside, expected)]
    wrong += [f"{sdist.name}: {line}" for line in differences(unpacked, files_of_sdist(tracked))]
    wrong += [f"{sdist.name}: not a file below {top}: {name}" for name in outside]
    for kind, file in (("wheel", wheel), ("sdist", sdist)):
        if file.stat().st_size > MOST_MB[kind] * 1e6:
            wrong.append(f"{file.name}: larger than {MOST_MB[kind]} MB")
    return wrong


def main() -> None:
    """Check the distributions, and print the errors."""
    folder = Path(sys.argv[1])
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    wrong = check(folder, [name for name in listed.stdout.split("\0") if name])
    for file in sorted(folder.iterdir()):
        print(f"{file.stat().st_size / 1e6:5.1f} MB  {file.name}")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
