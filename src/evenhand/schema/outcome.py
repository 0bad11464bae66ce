"""Outcomes: the target of a schema, and columns of decisions and true labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StrictStr, model_validator

from evenhand.core.reading import OutcomeReading
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.schema.attribute import Value, find_value, match_label
from evenhand.schema.table import (
    TRUTH,
    CodedColumn,
    find_variants,
    folded,
    is_adverse_name,
    is_favourable_word,
    is_missing,
    is_number,
    list_values,
    means_unknown,
    outcome_key,
    parse_word,
    plain_key,
    plain_value,
    read_number,
    sort_key,
    unknown_codes,
    word_of,
)

TargetKind: TypeAlias = Literal["label", "labels", "ordinal", "number"]

NEITHER = "neither"
"""Favourable value of a target without a favourable label or direction."""

DIRECTIONS = ("higher", "lower", NEITHER)
"""Favourable directions of a numeric target."""

MOST_LABELS = 50
"""Maximum number of different labels in a column of decisions."""

MOST_NUMERIC_LABELS = 10
"""Maximum number of distinct numbers in a column that is inferred to hold labels."""

SAME_WORD = "same word as the decision"

SIGNIFICANT, CONTRADICTORY = 2.0, 4.0
"""Minimum absolute z-scores of an association with the decisions to support a guess, and to refute it."""

NUMERIC_HINT = "; or that it is a number: `kind=number`; or that these are levels, lowest first: `kind=ordinal`"
PLAIN_HINT = "write plain numbers such as 1200.5, without units; or omit `kind=number` for labels"
EACH_HINT = "; or compare each of them: `kind=labels`"


class Target(BaseModel):
    """Target of a schema: the label or number that is decided.

    Attributes:
        name: Column of the true label or number.
        kind: ``label`` compares the favourable label with all others; ``labels`` compares each label with the others;
            ``ordinal`` labels have an order; ``number`` is a quantity such as a price or a score.
        favourable: Favourable label. For ``ordinal``: the first or the last of ``values``. For ``labels``:
            ``neither``. For ``number``: ``higher``, ``lower`` or ``neither`` (unspecified).
        values: All labels; for ``ordinal`` worst first or best first. Default: ``favourable`` and all other labels in
            the data. Not allowed for ``number``.
        unit: Unit of a numeric target, such as ``EUR``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    kind: TargetKind = "label"
    favourable: Value = Field(validation_alias=AliasChoices("favourable", "favorable"))
    values: tuple[Value, ...] | None = None
    unit: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_favourable(cls, data: Any) -> Any:
        """Set ``favourable`` to ``neither`` by default for kinds ``number`` and ``labels``."""
        if isinstance(data, dict) and data.get("kind") in ("number", "labels") and "favorable" not in data:
            return {"favourable": NEITHER} | data
        return data

    @model_validator(mode="after")
    def _check_consistency(self) -> Target:
        if self.kind == "number":
            if self.favourable not in DIRECTIONS:
                raise ValueError(
                    f"favourable of kind number must be one of {', '.join(DIRECTIONS)}, got {self.favourable!r}"
                )
            if self.values is not None:
                raise ValueError("values are not allowed for kind number")
            return self
        if self.unit is not None:
            raise ValueError("a unit requires `kind: number`")
        if self.values is not None and len(self.values) < 2:
            raise ValueError(f"values must have at least two labels, got {list(self.values)}")
        if self.kind == "labels" and self.favourable != NEITHER:
            raise ValueError(f"`kind: labels` takes no favourable label, got {self.favourable!r}: use `kind: label`")
        if self.kind != "labels" and self.values is not None and self.favourable not in self.values:
            raise ValueError(f"favourable {self.favourable!r} is not among the labels {list_values(self.values)}")
        if self.kind == "ordinal":
            if self.values is None:
                raise ValueError("an ordinal target needs its `values`, in order")
            if self.favourable not in (self.values[0], self.values[-1]):
                raise ValueError(
                    f"favourable {self.favourable!r} of an ordinal target must be the first or the last of its values "
                    f"{list_values(self.values)}"
                )
        return self

    @property
    def is_number(self) -> bool:
        """Whether the target is a number."""
        return self.kind == "number"

    def describe(self, name: str | None = None) -> OutcomeReading:
        """Describe the favourable values. If ``name`` is passed, it replaces the column name."""
        column = name or self.name
        if self.favourable == NEITHER:
            return OutcomeReading(column=column)
        unfavourable = tuple(word_of(value) for value in self.values or () if value != self.favourable)
        return OutcomeReading(column=column, favourable=(word_of(self.favourable),), unfavourable=unfavourable)

    def require_labels(self, analysis: str) -> None:
        """Check that the target has a favourable label.

        Raises:
            SchemaError: The target is a number, or no label is favourable.
        """
        if self.kind == "labels":
            raise SchemaError(
                f"{analysis} compares a favourable label with all others, and no label of {self.name!r} is favourable",
                hint="name the favourable label, and use `kind=label`",
            )
        if self.kind == "number":
            raise SchemaError(
                f"{analysis} compares labels, and the target {self.name!r} is a number",
                hint="convert the number to classes first, for example above and below a threshold",
            )


