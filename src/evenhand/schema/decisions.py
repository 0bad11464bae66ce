"""Recorded decisions, with true labels and scores where they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.core import OutcomeReading
from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.schema.arrays import SCALARS, check_index, check_type
from evenhand.schema.attribute import Value, find_value
from evenhand.schema.columns import list_columns, list_names, refuse_arrays, require_column, table_of_columns
from evenhand.schema.given_labels import GivenLabels, RecordedLabels
from evenhand.schema.outcome import (
    DecisionLabels,
    LabelWords,
    OutcomeColumn,
    infer_kind,
    infer_target,
    label_of,
    opposite_label,
    propose_true_label,
    read_label_codes,
    read_labels,
)
from evenhand.schema.people import People, encode
from evenhand.schema.probabilities import KnownGroups, ProbableMembership, read_memberships
from evenhand.schema.reading import add_left_out, describe_labels, describe_target
from evenhand.schema.review import choose_entries, review_columns
from evenhand.schema.rows import (
    CodedColumn,
    CountedRows,
    ScoreSums,
    count_rows,
    is_lazy,
    locate_score,
    locate_value,
    rank_scores,
)
from evenhand.schema.schema import Schema
from evenhand.schema.target import OutcomeRole
from evenhand.schema.thresholds import Thresholds
from evenhand.schema.weights import (
    PeopleWeights,
    ReplicateRole,
    name_sample_columns,
    read_numbers,
    read_weights,
    weights_of,
)
from evenhand.schema.words import unknown_codes
from evenhand.text import format_count, suggest_name
from evenhand.typing import Booleans, Floats, Integers


@dataclass(frozen=True)
class RecordedDecisions:
    """Recorded decisions about people.

    Attributes:
        people: Everyone with a decision. Their attributes define the groups, and their target is the decision.
            ``people.labels`` holds the true labels, -1 where unknown; None without a column of true labels.
        selected: Mask of favourable decisions, shape (n,).
        scores: Scores of the favourable decision, shape (n,); None if they are not known.
        risks: Scores as recorded if low scores are favourable; ``scores`` are then 1 minus these, or their negatives if
            they are not within [0, 1]. None if high scores are favourable.
        weights: Sample weights; None for equal weights.
        truth: Column of the true labels; None without one.
        undecided: Number of rows left out because they have no decision.
        thresholds: Thresholds that made the decisions; None if decisions were recorded.
        decided_by: Column of the decision, or of the score.
        memberships: Groups that are known by probability.
        decision_words, truth_words: Labels of the decision and of the true label, and how the favourable ones were
            settled; None if a score decides, or true labels are not known.
        score_sums: Sums of the scores in each cell if rows were counted (``people.counts``); ``scores`` is then None.
    """

    people: People
    selected: Booleans
    scores: Floats | None = None
    risks: Floats | None = None
    weights: PeopleWeights | None = None
    truth: str | None = None
    undecided: int = 0
    thresholds: Thresholds | None = None
    decided_by: str = ""
    memberships: tuple[ProbableMembership, ...] = ()
    score_sums: ScoreSums | None = None
    decision_words: LabelWords | None = None
    truth_words: LabelWords | None = None

    @property
    def has_scores(self) -> bool:
        """Whether scores are known."""
        return self.scores is not None or self.score_sums is not None

    @property
    def low_is_good(self) -> bool:
        """Whether low scores are favourable."""
        return self.risks is not None or (self.score_sums is not None and self.score_sums.low_is_good)

    def at(self, rows: Integers) -> RecordedDecisions:
        """Return the decisions about the people at some positions, in that order."""
        weights = self.weights
        return replace(
            self,
            people=self.people.at(rows),
            selected=self.selected[rows],
            scores=None if self.scores is None else self.scores[rows],
            risks=None if self.risks is None else self.risks[rows],
            weights=None if weights is None else weights.at(rows),
            memberships=tuple(membership.at(rows) for membership in self.memberships),
            score_sums=None if self.score_sums is None else self.score_sums.at(rows),
        )

    def merge(self) -> RecordedDecisions:
        """Merge equal cells and sort them: engines return cells in any order, and pieces of data repeat them."""
        import narwhals as nw

        people, sums = self.people, self.score_sums
        assert people.counts is not None
        width = len(people.schema.attributes)
        parts = [people.individuals[:, :width], people.labels, self.selected, None if sums is None else sums.tenth]
        key = np.column_stack([np.asarray(part, dtype=np.float64) for part in parts if part is not None])
        order = np.lexsort(key.T[::-1])
        first = np.flatnonzero(np.r_[True, ~_are_equal(key[order][1:], key[order][:-1])])
        merged = people.at(order[first])
        rows = np.arange(len(first))
        if people.schema.carries_rows:
            merged.individuals[:, width] = rows
        frame = nw.from_native(people.frame, eager_only=True)[merged.rows.tolist()].to_native()
        return replace(
            self,
            people=replace(merged, rows=rows, frame=frame, counts=np.add.reduceat(people.counts[order], first)),
            selected=self.selected[order[first]],
            score_sums=None if sums is None else sums.merge(order, first),
        )


@dataclass(frozen=True)
class RecordedNumbers:
    """Recorded numbers that were decided about people, such as premiums.

    Attributes:
        people: Everyone with a decided number. Their attributes define the groups, and their target is the number.
            ``people.numbers`` holds the true numbers, NaN where unknown; None without a column of true numbers.
        decided: Decided numbers, shape (n,).
        truth: Column of the true numbers; None without one.
        undecided: Number of rows left out because they have no decided number.
        weights: Sample weights; None for equal weights.
    """

    people: People
    decided: Floats
    truth: str | None = None
    undecided: int = 0
    weights: PeopleWeights | None = None


@dataclass(frozen=True)
class DecisionRoles:
    """Roles of the columns of a table of decisions; other columns are ignored.

    Attributes:
        decision: column of the decision; None if the score decides.
        protected: columns that define the groups; by default those that the schema marks.
        target: column of the true label.
        score: column of the score of the favourable decision.
        weight: column of the sample weight.
        favourable: the favourable decision; by default proposed from words such as ``1``, ``yes`` and ``approved``. For
            a number, ``higher`` or ``lower``.
        unfavourable: all other decisions; needed if there are several, unless ``outcome`` says ``label``.
        favourable_target: the favourable true label. By default it is the favourable decision if the columns have the
            same words; otherwise it is proposed from words, names and the association with the decisions, or refused.
        target_name: name of the true label, if it differs from that of its column.
        schema: schema of the protected columns; inferred from the data by default.
        threshold: minimum score of the favourable decision, instead of recorded decisions (see ``Thresholds.parse``).
        accept_proposals: whether to accept the proposals for columns that cannot be attributes as they are.
        outcome: kind of the decision; inferred from the data by default.
        membership: attribute -> group -> column of the group's probability.
        known: attribute -> people of known group, to calibrate these probabilities.
        replicates: columns of replicate weights, and the method that made them.
        low_is_good: whether low scores are favourable, as those of a risk.
    """

    decision: str | None = None
    protected: Sequence[str] | None = None
    target: str | None = None
    score: str | None = None
    weight: str | None = None
    favourable: Value | None = None
    unfavourable: Sequence[Value] = ()
    favourable_target: Value | None = None
    target_name: str | None = None
    schema: Schema | None = None
    threshold: Any = None
    accept_proposals: bool = False
    outcome: OutcomeRole | None = None
    membership: Mapping[str, Mapping[str, str]] | None = None
    known: Mapping[str, KnownGroups] | None = None
    replicates: ReplicateRole | None = None
    low_is_good: bool = False

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema, "a schema (see evenhand.schema.read_schema)")
        check_type("favourable", self.favourable, SCALARS, "a label")
        check_type("favourable_target", self.favourable_target, SCALARS, "a label")

    def read(self, frame: Any, *, location: str = "data") -> RecordedDecisions | RecordedNumbers | RecordedLabels:
        """Read the decisions in a data frame: two labels, several labels, or numbers.

        Args:
            frame: any data frame that narwhals supports, one row per person. The rows of a lazy frame (Polars, DuckDB,
                Spark, ...) are counted by its engine; an entry of ``people`` is then a cell with its ``counts``.
            location: name of the data in messages.

        Raises:
            EvenhandError: if a column is missing or cannot be used, or the favourable label is not known.
        """
        import narwhals as nw

        thresholds = self._thresholds()
        if self.low_is_good and self.score is None:
            raise OptionError(
                "expected scores, got none",
                location="`low_is_good=`",
                hint="name their column: `y_score=...`; for decided numbers, use `favourable=lower`",
            )
        names = self._list_protected(list_columns(frame, lazy=True))
        counted = self._count(frame, names, thresholds, location) if is_lazy(frame) else None
        table = nw.from_native(frame, eager_only=True) if counted is None else counted.table
        counts = None if counted is None else counted.counts
        if self.decision is not None:
            decision = OutcomeColumn.read(CodedColumn.read(table[self.decision]), self.decision)
            outcome = self._outcome_of(decision)
            if counted is not None and outcome.kind in ("number", "labels", "ordinal"):
                raise DataError(
                    f"column {self.decision!r} has {table[self.decision].n_unique():,} different values, and "
                    "lazy rows are counted by a single favourable decision",
                    hint="name the `favourable=` label and say `kind=label`; or read a sample of the rows into memory",
                )
            if outcome.kind == "number":
                return self._read_numbers(table, names, infer_target(decision, self.favourable, outcome), location)
            if outcome.kind in ("labels", "ordinal"):
                return self._read_labels(table, names, outcome, location)
        made, truth = self._read_outcomes(table, counts, None if counted is None else frame)
        settled: dict[str, Any] = {
            "decision_words": None if self.decision is None else made.words,
            "truth_words": None if truth is None else truth.words,
        }
        known = made.known
        if not known.any():
            raise DataError("no row has a decision")
        if truth is not None and not (known & truth.known).any():
            raise DataError("no row has both a decision and a true label")
        name = self.decision or self.target or f"decision by {self.score}"
        target = {"name": name, "favourable": made.names[-1], "values": list(made.names)}
        schema = describe_groups(table, names, target, self.schema, accept=self.accept_proposals, counts=counts)
        people = encode(
            schema,
            table.select(list(names)).filter(known.tolist()).to_native(),
            location=location,
            counts=None if counts is None else counts[known],
            locate=None if counted is None else lambda column, _, value: locate_value(frame, column, value),
        )
        decided = describe_labels(made.words)
        if thresholds is not None:
            ends = "or less" if self.low_is_good else "or more"
            decided = OutcomeReading(column=str(self.score), favourable=(f"{thresholds.describe()} {ends}",))
        true_label = None if truth is None else describe_labels(truth.words, self.target_name)
        people = _add_reading(people, known, decided, None if truth is None else truth.known, true_label, counts)
        rows = np.flatnonzero(known)[people.rows]
        labels = None
        if truth is not None:
            labels = np.where(truth.known[rows], np.where(truth.favourable[rows], len(made.names) - 1, 0), -1)
        if counted is not None:
            people = replace(people, labels=labels, rows=rows)
            cells = self._of_cells(frame, counted, people, made.favourable, truth, thresholds)
            return replace(cells, **settled)
        scores = None if self.score is None else read_numbers(table[self.score], rows, "score")
        selected = made.favourable[rows]
        if scores is not None:
            _refuse_codes(str(self.score), scores)
        if thresholds is not None and scores is not None:
            thresholds.check_schema(schema)
            thresholds.check_scale(scores)
            selected = thresholds.select(scores, schema, people.individuals)
        risks = None
        if self.low_is_good and scores is not None:
            risks, scores = scores, (1.0 if scores.min() >= 0 and scores.max() <= 1 else 0.0) - scores
        return RecordedDecisions(
            people=replace(people, labels=labels, rows=rows),
            selected=selected,
            scores=scores,
            risks=risks,
            weights=None if self.weight is None else read_weights(frame, self.weight, rows, self.replicates),
            truth=self.target,
            undecided=int((~known).sum()),
            thresholds=thresholds,
            decided_by=str(self.decision or self.score),
            memberships=read_memberships(table, rows, self.membership or {}, self.known or {}),
            **settled,
        )

    def _describe_truth(self, schema: Schema) -> OutcomeReading | None:
        """Describe true labels or numbers that have the values of the decision; None without them."""
        return None if self.target is None else describe_target(schema.target.model_copy(update={"name": self.target}))

    def _count(self, frame: Any, names: Sequence[str], thresholds: Thresholds | None, location: str) -> CountedRows:
        """Count the rows of a lazy frame by attributes, decision, true label, and tenth of the score.

        Raises:
            OptionError: if an option needs the rows in memory.
        """
        by_group = thresholds is not None and thresholds.attribute is not None
        for name, value in (("weight", self.weight), ("membership", self.membership), ("threshold", by_group)):
            if value:
                raise OptionError(
                    f"`{name}=`{' by group' if by_group else ''} needs rows in memory, got a lazy frame",
                    hint="leave it out, or read a sample of the rows into memory",
                )
        columns = dict.fromkeys([*names, *(name for name in (self.decision, self.target) if name is not None)])
        return count_rows(
            frame,
            list(columns),
            self.score,
            low_is_good=self.low_is_good,
            threshold=None if thresholds is None else thresholds.default,
            location=location,
        )

    def _of_cells(
        self,
        frame: Any,
        counted: CountedRows,
        people: People,
        favourable: Booleans,
        truth: DecisionLabels | None,
        thresholds: Thresholds | None,
    ) -> RecordedDecisions:
        """Return the decisions about counted people, in an order that does not depend on the engine."""
        rows, counts, sums = people.rows, counted.counts, counted.scores
        selected = favourable[rows]
        if sums is not None:
            sums = sums.at(rows)
            if sums.unusable.any():
                first = locate_score(frame, str(self.score))
                raise DataError(
                    f"column {self.score!r}: expected finite numbers as scores ({int(sums.unusable.sum()):,} rows have "
                    f"none{f', the first of them {first}' if first else ''})",
                    hint="leave those rows or the column of scores out",
                )
            if thresholds is not None and counted.selected is not None:
                thresholds.check_scale(sums.given_range)
                selected = counted.selected[rows]
            if truth is not None and self.target is not None and self.score is not None:
                labelled = np.zeros(len(counts), dtype=np.int64)
                labelled[rows] = counts[rows] * truth.known[rows]
                columns = {name: CodedColumn.read(counted.table[name], labelled) for name in counted.table.columns}
                labels = columns[self.target]
                good = sorted(set(labels.codes[truth.favourable].tolist()))
                area = rank_scores(
                    frame, self.score, self.target, columns, [labels.values[code] for code in good], sums
                )
                sums = replace(sums, area=area)
        people = replace(people, frame=counted.table.to_native(), counts=counts[rows])
        return RecordedDecisions(
            people=people,
            selected=selected,
            score_sums=sums,
            truth=self.target,
            undecided=int(counts.sum()) - people.size - people.dropped,
            thresholds=thresholds,
            decided_by=str(self.decision or self.score),
        ).merge()

    def _thresholds(self) -> Thresholds | None:
        """Parse the thresholds of the scores; None if decisions are recorded.

        Raises:
            OptionError: if there are neither decisions nor a threshold, or both.
        """
        if self.threshold is None or (isinstance(self.threshold, list | tuple) and not self.threshold):
            if self.decision is not None:
                return None
            raise OptionError(
                "expected decisions, or scores and a threshold",
                hint="name a column of decisions, or use scores: `y_score=...` with `threshold=0.5`",
            )
        if self.decision is not None:
            raise OptionError(
                "expected decisions or a threshold of scores, got both",
                hint="leave the decisions out to apply the threshold",
            )
        if self.score is None:
            raise OptionError("a threshold needs scores", hint="name their column: `y_score=...`")
        return Thresholds.parse(self.threshold).model_copy(update={"low_is_good": self.low_is_good})

    def _read_outcomes(
        self, table: Any, counts: Integers | None, lazy: Any
    ) -> tuple[DecisionLabels, DecisionLabels | None]:
        """Read decisions and true labels. Without decisions, a score decides between the true labels.

        Args:
            table: narwhals table of the columns; counts: people per row, or None.
            lazy: the lazy frame that the rows were counted in, or None.
        """

        def read(name: str | None) -> OutcomeColumn | None:
            if name is None:
                return None
            locate = None if lazy is None else lambda _, value: locate_value(lazy, name, value)
            return OutcomeColumn.read(CodedColumn.read(table[name], counts, locate), name)

        decision, truth = read(self.decision), read(self.target)
        favourable, favourable_target = self.favourable, self.favourable_target
        if decision and truth and favourable is not None and favourable_target is None:
            stated_of_truth = decision.find(favourable) is None and truth.find(favourable) is not None
            favourable, favourable_target = (None, favourable) if stated_of_truth else (favourable, None)
        if decision is None:
            wanted = favourable if favourable_target is None else favourable_target
            labels = None if truth is None else self._labels(truth, wanted)
            good = "selected" if favourable is None else favourable
            words = LabelWords("", good, (opposite_label(good),)) if labels is None else labels.words
            every = np.ones(len(table), dtype=np.bool_)
            return DecisionLabels(words, every, ~every), labels
        made = self._labels(decision, favourable, self.unfavourable)
        if truth is None:
            return made, None
        settled = "stated"
        if favourable_target is None:
            favourable_target, settled = propose_true_label(truth, decision, made, self.target_name)
        return made, self._labels(truth, favourable_target, settled=settled)

    def _labels(
        self,
        column: OutcomeColumn,
        favourable: Value | None,
        unfavourable: Sequence[Value] = (),
        settled: str = "stated",
    ) -> DecisionLabels:
        """Read one column of labels; a schema that lists all of its words states the favourable one."""
        target = None if self.schema is None or self.schema.target.kind != "label" else self.schema.target
        listed = target is not None and all(find_value(word, target.values or ()) is not None for word in column.words)
        if target is not None and listed and favourable is None:
            favourable = target.favourable
        others = listed or (self.outcome is not None and self.outcome.kind == "label")
        return read_labels(column, favourable, unfavourable, others=others, settled=settled)

    def _list_protected(self, columns: list[str]) -> tuple[str, ...]:
        """Return the columns that define the groups, after checking that every named column exists."""
        names = list_names(() if self.protected is None else self.protected, "protected")
        if not names and self.schema is not None:
            names = self.schema.protected
        if not names:
            hint = "name at least one: `protected=NAME`"
            raise OptionError("expected at least one protected attribute, got none", hint=hint)
        given = {"decision": [self.decision], "protected": names, "target": [self.target]}
        given |= {"score": [self.score], "weight": [self.weight]}
        if self.replicates is not None:
            if self.weight is None:
                raise OptionError("replicate weights need weights", hint="name their column too: `weight=...`")
            given["replicate_weights"] = list(self.replicates.columns)
        given |= {f"membership {name}": list(by.values()) for name, by in (self.membership or {}).items()}
        roles: dict[str, str] = {}
        for role, named in given.items():
            for name in named:
                if name is None:
                    continue
                require_column(name, columns, role)
                if roles.setdefault(name, role) != role:
                    raise OptionError(f"expected different columns as {roles[name]}= and {role}=, got {name!r} twice")
        return tuple(dict.fromkeys(names))

    def _outcome_of(self, column: OutcomeColumn) -> OutcomeRole:
        """Return the kind of the decision: as stated, as the schema's grades if it has these, or as inferred."""
        outcome = self.outcome or OutcomeRole()
        target = None if self.schema is None else self.schema.target
        if target is not None and target.kind == "ordinal" and outcome.kind in (None, "ordinal"):
            order = outcome.order or target.values or ()
            if outcome.kind is not None or all(find_value(word, order) is not None for word in column.words):
                outcome = replace(outcome, kind="ordinal", order=order)
        outcome = replace(outcome, kind=infer_kind(column, self.favourable, outcome)[0])
        if outcome.kind != "number" and outcome.unit is not None:
            raise OptionError(f"a unit belongs to a number, and {column.name!r} holds labels")
        return outcome

    def _read_labels(self, table: Any, names: Sequence[str], outcome: OutcomeRole, location: str) -> RecordedLabels:
        """Read several decided labels, without the rows that have none."""
        decision = str(self.decision)
        if self.membership:
            raise OptionError(
                f"probabilities of groups are read for one favourable decision, and {decision!r} is compared label by "
                "label",
                hint="leave `membership=` out; or name the `favourable=` label and say `kind=label`",
            )
        for role, given in (("score", self.score), ("weight", self.weight)):
            if given is not None:
                raise OptionError(
                    f"{role}s are read for one favourable decision, and {decision!r} is compared label by label",
                    hint=f"leave `{'y_score' if role == 'score' else 'weight'}=` out; or name the `favourable=` label "
                    "and say `kind=label`",
                )
        outcome.require_no_favourable(decision, self.favourable)
        columns = [
            OutcomeColumn.read(CodedColumn.read(table[name]), name)
            for name in (decision, self.target)
            if name is not None
        ]
        target, codes = read_label_codes(columns, self.favourable, outcome)
        known = codes[0] >= 0
        if self.target is not None and not (known & (codes[1] >= 0)).any():
            raise DataError("no row has both a decision and a true label")
        schema = describe_groups(table, names, {"name": decision} | target, self.schema, accept=self.accept_proposals)
        people = encode(schema, table.select(list(names)).filter(known.tolist()).to_native(), location=location)
        people = _add_reading(
            people, known, describe_target(schema.target), codes[-1] >= 0, self._describe_truth(schema)
        )
        kept = np.flatnonzero(known)[people.rows]
        truth = None if self.target is None else codes[1][kept]
        return RecordedLabels(
            people=replace(people, labels=truth, rows=kept),
            given=GivenLabels(tuple(target["values"]), codes[0][kept], truth, outcome.kind == "ordinal"),
            truth=self.target,
            undecided=int((~known).sum()),
        )

    def _read_numbers(self, table: Any, names: Sequence[str], target: dict[str, Any], location: str) -> RecordedNumbers:
        """Read decided numbers, without the rows that have none."""
        decision = str(target["name"])
        if self.membership:
            raise OptionError(
                f"probabilities of groups are read for decisions that are labels, and {decision!r} holds numbers",
                hint="leave `membership=` out",
            )
        if self.score is not None:
            raise OptionError(
                f"scores are read for decisions that are labels, and {decision!r} holds numbers",
                hint="leave `y_score=` out; or say `kind=label` for labels",
            )
        if self.replicates is not None:
            message = f"replicate weights are read for decisions that are labels, and {decision!r} holds numbers"
            raise OptionError(message, hint="leave the replicate weights out")
        known = _has_value(table[decision])
        if not known.any():
            raise DataError("no row has a number")
        labelled = known if self.target is None else known & _has_value(table[self.target])
        if not labelled.any():
            raise DataError("no row has both a number and a true one")
        schema = describe_groups(table, names, target, self.schema, accept=self.accept_proposals)
        people = encode(schema, table.select(list(names)).filter(known.tolist()).to_native(), location=location)
        people = _add_reading(people, known, describe_target(schema.target), labelled, self._describe_truth(schema))
        kept = np.flatnonzero(known)[people.rows]
        numbers = None
        if self.target is not None:
            numbers = np.full(len(kept), np.nan)
            numbers[labelled[kept]] = read_numbers(table[self.target], kept[labelled[kept]], "true number")
        return RecordedNumbers(
            people=replace(people, numbers=numbers, rows=kept),
            decided=read_numbers(table[decision], kept, "decision"),
            weights=None if self.weight is None else weights_of(table[self.weight], kept),
            truth=self.target,
            undecided=int((~known).sum()),
        )


