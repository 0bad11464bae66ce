"""What every verb does with its arguments first: progress, the data, the model and its people."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.core.result import Result
    from evenhand.models.subject import Subject

Names: TypeAlias = Sequence[str] | None
Verb = TypeVar("Verb", bound=Callable[..., Any])
ResultT = TypeVar("ResultT", bound="Result")


def takes_progress(verb: Verb) -> Verb:
    """Return a verb that takes ``progress`` as ``evenhand.view.follow_progress`` does.

    The verb itself always finds a function to call among its settings. Missing arguments, and those that it does not
    take, are an ``OptionError``.
    """
    signature = inspect.signature(verb)

    @wraps(verb)
    def follow_and_run(*given: Any, progress: Any = None, **settings: Any) -> Any:
        from evenhand import view

        try:
            signature.bind(*given, **settings)
        except TypeError as error:
            names = [name for name, one in signature.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
            hint = f"positional arguments are: {', '.join(names)}; pass the others by name"
            raise OptionError(f"{verb.__name__}: {error}", hint=hint) from None
        with view.follow_progress(progress) as say:
            return verb(*given, progress=say, **settings)

    return cast("Verb", follow_and_run)


def select_shown(result: ResultT, show_people: bool) -> ResultT:
    """Return the result with records of real people, or without.

    Raises:
        OptionError: ``show_people`` is not a truth value.
    """
    from evenhand.schema.arrays import check_type

    check_type("show_people", show_people, bool, "True or False")
    return result if show_people else result.hide_people()


def read_data(data: Any, settings: dict[str, Any], *, large: bool = False, words: bool = False) -> Any:
    """Return the data as a data frame; takes ``encoding`` and ``sheet`` out of the settings.

    Args:
        data: data frame, or the place of a table.
        settings: arguments of the verb.
        large: return a lazy frame where the table has many rows.
        words: keep every cell of a file as a word.
    """
    from evenhand.datasets.rows import open_data
    from evenhand.datasets.tables import read_frame, read_words

    reading = {name: settings.pop(name) for name in ("encoding", "sheet") if name in settings}
    rows = open_data(data) if large and isinstance(data, str | Path) else None
    if reading and (rows is not None or not isinstance(data, str | Path)):
        raise OptionError(
            f"`{next(iter(reading))}=` is about a file that is read into memory, and the data is "
            f"{'read where it is' if rows is not None else 'not a file'}",
            hint="leave it out, or pass the path of a table",
        )
    if not isinstance(data, str | Path):
        return data
    read = read_words if words else read_frame
    return read(data, **reading) if rows is None else rows


def is_text_file(data: Any) -> bool:
    """Return whether data is the path of a text table, which does not state the types of its columns."""
    from evenhand.datasets.rows import is_text_table

    return isinstance(data, str | Path) and is_text_table(data)


def read_subject(
    model: Any,
    data: Any,
    y: Any,
    target: str | None,
    protected: Names,
    settings: dict[str, Any],
    *,
    varied: bool = True,
    weights: Any = None,
) -> Subject:
    """Return the model and the people, with their weights; takes what is about them out of the settings."""
    from evenhand.models.subject import Subject
    from evenhand.schema.arrays import check_index, check_type
    from evenhand.schema.columns import ColumnRoles
    from evenhand.schema.target import OutcomeRole
    from evenhand.schema.weights import add_sample_columns

    check_type("budget", settings.get("budget"), Integral, "a whole number")
    membership = settings.pop("membership", None)
    untyped = is_text_file(data)
    data = read_data(data, settings)
    check_index(data=data, y=y, sample_weight=weights, membership=membership)
    frame, sample = add_sample_columns(data, weights, membership=membership)
    if settings.get("schema") is None and (columns := sample.columns(frame)):
        settings["ignore"] = list(dict.fromkeys([*(settings.get("ignore") or ()), *columns]))
    if "favorable" in settings:
        settings["favourable"] = settings.pop("favorable")
    kept = ("favourable", "unfavourable", "ignore", "schema", "accept_proposals")
    about = {name: settings.pop(name) for name in kept if name in settings}
    said = {name: settings.pop(name) for name in ("kind", "order", "unit") if name in settings}
    roles = ColumnRoles(target=target, protected=protected, y=y, outcome=OutcomeRole.of(**said), **about)
    people = replace(roles.read(frame, varied=varied), untyped=untyped)
    names = {name: settings.pop(name) for name in ("data_name", "model_name", "trust", "output") if name in settings}
    held, memberships = sample.read(frame, people.rows)
    return Subject(model, people, weights=held, memberships=memberships, **names)
