"""Whole words and phrases in a text: 'asian' is not in 'caucasian'."""

from __future__ import annotations

import re
from collections.abc import Collection

from evenhand.errors import OptionError


class Words:
    """Finds any of several words or phrases in texts, as whole words, in whatever case and spacing.

    Args:
        words: at least one, none of them empty.

    >>> Words(["business leader"]).found("a Business  leader."), Words(["asian"]).found("Caucasian")
    (True, False)
    """

    def __init__(self, words: Collection[str]) -> None:
        given = [words] if isinstance(words, str) else list(words)
        parts = [r"\s+".join(re.escape(part) for part in word.split()) for word in given]
        if not parts or not all(parts):
            raise OptionError(
                f"{given!r} names no words to look for", mend="Give at least one word, none of them empty."
            )
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE)

    def found(self, text: str) -> bool:
        """Whether any of them is in the text."""
        return self._pattern.search(text) is not None
