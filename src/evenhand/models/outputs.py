"""Meaning of a model's numeric outputs: labels, probabilities, logits or scores.

The meaning is inferred from the values, not from the operators that compute them. A single output is a probability if
all values lie within [0, 1]; otherwise it is a score with the threshold 0. Several outputs are probabilities if each
row adds up to 1. True labels must not contradict the interpretation. If the interpretation is ambiguous, the caller
must state one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from evenhand.core.text import format_count
from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError, ModelError, OptionError
from evenhand.models import replies
from evenhand.models.replies import Reply, same_label
from evenhand.models.scorer import sigmoid, softmax
from evenhand.population.independent import uniform_population
from evenhand.schema.attribute import Value
from evenhand.schema.people import encode
from evenhand.schema.schema import Schema
from evenhand.schema.thresholds import looks_like_points

OutputKind: TypeAlias = Literal["probability", "logit", "score"]
"""Meanings that the caller may state. The sigmoid of a logit is a probability; only the order and sign of a score
matter."""

ROUNDING = 1e-6
"""Tolerance of probabilities outside [0, 1]."""

DOMAIN_PEOPLE, DATA_PEOPLE = 256, 500
"""Number of individuals drawn from the schema's domain, and of data rows, to inspect outputs."""

PROBE_COUNT = 32
"""Number of individuals drawn from the domain to test a model when it is loaded."""

PAID_PEOPLE = 100
"""Number of data rows used to inspect outputs of a model with a ledger; at most a quarter of its budget."""

FIRST_QUESTIONS = PROBE_COUNT + PAID_PEOPLE
"""Maximum number of individuals in queries to a model with a ledger before the analysis."""

SUPPORT_ERRORS, STANDARD_ERRORS = 2.0, 4.0
"""Number of standard errors above which true labels support an interpretation, and above which they contradict it or
answers differ beyond noise."""

PROBABILITY_SPAN = 0.9
"""Minimum span of values within [0, 1] that are probabilities regardless of the true labels."""

REGRESSION_RANGE = (-0.5, 1.5)
"""Range of the outputs of a regression on the labels 0 and 1 with the threshold 1/2."""

ASK = "state it: `output=probability`, `output=logit` or `output=score`"


@dataclass(frozen=True)
class OutputReading:
    """Interpretation of a model's numeric outputs.

    Attributes:
        kind: Meaning of the outputs; ``labels`` if they are numeric target labels.
        evidence: Reason for this meaning, as a clause. Empty if the outputs are labels of the target.
        label_only: Whether all inspected outputs are labels.
    """

    kind: OutputKind | Literal["labels"]
    evidence: str
    label_only: bool = False

    @property
    def threshold(self) -> float:
        """Threshold above which a single output predicts its label."""
        return 0.5 if self.kind == "probability" else 0.0

    def describe(self, label: Value) -> str:
        """Describe in one sentence how a single output for a label is interpreted. Empty if the outputs are labels."""
        if not self.evidence:
            return ""
        article = "a probability" if self.kind == "probability" else f"a {self.kind}"
        rule = f"above {self.threshold:g}: {label!r}"
        return f"The model's output was read as {article} of {label!r} ({rule}): {self.evidence}."

    def reply(self, outputs: Floats, classes: Sequence[Value], position: int, *, location: str) -> Reply:
        """Convert outputs (n, k) to scores and labels.

        Args:
            outputs: One column, or one per class.
            classes: Labels in the order of the scores.
            position: Class of a single output.
            location: Name of the model in messages.

        Raises:
            ModelError: An output does not fit its interpretation.
        """
        if outputs.shape[1] == 1 and self.kind == "labels":
            labels = replies.read_labels(outputs[:, 0], len(outputs), classes, position, location=location)
            return replies.label_reply(labels, len(classes))
        if outputs.shape[1] > 1:
            scores = outputs if self.kind == "probability" else softmax(outputs)
            labels = np.argmax(outputs, axis=1).astype(np.int64)
            return replace(replies.score_reply(scores, len(classes), location=location), labels=labels)
        _require_two(classes, location)
        values = outputs[:, 0]
        if self.kind == "probability" and not _are_probabilities(values):
            wrong = values[(values < -ROUNDING) | (values > 1 + ROUNDING)][0]
            raise ModelError(
                f"the model returned {wrong:g}, but its output was interpreted as a probability: {self.evidence}",
                location=location,
                hint=ASK,
            )
        favourable = np.clip(values, 0, 1) if self.kind == "probability" else sigmoid(values)
        scores = np.empty((len(values), 2))
        scores[:, position], scores[:, 1 - position] = favourable, 1 - favourable
        labels = np.where(values > self.threshold, position, 1 - position).astype(np.int64)
        return Reply(scores, labels, self.label_only)


