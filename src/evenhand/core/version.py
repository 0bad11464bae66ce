"""Version of the package: recorded by the build, or derived from the commit of a checkout."""

from __future__ import annotations

import os

NEXT_RELEASE = "0.1.0"


def read_version(package: str) -> str:
    """Read the version of the package in a folder.

    Builds have versions such as ``0.1.0`` and ``0.1.0.dev12+g1a2b3c4``. A checkout has a version such as
    ``0.1.0.dev0+checkout.g1a2b3c4``, and may contain changes to this commit. Sources without a Git folder have the
    version ``0.1.0.dev0``.
    """
    built = _read(package, "VERSION")
    if built:
        return built
    commit = _read_commit(os.path.join(package, "..", "..", ".git"))
    return f"{NEXT_RELEASE}.dev0" + (f"+checkout.g{commit[:9]}" if commit else "")


def without_commit(version: str) -> str:
    """Remove the commit from a version, so that a saved run can be resumed after a commit."""
    return version.partition("+")[0]


def _read_commit(git: str) -> str:
    """Read the commit of a Git folder, or of a worktree, where ``.git`` is a file. Empty if there is none."""
    target = _read(git).removeprefix("gitdir: ")
    folder = os.path.join(git, "..", target) if target else git
    head = _read(folder, "HEAD")
    if not head.startswith("ref: "):
        return head
    reference = head.removeprefix("ref: ")
    common = os.path.join(folder, _read(folder, "commondir"))
    packed = (line.split() for line in _read(common, "packed-refs").splitlines())
    return _read(common, reference) or next((line[0] for line in packed if line[1:] == [reference]), "")


def _read(*parts: str) -> str:
    """Read a small file and strip whitespace. Empty if it cannot be read."""
    try:
        with open(os.path.join(*parts), encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeError):
        return ""