@dataclass(frozen=True)
class OutcomeRole:
    """Description of the outcome column without a schema.

    Attributes:
        kind: ``label``, ``labels``, ``ordinal`` or ``number``. Default: inferred, see ``infer_kind``.
        order: Labels of an ordinal outcome, worst first.
        unit: Unit of a numeric outcome.
    """

    kind: TargetKind | None = None
    order: Sequence[Value] | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            OptionError: The kind is unknown, the order is not a list of at least two labels, or an argument does not
                apply to the kind.
        """
        kinds, order = get_args(TargetKind), self.order
        if self.kind is not None and not (isinstance(self.kind, str) and self.kind in kinds):
            hint = "remove `kind=` to infer it from the labels"
            raise OptionError(f"expected kind {', '.join(kinds)}, got {self.kind!r}", hint=hint)
        if order is None:
            return
        labels = order.tolist() if isinstance(order, np.ndarray) else order  # a number or word if it has no dimensions
        if isinstance(labels, str) or not isinstance(labels, Sequence) or len(labels) < 2:
            message = f"expected an order of at least two labels, worst first, got {order!r}"
            raise OptionError(message, hint="order=['low', 'high']")
        if self.kind in ("labels", "number"):
            hint = "remove one; labels with an order have `kind=ordinal`"
            raise OptionError(f"expected `kind={self.kind}` or `order=`, got both", hint=hint)
        object.__setattr__(self, "order", tuple(labels))


INFERRED = OutcomeRole()
"""Role of an outcome whose kind is inferred from its values."""


@dataclass(frozen=True)
class OutcomeColumn:
    """A column of decisions or true labels.

    All spellings of a Boolean (``1``, ``1.0``, ``True``, ``TRUE``) are the same label, as are a number and its
    canonical spelling.

    Attributes:
        name: Name of the outcome. Default: that of the column.
        coded: Cells of the column.
        labels: Label of each row in one spelling, None if the cell is empty.
        words: Distinct labels, in order.
    """

    name: str
    coded: CodedColumn
    labels: CodedColumn
    words: tuple[Value, ...]

    @classmethod
    def read(cls, coded: CodedColumn, name: str | None = None) -> OutcomeColumn:
        """Read the labels in a column.

        Raises:
            DataError: A cell is not a string, a number or a Boolean, or the column is empty.
        """
        cells = [
            parse_word(value.strip()) if isinstance(value, str) else plain_value(value) for value in coded.coding.values
        ]
        labels = [cell for cell in cells if not is_missing(cell)]
        if not labels:
            raise DataError(f"column {coded.name!r} is empty")
        for label in labels:
            if not isinstance(label, str | bool | int | float):
                raise DataError(
                    f"expected text or numbers in column {coded.name!r}, got {type(label).__name__} values",
                    hint="convert them to text or numbers",
                )
        spelling = outcome_key if coded.array is None else repr  # numbers of one type are equal only if their text is
        words: dict[str, Value] = {}
        for label in sorted(labels, key=sort_key):
            words.setdefault(spelling(label), label)
        values = [None if is_missing(cell) else words[spelling(cell)] for cell in cells]
        return cls(name or coded.name, coded, coded.with_values(values), tuple(words.values()))

    def present(self, rows: Booleans) -> list[Value]:
        """List the labels that occur in the rows selected by a mask, in order."""
        return [self.words[i] for i in np.unique(self.encode(self.words)[rows]) if i >= 0]

    def describe(self, chosen: Collection[Value]) -> str:
        """Describe the chosen labels with their counts and first rows."""
        return self.labels.describe(self.labels.map(lambda label: label in chosen))

    def encode(self, values: Sequence[Value]) -> Integers:
        """Encode each row's label as its position in ``values``, -1 for other labels, shape (n,)."""
        codes = {outcome_key(value): i for i, value in enumerate(values)}
        return self.labels.map(lambda label: -1 if label is None else codes.get(outcome_key(label), -1), np.int64)

    def require(self, configured: Sequence[Value], argument: str) -> list[Value]:
        """Find the labels in the column that match configured values, in any spelling.

        Raises:
            SchemaError: A value does not occur. The message lists the labels in the column.
        """
        matches = []
        for value in configured:
            match = find_value(value, self.words)
            if match is None:
                similar = next((word for word in self.words if folded(word) == folded(value)), None)
                hint = "" if similar is None else f"did you mean {similar!r}? "
                raise SchemaError(
                    f"the {argument} label {value!r} does not occur in column {self.name!r}",
                    hint=f"{hint}the labels are: {self.describe(self.words)}",
                )
            matches.append(match)
        return matches

    def require_spelling(self) -> None:
        """Check that no labels differ only in case or whitespace.

        Raises:
            DataError: Some labels differ only in case or whitespace.
        """
        if self.coded.array is not None:
            return
        variants = [words for words in find_variants(self.coded.coding.values) if outcome_key(words[0]) not in TRUTH]
        if variants:
            rows = self.coded.map(lambda value: any(value in words for words in variants))
            raise DataError(
                f"column {self.name!r} has the same word in several spellings: {self.coded.describe(rows)}",
                hint="use one spelling, in protected columns too; with pandas: column.str.strip().str.lower()",
            )

    def known_words(self, explicit: Collection[Value] = ()) -> list[Value]:
        """List the labels that do not mean "unknown". Explicit labels, in any spelling, never do.

        A number is a code for "unknown" only if all other numbers are 0 and 1. A dash is a label beside ``+``.
        """
        keys = {*map(outcome_key, explicit), *("-\u2013\u2014" if "+" in self.words else ())}
        known = [word for word in self.words if outcome_key(word) in keys or not means_unknown(word, outcome=True)]
        numbers = [word for word in known if not isinstance(word, str)]
        codes = [code for code in unknown_codes(numbers) if outcome_key(code) not in keys]
        others = [number for number in numbers if number not in codes]
        if not codes or len(others) != 2 or any(outcome_key(number) not in TRUTH for number in others):
            return known
        return [word for word in known if word not in codes]