class _OpenReadingError(ValueError):
    """Reason why the meaning of an output is ambiguous."""


def _require_two(classes: Sequence[Value], location: str) -> None:
    if len(classes) != 2:
        raise ModelError(
            f"expected one score per label ({len(classes)} labels), got one score",
            location=location,
            hint="reply with a label, or with one score per label",
        )


def are_labels(values: Floats, classes: Sequence[Value]) -> bool:
    """Check whether all numbers (n,) are labels."""
    return all(any(same_label(number, label) for label in classes) for number in np.unique(values).tolist())


def _is_reverse(classes: Sequence[Value], position: int) -> bool:
    """Check whether the labels are numbers and a single output for the label 1 would refer to the other label."""
    return same_label(1, classes[1 - position]) or same_label(0, classes[position])


def _are_probabilities(values: Floats) -> bool:
    return bool((values >= -ROUNDING).all() and (values <= 1 + ROUNDING).all())


@dataclass(frozen=True)
class ReferencePeople:
    """Individuals used to inspect a model's outputs.

    Attributes:
        individuals: Individuals from the schema's domain, then from the data, shape (n, attributes).
        truth: 1 where the true label is favourable, 0 where it is not, -1 where it is unknown, shape (n,).
    """

    individuals: Floats
    truth: Integers


def reference_people(
    schema: Schema, data: Any, *, rows: int = DATA_PEOPLE, domain_rows: int = DOMAIN_PEOPLE
) -> ReferencePeople:
    """Draw individuals from the domain, and complete rows from the data if available.

    Args:
        schema: Schema of the individuals.
        data: Data frame, or None. A frame that does not fit the schema is ignored.
        rows: Maximum number of rows of the data.
        domain_rows: Number of individuals from the domain.
    """
    individuals = uniform_population(schema).sample(domain_rows, np.random.default_rng(0))
    truth = np.full(domain_rows, -1, dtype=np.int64)
    if data is not None and rows > 0:
        import narwhals as nw

        table = nw.from_native(data, eager_only=True)
        chosen = np.arange(len(table))
        if len(table) > rows:
            chosen = np.sort(np.random.default_rng(0).choice(len(table), rows, replace=False))
        try:
            people = encode(schema, table[chosen.tolist()].to_native())
        except DataError:  # a frame that does not fit is only a template
            return ReferencePeople(individuals, truth)
        people = people.at(np.flatnonzero(~np.isnan(people.individuals).any(axis=1)))
        people_rows = people.individuals.copy()
        if schema.carries_rows:
            people_rows[:, -1] = chosen[people_rows[:, -1].astype(np.int64)]
        individuals = np.concatenate([individuals, people_rows])
        labels = np.full(len(people), -1, dtype=np.int64) if people.labels is None else people.true_labels
        truth = np.concatenate([truth, labels])
    return ReferencePeople(individuals, truth)


