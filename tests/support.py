"""What several tests share: where optional real data lies, and skipping clearly without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shared(*parts: str) -> Path:
    """A file or folder of the real data beside the checkout; skips the test where it is absent."""
    base = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared"))
    path = base.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"real data not here: {'/'.join(parts)} (point EVENHAND_SHARED to the folder that holds it)")
    return path
