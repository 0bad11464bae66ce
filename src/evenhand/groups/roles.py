"""Column roles of recorded decisions, and tables of decisions built from separate columns."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core.reading import OutcomeReading
from evenhand.core.text import format_count
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import SCALARS, check_index, check_roles, refuse_arrays, table_of_columns
from evenhand.schema.attribute import Value, find_value
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels, RecordedNumbers
from evenhand.schema.infer import describe_groups, review_column
from evenhand.schema.outcome import (
    INFERRED,
    DecisionLabels,
    OutcomeColumn,
    OutcomeRole,
    infer_kind,
    infer_target,
    opposite_label,
    propose_true_label,
    read_labels,
)
from evenhand.schema.people import People, SampleRoles, encode, list_protected, open_table
from evenhand.schema.probabilities import name_sample_columns
from evenhand.schema.schema import Schema
from evenhand.schema.table import (
    CodedColumn,
    CodedTable,
    check_type,
    list_columns,
    list_names,
    read_number,
    refuse_counts,
)
from evenhand.schema.thresholds import Threshold, find_codes

MOSTLY = 0.9
"""If all decisions are favourable, at least this fraction of the rows must have one."""


@dataclass(frozen=True)
class DecisionRoles:
    """Column roles of a table of decisions. Other columns are ignored.

    Attributes:
        decision: Column of the decision. None if decisions are based on a score.
        protected: Columns that define the groups. Default: the protected attributes of the schema.
        target: Column of the true label.
        score: Column of the score of the favourable decision.
        weight: Column of the sample weight.
        favourable: Favourable decision. Default: proposed from labels such as ``1``, ``yes`` and ``approved``. For
            numeric decisions: ``higher`` or ``lower``.
        unfavourable: All other decisions. Required if there are several, unless ``outcome`` has kind ``label``.
        favourable_target: Favourable true label. Default: the favourable decision if both columns have the same labels.
            Otherwise it is proposed from labels, column names and the association with the decisions.
        decision_name, target_name: Names of the decision and the true label. Default: the column names.
        schema: Schema of the protected columns. Default: inferred from the data.
        threshold: Minimum score of the favourable decision, to replace recorded decisions.
        accept_proposals: Whether to accept the proposals for columns that cannot be used as attributes directly.
        outcome: Kind of the decision. Default: inferred from the data.
        membership: Column of each group's probability, by attribute and group.
        low_is_good: Whether low scores are favourable, as for risk scores.
    """

    decision: str | None = None
    protected: Sequence[str] | None = None
    target: str | None = None
    score: str | None = None
    weight: str | None = None
    favourable: Value | None = None
    unfavourable: Sequence[Value] = ()
    favourable_target: Value | None = None
    decision_name: str | None = None
    target_name: str | None = None
    schema: Schema | None = None
    threshold: float | None = None
    accept_proposals: bool = False
    outcome: OutcomeRole = INFERRED
    membership: Mapping[str, Mapping[str, str]] | None = None
    low_is_good: bool = False

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema, "a schema (see evenhand.schema.read_schema)")
        check_type("favourable", self.favourable, SCALARS, "a label")
        check_type("favourable_target", self.favourable_target, SCALARS, "a label")

    def read(self, frame: Any, *, location: str = "data") -> RecordedDecisions | RecordedNumbers | RecordedLabels:
        """Read the decisions in a data frame: two labels, several labels, or numbers.

        Args:
            frame: Data frame that narwhals supports, one row per person. The rows of a lazy frame (Polars, DuckDB,
                Spark, ...) are counted by its engine, and an entry of ``people`` is then a cell with its ``counts``.
                With scores, weights or group probabilities, they are read into memory.
            location: Name of the data in messages.

        Raises:
            EvenhandError: A column is missing or invalid, or the favourable label is unknown.
        """
        threshold = self._threshold()
        roles: dict[str, Sequence[str | None]] = {
            "decision": [self.decision],
            "target": [self.target],
            "score": [self.score],
            "protected": list_protected(self.protected, self.schema),
        }
        sample = self._sample.by_role()
        check_roles({**roles, **sample}, list_columns(frame, lazy=True))
        columns = [name for name in (*roles["protected"], self.decision, self.target) if name is not None]
        numbers = [name for name in (self.score, *itertools.chain(*sample.values())) if name is not None]
        table = open_table(frame, columns, numbers, location)
        if table.counts is None and self.weight is None:
            refuse_counts(table, [*columns, *numbers])
        if self.decision is None:
            return self._read_selected(table, None, threshold)
        decision, outcome = OutcomeColumn.read(table[self.decision], self.decision_name), self.outcome
        if self.schema is not None and self.schema.target.kind == "ordinal" and outcome.kind in (None, "ordinal"):
            # Grades of the schema, if they are specified or include all labels.
            order = outcome.order or self.schema.target.values or ()
            if outcome.kind is not None or all(find_value(word, order) is not None for word in decision.words):
                outcome = replace(outcome, kind="ordinal", order=order)
        outcome = replace(outcome, kind=infer_kind(decision, self.favourable, outcome)[0])
        if outcome.kind == "label":
            return self._read_selected(table, decision, threshold)
        if table.counts is not None:
            raise DataError(
                f"column {self.decision!r} has {len(decision.coded.coding.values):,} different values, and "
                "lazy rows require a single favourable decision",
                hint="name the `favourable=` label and use `kind=label`; or read a sample of the rows into memory",
            )
        return self._read_each(table, decision, outcome)

    def _read_selected(
        self, table: CodedTable, decision: OutcomeColumn | None, threshold: Threshold | None
    ) -> RecordedDecisions:
        """Read favourable and unfavourable decisions. ``decision`` is None if decisions are based on a score."""
        decisions, truth = self._read_outcomes(table, decision)
        name = self.decision or self.target or f"decision by {self.score}"
        target = {"name": name, "favourable": decisions.names[-1], "values": list(decisions.names)}
        reading = decisions.reading
        if threshold is not None:
            ends = "or less" if self.low_is_good else "or more"
            reading = OutcomeReading(column=str(self.score), favourable=(f"{threshold.value:g} {ends}",))
        true_label = None if truth is None else truth.reading
        people = self._read_people(
            table, target, decisions.labelled, None if truth is None else truth.labelled, reading, true_label
        )
        rows, labels, selected, scores, risks = people.rows, None, decisions.favourable[people.rows], None, None
        if truth is not None:
            labels = np.where(truth.labelled[rows], np.where(truth.favourable[rows], len(decisions.names) - 1, 0), -1)
        if self.score is not None:
            scores = read_scores(table[self.score], rows)
            if threshold is not None:
                threshold.check_scale(scores)
                array = table[self.score].array  # 0.7 with 32 bits is below 0.7, but means the same number
                selected = threshold.select(scores if array is None else scores.astype(array.dtype))
            if self.low_is_good:
                risks, highest = scores, 1.0 if scores.min() >= 0 and scores.max() <= 1 else 0.0
                scores = highest - risks
        weights, memberships = self._sample.read(table, rows)
        return RecordedDecisions(
            people=replace(people, labels=labels),
            selected=selected,
            scores=scores,
            risks=risks,
            weights=weights,
            truth=self.target,
            threshold=threshold,
            decided_by=str(self.decision or self.score),
            memberships=memberships,
        )

    def _read_each(
        self, table: CodedTable, decision: OutcomeColumn, outcome: OutcomeRole
    ) -> RecordedNumbers | RecordedLabels:
        """Read numeric decisions, or decisions with several labels, without rows that have no decision."""
        numeric = outcome.kind == "number"
        truth = None if self.target is None else table[self.target]
        true_labels = None if truth is None or numeric else OutcomeColumn.read(truth)
        target = infer_target(decision, self.favourable, outcome, true_labels=true_labels)
        if self.membership or self.score:
            argument = "membership" if self.membership else "y_score"
            raise OptionError(
                f"`{argument}=` requires a favourable label, and {decision.name!r} "
                f"{'holds numbers' if numeric else 'is compared label by label'}",
                hint=f"omit `{argument}=`, or name the `favourable=` label and use `kind=label`",
            )
        if numeric:
            decided, labelled = ~decision.labels.missing(), None if truth is None else ~truth.missing()
        else:
            codes = decision.encode(target["values"])
            labels = None if true_labels is None else true_labels.encode(target["values"])
            decided, labelled = codes >= 0, None if labels is None else labels >= 0
        people = self._read_people(table, target, decided, labelled)
        weights, rows = self._sample.read(table, people.rows)[0], people.rows
        if not numeric:
            people = replace(people, labels=None if labels is None else labels[rows])
            return RecordedLabels(people, codes[rows], self.target, weights)
        if truth is not None:
            people = replace(people, numbers=truth.finite_numbers(rows, "true number", optional=True))
        _, proposal = review_column(table, str(self.decision), False, False)
        if proposal is not None and (proposal.entry or {}).get("unknown") and people.reading is not None:
            note = f"{self.decision} {proposal.problem}. They count as numbers: drop these rows if they mean unknown."
            people = replace(people, reading=people.reading.model_copy(update={"notes": (note,)}))
        return RecordedNumbers(people, decision.coded.finite_numbers(rows, "decision"), self.target, weights)

    def _read_people(
        self,
        table: CodedTable,
        target: dict[str, Any],
        decided: Booleans,
        labelled: Booleans | None,
        decision: OutcomeReading | None = None,
        true_label: OutcomeReading | None = None,
    ) -> People:
        """Encode the rows that have a decision, given masks of the rows with a decision and with a true label.

        ``target`` is the entry of the decision in the schema. ``decision`` and ``true_label`` are the favourable values
        in ``people.reading``, by default those of the target.
        """
        if not decided.any():
            raise DataError("no row has a decision")
        if labelled is not None and not (decided & labelled).any():
            raise DataError("no row has both a decision and a true label")
        names = list_protected(self.protected, self.schema)
        schema = describe_groups(table, names, target, self.schema, accept=self.accept_proposals)
        people = encode(schema, table, read_target=False, without={"a decision": ~decided})
        assert people.reading is not None  # ``encode`` sets it
        if true_label is None and self.target is not None:
            true_label = schema.target.describe(self.target)
        unlabelled = 0 if labelled is None else people.count(~labelled[people.rows])
        update = {"decision": decision or schema.target.describe(), "true_label": true_label, "unlabelled": unlabelled}
        return replace(people, reading=people.reading.model_copy(update=update))

    @property
    def _sample(self) -> SampleRoles:
        return SampleRoles(self.weight, self.membership)

    def _threshold(self) -> Threshold | None:
        """Parse the threshold of the scores. Return None if decisions are recorded."""
        hint = "name their column: `y_score=...`"
        if self.low_is_good and self.score is None:
            hint += "; for decided numbers, use `favourable=lower`"
            raise OptionError("expected scores, got none", location="`low_is_good=`", hint=hint)
        if self.threshold is None:
            if self.decision is not None:
                return None
            hint = "name the column of decisions: `y_pred=...`; or use scores: `y_score=...` with `threshold=0.5`"
            raise OptionError("expected decisions, or scores and a threshold", hint=hint)
        if self.decision is not None:
            hint = "omit the decisions to apply the threshold"
            raise OptionError("expected decisions or a threshold of scores, got both", hint=hint)
        if self.score is None:
            raise OptionError("a threshold needs scores", hint=hint)
        return Threshold.parse(self.threshold, low_is_good=self.low_is_good)

    def _read_outcomes(
        self, table: CodedTable, decision: OutcomeColumn | None
    ) -> tuple[DecisionLabels, DecisionLabels | None]:
        """Read decisions and true labels. If there are no decisions, people are selected by their score."""
        truth = None if self.target is None else OutcomeColumn.read(table[self.target], self.target_name)
        favourable, favourable_target, basis = self.favourable, self.favourable_target, "stated"
        if decision is None:
            every = np.ones(table.rows, dtype=np.bool_)
            if truth is None:
                good = "selected" if favourable is None else favourable
                return DecisionLabels((opposite_label(good), good), every, ~every), None
            label = favourable if favourable_target is None else favourable_target
            if label is None and self.schema is None:
                (label, _), basis = propose_true_label(truth, None, self._compare_scores(table)), "proposed"
            labels = self._labels(truth, label, basis=basis)
            return DecisionLabels(labels.names, every, ~every), labels
        if (
            truth is not None
            and favourable is not None
            and favourable_target is None
            and find_value(favourable, decision.words) is None
            and find_value(favourable, truth.words) is not None
        ):
            favourable, favourable_target = None, favourable
        decisions = self._labels(decision, favourable, self.unfavourable)
        _require_both_outcomes(decisions, decision)
        if truth is None:
            return decisions, None
        if favourable_target is None:
            favourable_target, basis = propose_true_label(truth, decision, decisions)
        return decisions, self._labels(truth, favourable_target, basis=basis)

    def _compare_scores(self, table: CodedTable) -> DecisionLabels:
        """Mark the scores above the median, or at the threshold, as evidence of the favourable true label."""
        scores = table[str(self.score)].numbers(read_number)
        scored = np.isfinite(scores)
        above = scores > (np.median(scores[scored]) if scored.any() else 0.0)
        return DecisionLabels(("low score", "high score"), scored, above != self.low_is_good)

    def _labels(
        self,
        column: OutcomeColumn,
        favourable: Value | None,
        unfavourable: Sequence[Value] = (),
        basis: str = "stated",
    ) -> DecisionLabels:
        """Read a column of labels. A schema that lists all of them determines the favourable label."""
        complete, target = self.outcome.kind == "label", None if self.schema is None else self.schema.target
        if target is not None and target.kind == "label":
            listed = all(find_value(word, target.values or ()) is not None for word in column.words)
            complete = complete or listed
            favourable = target.favourable if listed and favourable is None else favourable
        return read_labels(column, favourable, unfavourable, complete=complete, basis=basis)


def _require_both_outcomes(decisions: DecisionLabels, column: OutcomeColumn) -> None:
    """Reject decisions that are recorded only if they are favourable, so that every rate would be 1."""
    counts = np.ones(len(decisions.labelled)) if column.coded.counts is None else column.coded.counts
    recorded, people = counts[decisions.labelled].sum(), counts.sum()
    if recorded and decisions.favourable[decisions.labelled].all() and recorded < MOSTLY * people:
        raise DataError(
            f"column {column.name!r} contains only the favourable decision, and {int(people - recorded):,} of "
            f"{int(people):,} cells are empty or unknown",
            hint="if an empty cell means an unfavourable decision, fill it in; otherwise remove these rows",
        )


def read_scores(column: CodedColumn, rows: Integers) -> Floats:
    """Read the scores of the given rows, shape (rows,).

    Raises:
        DataError: A score is not a finite number, or there are codes for unknown scores, such as -1, among
            probabilities or points.
    """
    scores = column.finite_numbers(rows, "score")
    codes = [f"{code:g} ({format_count(int((scores == code).sum()), 'row', 'rows')})" for code in find_codes(scores)]
    if codes:
        message = f"column {column.name!r} has codes for unknown scores: {', '.join(codes)}"
        raise DataError(message, hint="drop these rows")
    return scores


def table_of_decisions(
    y_pred: Any | None,
    sensitive_features: Any,
    *,
    y_true: Any = None,
    y_score: Any = None,
    sample_weight: Any = None,
    membership: Mapping[str, Any] | None = None,
    data: Any = None,
    **options: Any,
) -> tuple[Any, DecisionRoles]:
    """Build a table of decisions and its column roles from the columns of ``evenhand.audit_predictions``.

    ``options`` are other fields of ``DecisionRoles``.

    Raises:
        DataError: The columns differ in length, or an argument is not a column.
    """
    columns = {"y_pred": y_pred, "y_true": y_true, "y_score": y_score, "sample_weight": sample_weight}
    probable: Mapping[str, Any] | None = membership
    if data is not None:
        refuse_arrays(columns, membership)
        frame, features, names = data, list_names(sensitive_features, "sensitive_features"), columns
    else:
        check_index(**columns, membership=membership)
        more, probable = ({}, {}) if membership is None else name_sample_columns(membership)
        frame, features, names = table_of_columns(columns, sensitive_features, more)
        for role, column in (("decision_name", y_pred), ("target_name", y_true)):
            name = getattr(column, "name", None)
            options.setdefault(role, name if isinstance(name, str) else None)
    roles = DecisionRoles(
        decision=names.get("y_pred"),
        protected=features,
        target=names.get("y_true"),
        score=names.get("y_score"),
        weight=names.get("sample_weight"),
        membership=probable or None,
        **options,
    )
    return frame, roles