def read_outputs(
    outputs: Floats,
    truth: Integers,
    classes: Sequence[Value],
    position: int,
    favourable: int,
    *,
    stated: OutputKind | None,
    location: str,
    hint: str = ASK,
) -> OutputReading:
    """Infer the meaning of outputs from their values and the true labels.

    Args:
        outputs: Outputs for reference people, shape (n, k), finite.
        truth: As for ``ReferencePeople``.
        classes: Labels in the order of several outputs.
        position: Class of a single output.
        favourable: Position of the favourable label in ``classes``.
        stated: Meaning stated by the caller.
        location: Name of the model in messages.
        hint: Hint for errors about ambiguous outputs.

    Raises:
        ModelError: The values do not fit the stated meaning, are ambiguous, or contradict the true labels.
    """
    check_output(stated)
    if outputs.shape[1] > 1:
        reading = _read_columns(outputs, stated, location)
    elif stated is not None:
        values = outputs[:, 0]
        if stated == "probability" and not _are_probabilities(values):
            raise ModelError(
                f"expected probabilities, got values from {values.min():g} to {values.max():g}",
                location=location,
                hint="state `output=logit` or `output=score`, or divide percentages by 100",
            )
        reading = OutputReading(stated, "as stated", stated == "probability" and _are_zero_one(values))
    else:
        try:
            reading = _read_column(outputs[:, 0], truth, classes, position, location)
        except _OpenReadingError as error:
            raise ModelError(
                f"the model's output could be a probability, a logit or a score: {error}",
                location=location,
                hint=hint,
            ) from None
    if stated is not None:
        return reading
    scores = reading.reply(outputs, classes, position, location=location).scores[:, favourable]
    support = association(scores, truth)
    if not reading.evidence:
        return reading
    single = outputs.shape[1] == 1
    if support <= -STANDARD_ERRORS or (single and _is_reverse(classes, position) and support < SUPPORT_ERRORS):
        reason = "the true labels indicate the opposite" if support <= -STANDARD_ERRORS else "no true labels confirm it"
        message = f"the model's output was interpreted as that of {classes[favourable]!r}"
        hint = f"if this is correct, {ASK}; otherwise let the model return labels of the target"
        if not single:
            message = "the model's outputs were mapped to the target's labels in the order of its values"
            hint = "list the target's `values` in the schema, in the order of the model's outputs"
        raise ModelError(f"{message}, and {reason}", location=location, hint=hint)
    if support >= SUPPORT_ERRORS:
        reading = replace(reading, evidence=f"{reading.evidence}, and the true labels agree")
    return reading


def check_output(stated: str | None) -> None:
    """Check the stated meaning of outputs.

    Raises:
        OptionError: The meaning is unknown.
    """
    if stated is not None and stated not in get_args(OutputKind):
        raise OptionError(
            f"expected output 'probability', 'logit' or 'score', got {stated!r}", location="`output=`", hint=ASK
        )


def association(scores: Floats, truth: Integers) -> float:
    """Compute the correlation between scores and true labels, in standard errors. 0 if undefined."""
    labelled = truth >= 0
    scores, truth = scores[labelled], truth[labelled]
    if len(truth) < 2 or np.ptp(truth) == 0 or np.ptp(scores) == 0:
        return 0.0
    # Under permutations of the labels, the correlation has variance 1 / (n - 1).
    return float(np.corrcoef(scores, truth)[0, 1] * math.sqrt(len(truth) - 1))


def _read_columns(outputs: Floats, stated: OutputKind | None, location: str) -> OutputReading:
    sums = outputs.sum(axis=1)
    probable = (outputs >= -ROUNDING).all() and (np.abs(sums - 1) <= replies.SUM_TOLERANCE).all()
    if stated == "probability" and not probable:
        row = outputs[int(np.argmax(np.abs(sums - 1)))].tolist()
        raise ModelError(
            f"expected probabilities that add up to 1, got {row}", location=location, hint="leave `output=` out"
        )
    if stated is not None:
        return OutputReading(stated, "as stated")
    if probable:
        return OutputReading("probability", f"all {len(outputs):,} rows of outputs add up to 1", _are_zero_one(outputs))
    return OutputReading("score", "the outputs of a row do not add up to 1, so the largest is used")


def _are_zero_one(outputs: Floats) -> bool:
    return bool(np.isin(outputs, (0, 1)).all())