def _has_value(column: Any) -> Booleans:
    """Return the mask of the cells that hold a value, shape (n,)."""
    return np.array([label_of(value) is not None for value in column.to_list()])


def _refuse_codes(name: str, scores: Floats) -> None:
    """Refuse scores such as -1 beside probabilities, which stand for scores that are not known.

    Raises:
        DataError: if there are such scores.
    """
    outside = scores[(scores < 0) | (scores > 1)]
    codes = sorted(set(outside.tolist()))
    if len(outside) and len(outside) < len(scores) / 2 and len(unknown_codes(codes)) == len(codes):
        counts = ", ".join(f"{code:g} ({format_count(int((outside == code).sum()), 'row', 'rows')})" for code in codes)
        raise DataError(
            f"column {name!r} has {counts} beside scores from 0 to 1, as codes for scores that are not known",
            hint="leave these rows out",
        )


def _add_reading(
    people: People,
    decided: Booleans,
    decision: OutcomeReading,
    labelled: Booleans | None,
    true_label: OutcomeReading | None,
    counts: Integers | None = None,
) -> People:
    """Add decisions and true labels to how people were read.

    Args:
        people: People read from the decided rows of a table.
        decided: Mask of the rows with a decision, shape (rows,).
        decision: Favourable decisions.
        labelled: Mask of the rows with a true label; None without true labels.
        true_label: Favourable true labels; None without true labels.
        counts: Number of people in each row; None: one.
    """
    assert people.reading is not None  # ``encode`` sets it
    counts = np.ones(len(decided), dtype=np.int64) if counts is None else counts
    used = np.flatnonzero(decided)[people.rows]
    unlabelled = 0 if labelled is None else int(counts[used][~labelled[used]].sum())
    reading = add_left_out(people.reading, "without a decision", int(counts[~decided].sum()))
    update = {"decision": decision, "true_label": true_label, "unlabelled": unlabelled}
    return replace(people, reading=reading.model_copy(update=update))


