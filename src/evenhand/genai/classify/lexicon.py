"""Texts classified by the words in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evenhand.errors import OptionError
from evenhand.genai.backends.item import Item
from evenhand.genai.words import Words


class Lexicon:
    """Says which value's words are in a text; it cannot tell where there are none, or those of several values.

    Args:
        groups: by concept group and value, words and phrases, found as whole words in whatever case.

    >>> lexicon = Lexicon({"gender": {"woman": ["she", "her"], "man": ["he", "his"]}})
    >>> lexicon.classify(Item.of_text("She thanked her team.")), lexicon.classify(Item.of_text("He met her."))
    ({'gender': 'woman'}, {'gender': None})
    """

    def __init__(self, groups: Mapping[str, Mapping[str, Collection[str]]]) -> None:
        if not groups:
            raise OptionError("a lexicon needs at least one concept group")
        self._groups = {
            group: {value: Words(words) for value, words in values.items()} for group, values in groups.items()
        }

    def classify(self, item: Item) -> dict[str, str | None]:
        """The value of every group.

        Raises:
            DataError: the item is no text.
        """
        text = item.text
        found: dict[str, str | None] = {}
        for group, values in self._groups.items():
            named = [value for value, words in values.items() if words.found(text)]
            found[group] = named[0] if len(named) == 1 else None
        return found