class DecisionLabels(NamedTuple):
    """Labels of a column, one of which is favourable.

    Attributes:
        names: Labels, the favourable one last. An unfavourable label need not occur.
        labelled, favourable: Masks of the rows with a label, and with the favourable label, shape (n,).
        reading: Favourable, unfavourable and unknown labels, and the reason for the favourable label.
    """

    names: tuple[Value, ...]
    labelled: Booleans
    favourable: Booleans
    reading: OutcomeReading = OutcomeReading(column="")


def read_labels(
    column: OutcomeColumn,
    favourable: Value | None,
    unfavourable: Sequence[Value] = (),
    *,
    complete: bool = False,
    basis: str = "stated",
) -> DecisionLabels:
    """Read a column of labels, one of which is favourable.

    Args:
        column: Column of the labels.
        favourable: Favourable label. If None, it is proposed (see ``propose_favourable``).
        unfavourable: Unfavourable labels. Optional if there is only one.
        complete: Whether every other label is unfavourable.
        basis: Reason for the favourable label.

    Raises:
        SchemaError: The favourable label cannot be proposed, or does not occur.
        DataError: The column has too many distinct labels, or labels that are neither favourable nor unfavourable.
    """
    check_number_of_labels(column.name, column.words)
    column.require_spelling()
    if favourable is None:
        favourable, basis = propose_favourable(column.name, column.known_words()), "proposed"
    elif (match := find_value(favourable, column.words)) is not None:
        favourable = match
    elif basis == "stated" and (
        len(column.known_words()) > 1 or not {*map(plain_key, (favourable, *column.words))} <= {*TRUTH}
    ):
        # If all labels are true, or all are false, the other label is known although it does not occur.
        column.require([favourable], "favourable")
    losing = column.require(unfavourable, "unfavourable") if unfavourable else []
    known = column.known_words([favourable, *losing])
    left = [word for word in known if word not in (favourable, *losing)]
    if (left and losing) or (len(left) > 1 and not complete):
        raise DataError(
            f"column {column.name!r} has labels that are neither favourable nor unfavourable: {column.describe(left)}",
            hint=f"the favourable label is {favourable!r}; correct the data, or list all unfavourable labels: "
            f"`unfavourable={left[0]}`; or use `kind=label` if every other label is unfavourable",
        )
    losing = [*losing, *left] or [opposite_label(favourable)]
    names = (*losing, favourable)
    codes = column.encode(names)
    reading = OutcomeReading(
        column=column.name,
        favourable=(word_of(favourable),),
        unfavourable=tuple(map(word_of, losing)),
        unknown=tuple(word_of(word) for word in column.words if word not in known),
        how=basis,
    )
    return DecisionLabels(names, codes >= 0, codes == len(losing), reading)