def _are_equal(one: Floats, other: Floats) -> Booleans:
    """Return which rows are the same, missing values included, shape (n,)."""
    return np.asarray(((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1))


def describe_groups(
    table: Any,
    names: Sequence[str],
    target: dict[str, Any],
    schema: Schema | None,
    *,
    accept: bool,
    counts: Integers | None = None,
) -> Schema:
    """Return a schema of the attributes that groups are made by, with what was decided as its target.

    Args:
        table: what narwhals wraps; names: the attributes' columns.
        target: the entry of the target.
        schema: what the columns mean; inferred if None.
        accept: where it is inferred, take what is proposed for columns that cannot be attributes as they are.
        counts: how many people each row stands for; None: one.

    Raises:
        SchemaError: the schema has no such attribute.
    """
    given = None if schema is None else {one.name: one for one in schema.attributes}
    missing = [name for name in names if given is not None and name not in given]
    if given is not None and missing:
        known = f"the attributes are: {', '.join(given)}"
        raise SchemaError(f"the schema has no attribute {missing[0]!r}", hint=suggest_name(missing[0], given) + known)
    if given is None:
        attributes = choose_entries(review_columns(table, names, protected=names, counts=counts), accept=accept)
    else:
        attributes = [given[name].model_dump(exclude_unset=True) for name in names]
    attributes = [entry | {"protected": False} for entry in attributes]
    if given is None:  # people without a value are counted, and left out of the groups by that attribute alone
        attributes = [
            {key: value for key, value in entry.items() if key != "missing"}
            | ({"unknown": []} if "missing" in entry else {})
            for entry in attributes
        ]
    return Schema.parse({"target": target, "attributes": attributes})


def table_of_decisions(
    y_pred: Any | None,
    sensitive_features: Any,
    *,
    y_true: Any = None,
    y_score: Any = None,
    sample_weight: Any = None,
    membership: Mapping[str, Any] | None = None,
    **about: Any,
) -> tuple[Any, DecisionRoles]:
    """Return a table of decisions given as plain columns, and what its columns are for.

    Args:
        y_pred: the decisions, shape (n,); None where scores decide.
        sensitive_features: what groups are made by: a data frame, a mapping from names to columns, a column, or an
            array of shape (n,) or (n, attributes).
        y_true, y_score, sample_weight: true labels, scores and weights, shape (n,), or None.
        membership: attribute -> probabilities of its groups, a mapping from groups to columns or a data frame.
        about: ``data``, a data frame whose columns the others then name; ``favourable``, ``schema``, ``threshold``,
            ``low_is_good``, ``accept_proposals``, ``outcome`` and ``known`` of ``DecisionRoles``; ``replicate_weights``
            (a data frame or an array of shape (n, R)), with the ``replicate_method`` by which they were made.

    Raises:
        DataError: the columns differ in length, or something given is not a column.
    """
    columns = {"y_pred": y_pred, "y_true": y_true, "y_score": y_score, "sample_weight": sample_weight}
    replicate_weights, method = about.pop("replicate_weights", None), about.pop("replicate_method", "")
    frame = about.pop("data", None)
    if frame is not None:
        features = list_names(sensitive_features, "sensitive_features")
        refuse_arrays(columns, membership)
        if replicate_weights is not None:
            about["replicates"] = ReplicateRole(list_names(replicate_weights, "replicate_weights"), method)
        return frame, DecisionRoles(y_pred, features, y_true, y_score, sample_weight, membership=membership, **about)
    check_index(**columns, membership=membership, replicate_weights=replicate_weights)
    more, probable, numbered = name_sample_columns(membership, replicate_weights)
    if replicate_weights is not None:
        about["replicates"] = ReplicateRole(numbered, method)
    frame, features, names = table_of_columns(columns, sensitive_features, more)
    about.setdefault("target_name", getattr(y_true, "name", None))
    roles = DecisionRoles(
        decision=names.get("y_pred"),
        protected=features,
        target=names.get("y_true"),
        score=names.get("y_score"),
        weight=names.get("sample_weight"),
        membership=probable or None,
        **about,
    )
    return frame, roles
