"""``evenhand subgroups --text COLUMN``: subgroups of texts, by the identity terms in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.cli.options import Source
from evenhand.errors import DataError, OptionError

if TYPE_CHECKING:
    from evenhand.subgroup.text import TextSubgroups

ONLY_ROWS = ("bins", "per", "split", "augment", "budget")
"""Options that are about rows of people."""

RULE = re.compile(r"""\s*(?P<category>[^=\s]+)\s*==\s*(?P<group>"[^"]*"|'[^']*'|[^"'=]+?)\s*""")


def search_texts(
    model: str,
    source: Source,
    column: str,
    *,
    target: str | None,
    protected: Sequence[str],
    terms: Sequence[Path],
    favourable: str | None,
    options: dict[str, Any],
    trust: bool,
    quiet: bool,
) -> TextSubgroups:
    """Search a column of texts.

    Args:
        model: what decides about them.
        source: the table.
        column: of the texts.
        target: the column of true labels, for error rates.
        protected: names of lists of identity terms; terms: files of lists of one's own.
        favourable: the label whose rate is compared.
        options: settings by the names that the search for people gives them.
        trust: allow model files that can run code.
        quiet: show no progress.

    Raises:
        EvenhandError: the data, the model or the options cannot be used.
    """
    from evenhand import report
    from evenhand.datasets import identity
    from evenhand.subgroup import text

    for name in ONLY_ROWS:
        if name in options:
            raise OptionError(f"--{name} is about people, not about texts", mend="leave it out, or leave --text out")
    settings = dict(options)
    for ours, theirs in (("least_people", "least_texts"), ("against", "compared")):
        if ours in settings:
            settings[theirs] = settings.pop(ours)
    if "judged" in settings:
        settings["judged"] = tuple(_rules(condition) for condition in settings["judged"])
    config = text.Config(**settings)
    for name in (column, *([target] if target is not None else [])):
        if name not in source.frame.columns:
            raise DataError(
                f"there is no column {name!r}",
                where=source.name,
                mend=f"the columns are: {', '.join(map(str, source.frame.columns))}",
            )
    frame = source.frame.dropna(subset=[column])
    own = [category for path in terms for category in identity.read_categories(path)]
    with report.progress(quiet=quiet) as progress:
        return text.run(
            model,
            frame[column].astype(str).tolist(),
            protected=[*protected, *own] or None,
            truth=None if target is None else frame[target].tolist(),
            favourable=favourable,
            config=config,
            trust=trust,
            progress=progress,
        )


def _rules(condition: str) -> dict[str, str]:
    """``gender == women and religion == Muslims`` as rules.

    Raises:
        OptionError: it is written otherwise.
    """
    found = {}
    for part in re.split(r"\s+and\s+", condition):
        rule = RULE.fullmatch(part)
        if rule is None or rule["category"] in found:
            raise OptionError(
                f"{part!r} is not of the form CATEGORY == GROUP",
                where=f"--judge {condition!r}",
                mend="write for example 'gender == women and religion == Muslims', each category once",
            )
        found[rule["category"]] = rule["group"].strip("\"'")
    return found
