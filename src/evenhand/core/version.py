"""Which version this is: what the build wrote down or, in a checkout and an editable install, the commit."""

from __future__ import annotations

import os

NEXT_RELEASE = "0.1.0"


def read_version(package: str) -> str:
    """Return the version of the package in a folder.

    ``0.1.0`` and ``0.1.0.dev12+g1a2b3c4`` were built; ``0.1.0.dev0+checkout.g1a2b3c4`` is a folder of sources, which
    may differ from that commit; without a Git folder it is ``0.1.0.dev0``.
    """
    built = _read(package, "VERSION")
    if built:
        return built
    commit = _read_commit(os.path.join(package, "..", "..", ".git"))
    return f"{NEXT_RELEASE}.dev0" + (f"+checkout.g{commit[:9]}" if commit else "")


def without_commit(version: str) -> str:
    """Return a version without its commit: of two checkouts it is the same, and work that was begun can go on."""
    return version.partition("+")[0]


def _read_commit(git: str) -> str:
    """Return the commit of a Git folder; of a worktree it is a file that names the folder. Empty if there is none."""
    named = _read(git).removeprefix("gitdir: ")
    folder = os.path.join(git, "..", named) if named else git
    head = _read(folder, "HEAD")
    if not head.startswith("ref: "):
        return head
    reference = head.removeprefix("ref: ")
    common = os.path.join(folder, _read(folder, "commondir"))
    packed = (line.split() for line in _read(common, "packed-refs").splitlines())
    return _read(common, reference) or next((line[0] for line in packed if line[1:] == [reference]), "")


def _read(*parts: str) -> str:
    """Return the text of a small file, without the end of its last line; empty if it cannot be read."""
    try:
        with open(os.path.join(*parts), encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeError):
        return ""