def check_number_of_labels(name: str, labels: Collection[Any], minimum: int = 0) -> None:
    """Check that a column does not have too few or too many labels.

    Raises:
        DataError: The number of labels is out of range.
    """
    if len(labels) < minimum:
        raise DataError(
            f"the target column {name!r} has only one class: {list_values(labels)}",
            hint="an audit needs people with and without the favourable label",
        )
    if len(labels) > MOST_LABELS:
        raise DataError(
            f"expected at most {MOST_LABELS} labels in column {name!r}, got {len(labels):,} different values",
            hint="for numbers, use `kind=number`; for scores, use `y_score=...` with `threshold=0.5` and no "
            "decisions; for labels, combine rare labels",
        )


def propose_favourable(name: str, labels: Sequence[Any]) -> Any:
    """Propose which of two labels is favourable, from their wording and the column name.

    ``approved`` is favourable and ``denied`` is not; in a column ``defaulted``, ``no`` is favourable and
    ``yes`` is not.

    Raises:
        SchemaError: There are not exactly two labels, or neither is evidently favourable.
    """
    keys = [plain_key(label) for label in labels]
    if keys in (["0"], ["1"], ["0", "1"], ["1", "0"]):
        adverse = is_adverse_name(name)
        if adverse is not None:
            favourable = "0" if adverse else "1"
            # If all labels are true, false is a label too.
            return labels[keys.index(favourable)] if favourable in keys else opposite_label(labels[0])
    elif len(labels) == 2 and not set(keys) <= set(TRUTH):
        verdicts = [is_favourable_word(label) for label in labels]
        if verdicts[0] is not verdicts[1]:
            return labels[verdicts.index(True) if True in verdicts else 1 - verdicts.index(False)]
    numeric = all(isinstance(label, int | float) for label in labels) and len(labels) > 2
    raise SchemaError(
        f"which label of {name!r} is favourable? It is not evident from {list_values(labels)}",
        hint="state it: `favourable=VALUE`" + EACH_HINT * (len(labels) > 2) + NUMERIC_HINT * numeric,
    )


