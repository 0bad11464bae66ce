"""Which decisions were made, by their ids, and which of them still wait for their label."""

from __future__ import annotations

from collections.abc import Iterable

from evenhand.errors import DecisionError

Id = str | int

# Codes of decisions whose label is known to be 0 or 1; any other code waits for its label.
LABELLED = (-1, -2)


class Ids:
    """Ids with a small code each: nothing is kept of a decision beside what its label will need.

    A code is a nonnegative number that stands for the group and the decision while the label is awaited, then
    ``-1 - label``.

    Args:
        entries: ids and codes, in the order of the decisions.
    """

    __slots__ = ("codes",)

    def __init__(self, entries: Iterable[tuple[Id, int]] = ()) -> None:
        self.codes: dict[Id, int] = dict(entries)

    def check(self, key: Id) -> None:
        """Nothing was decided under this id yet, and it is one that a file can keep.

        Raises:
            DecisionError: the id is neither a text nor a whole number, or there was a decision for it.
        """
        if key.__class__ is not str and key.__class__ is not int:
            raise DecisionError(
                f"the id {key!r} is a {type(key).__name__}", code="id", mend="give a text or a whole number"
            )
        if key in self.codes:
            raise DecisionError(
                f"there was a decision for the id {key!r} already",
                code="repeated",
                mend="look up the decision that was made; each id is decided once",
            )

    def awaited(self, key: Id, label: object) -> tuple[int, int]:
        """The code of a decision and its label as 0 or 1; nothing changes.

        Raises:
            DecisionError: no decision has this id, its label is known, or the label is not 0 or 1.
        """
        try:
            given = {0: 0, 1: 1}.get(label)  # type: ignore[call-overload]
        except TypeError:
            given = None
        if given is None:
            raise DecisionError(f"the label {label!r} is not 0 or 1", code="label", mend="give 0 or 1")
        try:
            code = self.codes.get(key)
        except TypeError:
            code = None
        if code is None:
            raise DecisionError(
                f"no decision has the id {key!r}, so there is nothing to label",
                code="unknown-id",
                mend="give the id of a decision that this shield made and still remembers",
            )
        if code in LABELLED:
            known = -1 - code
            raise DecisionError(
                f"the label of {key!r} is known: {known}"
                + ("" if known == given else f"; the label {given} contradicts it"),
                code="repeated" if known == given else "contradiction",
                mend="a label is given once and stays",
            )
        return code, given

    def keep_awaited(self) -> None:
        """Forget all but the decisions whose labels are awaited."""
        self.codes = {key: code for key, code in self.codes.items() if code >= 0}
