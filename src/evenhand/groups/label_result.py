"""How groups fare where there are several labels: each against the rest, confusions, and grades in an order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.breakdown import Gap, describe_left_out
from evenhand.groups.label_coverage import LabelCoverage, find_caution
from evenhand.stats.quantity import Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd


class LabelGap(Gap):
    """The distance between two groups in one of several labels, or in all of them.

    Attributes:
        label: which label, or the lowest grade counted of *at least this grade*; empty where all are compared.
        largest_at: of the largest over all labels, the label it is at.
    """

    label: str = ""
    largest_at: str = ""


class LabelGroup(ResultPart):
    """Everybody with the same values of some protected attributes, and the labels they are given.

    Attributes:
        values: attribute -> value in the data's own words.
        size: people in it.
        small: whether these are fewer than are compared.
        rates: label -> name -> number, each label against the rest: ``label_share`` (share given it); with true labels
            ``label_base_share`` (share who truly have it), ``label_true_positive_rate``, ``label_false_positive_rate``
            and ``label_precision``.
        at_least: of grades, grade -> share given this or a higher one; the lowest, which all have, is not listed.
        metrics: with true labels ``label_accuracy`` (share given their true label) and ``macro_recall`` (mean true
            positive rate of all labels); of grades ``too_low``, ``too_high`` (share given a lower, a higher one than
            the true), ``mean_grade_error`` (given minus true, in steps of the order) and ``weighted_kappa``.
        confusion: people by true label (rows) and given label (columns), in the order of ``LabelMetrics.labels``; of
            groups by one attribute alone, where true labels are known.
        label_coverage: People with a true label by decided label, which all metrics that need true labels rest on; None
            if everyone in the group has a true label, or true labels are not given.
    """

    values: dict[str, str]
    size: int
    small: bool
    rates: dict[str, dict[str, Quantity]]
    at_least: dict[str, Quantity] = Field(default_factory=dict)
    metrics: dict[str, Quantity] = Field(default_factory=dict)
    confusion: tuple[tuple[int, ...], ...] = ()
    label_coverage: LabelCoverage | None = None

    @property
    def label(self) -> str:
        """The group in words."""
        return ", ".join(self.values.values())

    def without_decisions(self, left_out: Unknown) -> LabelGroup:
        """Return the group with all its numbers unknown but its size."""
        rates = {label: dict.fromkeys(found, left_out) for label, found in self.rates.items()}
        others = {name: dict.fromkeys(getattr(self, name), left_out) for name in ("at_least", "metrics")}
        return self.model_copy(update={"rates": rates, "confusion": (), "label_coverage": None, **others})


class LabelBreakdown(ResultPart):
    """Groups by one protected attribute, or by several at once (their intersection).

    Attributes:
        by: the attributes.
        groups: everybody whose values are known.
        gaps: between the groups. A gap of rates comes first as the largest over all labels, then for each label; all of
            one name hold together.
        unknown: how many people are in none of the groups because a value of theirs is unknown.
    """

    by: tuple[str, ...]
    groups: tuple[LabelGroup, ...]
    gaps: tuple[LabelGap, ...]
    unknown: int = 0

    def without_small_groups(self, reason: str) -> LabelBreakdown:
        """Return the same without what was decided about small groups, and without how many it was decided about."""
        left_out = Unknown(reason=reason)
        groups = tuple(one.without_decisions(left_out) if one.small else one for one in self.groups)
        # Gaps over all labels name what is too small as ``label: group``.
        small = {
            name for one in groups if one.small for name in (one.label, *(f"{at}: {one.label}" for at in one.rates))
        }
        return self.model_copy(update={"groups": groups, "gaps": tuple(gap.without_counts(small) for gap in self.gaps)})

    def gap(self, name: str, label: str = "") -> LabelGap | None:
        """Return the gap of that name, of one label or over all of them, if there is one."""
        return next((gap for gap in self.gaps if (gap.name, gap.label) == (name, label)), None)


class LabelMetrics(Result):
    """Several labels by group: of a model, or of decisions already made.

    Attributes:
        people: how many.
        target: what is decided.
        labels: all labels; grades worst first.
        ordered: whether they are grades, labels in an order.
        min_group_size: the smallest denominator of a rate that is compared between groups.
        overall: everybody together, as a group.
        breakdowns: one per protected attribute, then one for their intersection if there are several.
    """

    chart = "groups.plot_labels"
    kind: Literal["labels"] = "labels"
    people: int
    target: str
    labels: tuple[str, ...]
    ordered: bool
    min_group_size: int
    overall: LabelGroup
    breakdowns: tuple[LabelBreakdown, ...]

    def _small_groups_hidden(self) -> dict[str, Any]:
        reason = f"left out: fewer than {self.min_group_size} people"
        return {"breakdowns": tuple(one.without_small_groups(reason) for one in self.breakdowns)}

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield metrics of all people and each group, then gaps. The attribute of a gap of one label ends in it."""
        for name, quantity in self.overall.metrics.items():
            yield ResultNumber(name, "", "", quantity, caution=find_caution(self.overall.label_coverage))
        for breakdown in self.breakdowns:
            by = "_x_".join(breakdown.by)
            for group in breakdown.groups:
                for label, rates in group.rates.items():
                    for name, quantity in rates.items():
                        yield ResultNumber(name, by, group.label, quantity, label)
                for label, quantity in group.at_least.items():
                    yield ResultNumber("at_least", by, group.label, quantity, label)
                for name, quantity in group.metrics.items():
                    yield ResultNumber(name, by, group.label, quantity)
            for gap in breakdown.gaps:
                attribute = by + f".{gap.label}" * bool(gap.label)
                left_out = describe_left_out(gap.not_assessable, self.min_group_size)
                yield ResultNumber(gap.name, attribute, "", gap.value, caution=gap.caution, left_out=left_out)

    def document(self) -> Document:
        """Return the gaps between groups, then every group's labels."""
        return self._write_document("evenhand.groups.labels.wording")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per group, label and metric: by, group, size, label, metric, kind, value, low, high."""
        import pandas as pd

        rows = []
        for breakdown in self.breakdowns:
            for group in breakdown.groups:
                numbers = [(label, name, one) for label, rates in group.rates.items() for name, one in rates.items()]
                numbers += [(label, "at_least", one) for label, one in group.at_least.items()]
                numbers += [("", name, one) for name, one in group.metrics.items()]
                rows += [
                    {
                        "by": " x ".join(breakdown.by),
                        "group": group.label,
                        "size": group.size,
                        "label": label,
                        "metric": name,
                        "kind": one.kind,
                        "value": quantity_value(one),
                        "low": getattr(one, "low", None),
                        "high": getattr(one, "high", None),
                    }
                    for label, name, one in numbers
                ]
        return pd.DataFrame(rows)
