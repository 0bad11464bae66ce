"""Keeps secrets out of texts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

HIDDEN = "***"

SHORTEST = 6
"""A secret with fewer characters is found in too many words to be taken out of them."""

_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
"""Environment variables whose names say that they hold a secret."""

_SHAPES = (
    re.compile(r"(?<=evenhand_)[A-Za-z0-9_-]{20,}"),
    re.compile(r"(?<=\bsk-)[A-Za-z0-9_-]{12,}"),
    re.compile(r"(?i)(?<=\bbearer )\s*[^\s\"',;]+"),
    re.compile(r"(?<=://)[^\s/@]*:[^\s/@]*(?=@)"),
    re.compile(r"(?i)(?<=\bpassword=)[^\s&\"']+"),
)
"""What keys and passwords look like: ours, those of others, those in headers and addresses."""


class Redaction:
    """Takes out of texts what looks like a secret, and the secrets that are known.

    Args:
        environment: whose secrets are known; that of the process by default.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        held = os.environ if environment is None else environment
        secrets = {value.strip() for name, value in held.items() if _NAMES.search(name)}
        known = sorted((one for one in secrets if len(one) >= SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        """The text without them."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for shape in _SHAPES:
            text = shape.sub(HIDDEN, text)
        return text