def propose_true_label(
    truth: OutcomeColumn, decision: OutcomeColumn | None, decisions: DecisionLabels
) -> tuple[Value, str]:
    """Propose the favourable true label if it is not specified.

    If the true labels and the decisions have the same labels, the favourable decision is the favourable true label.
    Otherwise the labels, the names of the columns and the association between decisions and true labels must agree.

    Args:
        truth: True labels.
        decision: Decisions. None if they are based on a score.
        decisions: Labels of the decisions, or of scores above and below the median.

    Returns:
        The label, and the reason for it.

    Raises:
        SchemaError: The evidence is missing or contradictory.
    """
    truth.require_spelling()
    words = truth.known_words(decisions.names)
    title, hint = truth.name, "state it: `favourable_target=VALUE`"
    adverse = is_adverse_name(title) and not (decision is not None and is_adverse_name(decision.name))
    decided = list(map(plain_key, decisions.names))
    keys = list(map(plain_key, words))
    plain = set(keys) <= set(TRUTH)  # Booleans, or yes and no, whose meaning depends on the column name
    same = bool(keys) and set(keys) <= set(decided)
    if same:
        other = opposite_label(words[0]) if plain else decisions.names[-1]
        label = words[keys.index(decided[-1])] if decided[-1] in keys else other
        strength = _association(truth, label, decisions)
        if plain and strength <= -CONTRADICTORY and not adverse:
            message = f"the favourable true label of {title!r} may be {label!r}, as for the decision, but the"
            raise SchemaError(f"{message} favourable decision is less frequent there", hint=hint)
        if plain and strength <= -SIGNIFICANT and not adverse:
            return label, (
                f"{SAME_WORD}, although the favourable decision is less frequent there: if it is not the favourable "
                f"label of {title!r}, state the other one: `favourable_target=VALUE`"
            )
        if not (plain and adverse) or strength >= SIGNIFICANT:
            return label, SAME_WORD
    try:
        label = propose_favourable(title, words)
    except SchemaError:
        message = f"the favourable true label of {title!r} is not evident from {list_values(words)}"
        raise SchemaError(message, hint=hint) from None
    strength = _association(truth, label, decisions)
    evident = not plain or (adverse and not same)
    if strength <= -SIGNIFICANT:
        evidence = "the favourable decision is less frequent there"
    elif strength >= SIGNIFICANT or evident or decision is None:
        if evident or strength < SIGNIFICANT:
            return label, "proposed from the words and the column name"
        return label, "proposed because the favourable decision is more frequent there"
    else:
        evidence = "decisions and true labels are not associated"
    message = f"the favourable true label of {title!r} may be {label!r}, judging by its name, but {evidence}"
    raise SchemaError(message, hint=hint)


def _association(truth: OutcomeColumn, favourable: Value, decisions: DecisionLabels) -> float:
    """Compute the z-score of the association between favourable decisions and a true label.

    The z-score is the signed square root of the chi-squared statistic of the two-by-two table; 0 if a margin is empty.
    """
    labels = [favourable, *(word for word in truth.known_words((favourable,)) if word != favourable)]
    codes = truth.encode(labels)
    both_known = decisions.labelled & (codes >= 0)
    cells = 2 * decisions.favourable[both_known] + (codes[both_known] == 0)
    weights = None if truth.coded.counts is None else truth.coded.counts[both_known]
    table: Floats = np.bincount(cells, weights=weights, minlength=4).astype(np.float64).reshape(2, 2)
    margins = np.concatenate([table.sum(axis=0), table.sum(axis=1)])
    if not margins.all():
        return 0.0
    determinant = table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0]
    return float(determinant * np.sqrt(table.sum() / margins.prod()))


def opposite_label(label: Value) -> Value:
    """Name the opposite of a label: 0 for 1, ``no`` for ``yes``, otherwise ``not`` and the label."""
    if isinstance(label, bool):
        return not label
    if outcome_key(label) in TRUTH and not isinstance(label, str):
        return 1 - label
    return {"yes": "no", "no": "yes"}.get(str(label), f"not {label}")