def _read_column(
    values: Floats, truth: Integers, classes: Sequence[Value], position: int, location: str
) -> OutputReading:
    low, high = float(values.min()), float(values.max())
    between = f"all {len(values):,} values lie from {low:.4g} to {high:.4g}"
    if are_labels(values, classes):
        if len(classes) > 2 or not _are_zero_one(values) or _is_reverse(classes, position):
            return OutputReading("labels", "", True)
        return OutputReading("probability", "", True)
    _require_two(classes, location)
    if _are_zero_one(values):
        return OutputReading("probability", f"all {len(values):,} values are 0 or 1", True)
    if _are_probabilities(values):
        if low == high and 0 < low <= 0.5:
            raise _OpenReadingError(f"all {len(values):,} outputs are {low:g}")
        if high - low < PROBABILITY_SPAN and _fits_better_as_logit(values, truth):
            raise _OpenReadingError(f"{between}, like probabilities, but fit the true labels better as logits")
        return OutputReading("probability", between)
    points = looks_like_points(values)
    # Rounded percentages contain 0, and so do the outputs of a ReLU, which are scores.
    if low > 0 or high <= 0 or (points and (values == np.rint(values)).all()):
        percent = "; if these are percentages, divide them by 100" if points else ""
        raise _OpenReadingError(f"{between}, on one side of 0 and not within [0, 1]{percent}")
    if REGRESSION_RANGE[0] <= low and high <= REGRESSION_RANGE[1] and _fits_better_at_half(values, truth):
        raise _OpenReadingError(f"{between}, and decisions at 1/2 fit the true labels better than decisions at 0")
    return OutputReading("score", f"{between}, so they are not probabilities")


def _fits_better_as_logit(values: Floats, truth: Integers) -> bool:
    """Check whether the sigmoids fit the true labels better than the values, by Brier score and mean."""
    labelled = truth >= 0
    y, p, q = truth[labelled], values[labelled], sigmoid(values[labelled])
    if len(y) < 2 or abs(q.mean() - y.mean()) >= abs(p.mean() - y.mean()):
        return False
    return _mean_in_errors((p - y) ** 2 - (q - y) ** 2) >= STANDARD_ERRORS


def _fits_better_at_half(values: Floats, truth: Integers) -> bool:
    """Check whether the threshold 1/2 is more accurate than 0."""
    labelled = truth >= 0
    y, v = truth[labelled], values[labelled]
    right = ((v > 0.5) == y).astype(np.float64) - ((v > 0) == y)
    return _mean_in_errors(right) >= STANDARD_ERRORS


def _mean_in_errors(differences: Floats) -> float:
    """Compute the mean of the differences divided by its standard error."""
    if len(differences) < 2 or np.ptp(differences) == 0:
        return 0.0
    return float(differences.mean() / (differences.std(ddof=1) / math.sqrt(len(differences))))


def first_reading(outputs: Floats, classes: Sequence[Value]) -> OutputReading:
    """Choose a provisional interpretation of outputs (n, k) for checks before ``read_outputs``."""
    labels = outputs.shape[1] == 1 and are_labels(outputs[:, 0], classes)
    return OutputReading("labels" if labels else "score", "", labels)


def describe_guess(label: Value, scores: Floats, truth: Integers, *, number: int, ordered: bool, location: str) -> str:
    """Describe how a number returned by the model was interpreted as the favourable label.

    Args:
        label: The favourable label.
        scores: Scores of the favourable label, shape (n,).
        truth: As for ``ReferencePeople``.
        number: The number.
        ordered: Whether the model's numbers are the positions of its labels in the target's ``values``.
        location: Name of the model in messages.

    Raises:
        ModelError: The true labels contradict this interpretation; or they are missing or inconclusive, and the
            target's values are in a different order.
    """
    support, labelled = association(scores, truth), int((truth >= 0).sum())
    sentence = f"The model returns numbers. {number} was interpreted as {label!r}"
    if support >= SUPPORT_ERRORS:
        return f"{sentence}: the true labels of {format_count(labelled, 'person', 'people')} agree."
    reason = "there are no true labels to confirm it"
    if labelled:
        reason = "the true labels are inconclusive"
    if support <= -SUPPORT_ERRORS:
        reason = "the true labels indicate the opposite"
    elif ordered:
        return f"{sentence}, by the order of the target's values; {reason}."
    raise ModelError(
        f"the model returns numbers, and it is unclear whether {number} means {label!r}: {reason}",
        location=location,
        hint="name the model's own answers in the schema's target (`values: [0, 1]`, `favourable: 0` or 1), or let "
        "it return the labels of the target",
    )