def infer_kind(column: OutcomeColumn, favourable: Value | None, outcome: OutcomeRole) -> tuple[TargetKind, list[Value]]:
    """Determine the kind of an outcome, and list its distinct labels or numbers.

    If there are many distinct labels and all are numbers, in any spelling, they are read as numbers. Unless
    specified, the kind is ``ordinal`` if an order is specified, and ``number`` for numbers if ``favourable`` is a
    direction, or if it is None and there are more than ``MOST_NUMERIC_LABELS`` of them.
    """
    labels = list(dict.fromkeys(column.known_words([] if favourable is None else [favourable])))
    if outcome.kind in (None, "number") and len(labels) > MOST_NUMERIC_LABELS:
        numbers = [read_number(label) for label in labels]
        labels = list(dict.fromkeys(numbers)) if np.isfinite(numbers).all() else labels
    many = favourable is None and len(labels) > MOST_NUMERIC_LABELS
    inferred: TargetKind = "label"
    if (many or favourable in DIRECTIONS) and all(map(is_number, labels)):
        inferred = "number"
    kind = outcome.kind or ("ordinal" if outcome.order is not None else inferred)
    if kind != "number" and outcome.unit is not None:
        hint = "omit the unit, or use `kind=number`"
        raise OptionError(f"a unit requires numbers, and {column.name!r} holds labels", hint=hint)
    return kind, labels


def infer_target(
    column: OutcomeColumn,
    favourable: Value | None,
    outcome: OutcomeRole,
    unfavourable: Sequence[Value] = (),
    true_labels: OutcomeColumn | None = None,
) -> dict[str, Any]:
    """Infer the target entry of a schema from a column.

    Args:
        column: Column of the labels or numbers.
        favourable: Favourable label or direction. Default: proposed for one label, the last of ordered labels.
        outcome: Kind of the target, and the order of the labels.
        unfavourable: Unfavourable labels. Optional if there is only one.
        true_labels: Column of the true labels, if several labels are compared. None if there are none.

    Raises:
        DataError: The column cannot have the specified kind, or some labels differ only in case or whitespace.
        SchemaError: The favourable label cannot be proposed or does not occur, or the order is unknown or incomplete.
    """
    name, (kind, labels) = column.name, infer_kind(column, favourable, outcome)
    target: dict[str, Any] = {"name": name, "kind": kind, "favourable": NEITHER if favourable is None else favourable}
    if kind == "number":
        other = next((label for label in labels if not is_number(label)), None)
        if other is not None:
            raise DataError(f"expected numbers in the column {name!r}, got {other!r}", hint=PLAIN_HINT)
        if len(labels) < 2:
            raise DataError(f"column {name!r} holds a single number: {list_values(labels)}")
        return target | {"unit": outcome.unit}
    if kind == "label":
        check_number_of_labels(name, labels, minimum=2)
        names = read_labels(column, favourable, unfavourable, complete=outcome.kind == "label").names
        return target | {"favourable": names[-1], "values": list(names)}
    column.require_spelling()
    more = [] if true_labels is None else true_labels.known_words()
    by_key = {outcome_key(word): word for word in (*more, *column.known_words(outcome.order or ()))}
    values = sorted(by_key.values(), key=sort_key)
    check_number_of_labels(name, values, minimum=2)
    return target | ({"values": values} if kind == "labels" else order_labels(name, values, favourable, outcome.order))


def order_labels(
    name: str, labels: Sequence[Any], favourable: Value | None, order: Sequence[Value] | None
) -> dict[str, Any]:
    """Order the values of an ordinal target, and find the favourable one. Default: the last.

    Raises:
        SchemaError: There is no order, or it repeats a label or lacks a label that occurs.
    """
    if order is None:
        if not all(isinstance(label, int | float) for label in labels):
            raise SchemaError(
                f"the order of the labels of {name!r} is not known: {list_values(labels)}",
                hint="state it, worst first: `order=LABELS`",
            )
        order = labels
    values = [match_label(label, labels) for label in order]
    absent = [label for label in labels if label not in values]
    if absent or len(set(values)) < len(values):
        fault = f"lacks {list_values(absent)}" if absent else "names a label twice"
        raise SchemaError(f"the order of {name!r} {fault}", hint=f"the labels are: {list_values(labels)}")
    return {"favourable": values[-1] if favourable is None else match_label(favourable, values), "values": values}
