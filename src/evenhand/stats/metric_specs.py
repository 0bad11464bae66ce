"""Registry of metrics: the name, title, unit, denominator and worse direction of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["percent", "decimal", "target"]

Family: TypeAlias = Literal[
    "group",
    "overall",
    "custom",
    "gap",
    "number",
    "number gap",
    "label rate",
    "label",
    "label gap",
    "ranking",
    "ranking gap",
    "proxy",
    "individual",
    "subgroup",
    "subgroup finding",
    "proof",
]
"""Subject of a metric: a group, all people together, the gap between groups, or another analysis."""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric.

    Attributes:
        name: Name in results and conditions.
        title: Name in a sentence.
        family: Kind of the metric.
        unit: ``percent`` of people, ``decimal``, or ``target``: the unit of the numeric decision.
        worse: Direction in which the metric gets worse. Empty if neither direction is worse.
        comparison: Description of the quantity that a gap compares.
        compares: Metric of the groups that a gap compares.
        denominator: People that the metric is computed on.
    """

    name: str
    title: str
    family: Family
    unit: Unit = "percent"
    worse: Literal["higher", "lower", ""] = ""
    comparison: str = ""
    compares: str = ""
    denominator: str = "people"

    @property
    def heading(self) -> str:
        """Title followed by the compared quantity."""
        return f"{self.title}: {self.comparison}" if self.comparison else self.title

    @property
    def short_title(self) -> str:
        """Title of a gap, such as ``accuracy difference``."""
        return (
            f"{self.title} difference" if self.comparison.endswith(RANGE) and "differ" not in self.title else self.title
        )


LABELLED = "people with a true label"
NUMBERED = "people with a true number"
RANGE = "highest minus lowest"


def _gap(
    name: str,
    title: str,
    compares: str = "",
    *,
    family: Family = "gap",
    unit: Unit = "decimal",
    worse: Literal["higher", "lower"] = "higher",
    comparison: str = RANGE,
) -> MetricSpec:
    """Build the entry of a gap between groups."""
    return MetricSpec(name, title, family, unit, worse, comparison, compares)


_INDIVIDUAL: tuple[tuple[str, str, Unit], ...] = (
    ("flip_rate", "counterfactual flip rate", "percent"),
    ("excess_flip_rate", "excess of the flip rate over noise", "percent"),
    ("mean_change", "mean change", "target"),
    ("largest_change", "largest change", "target"),
)

_SPECS = (
    # Rates and means of each group
    MetricSpec("selection_rate", "selection rate", "group"),
    MetricSpec("base_rate", "base rate", "group", denominator=LABELLED),
    MetricSpec(
        "true_positive_rate", "true positive rate", "group", denominator="people whose true label is favourable"
    ),
    MetricSpec(
        "false_positive_rate", "false positive rate", "group", denominator="people whose true label is unfavourable"
    ),
    MetricSpec("accuracy", "accuracy", "group", worse="lower", denominator=LABELLED),
    MetricSpec("precision", "precision", "group", denominator="selected people with a true label"),
    MetricSpec(
        "false_discovery_rate", "false discovery rate", "group", denominator="selected people with a true label"
    ),
    MetricSpec(
        "false_omission_rate", "false omission rate", "group", denominator="people not selected, with a true label"
    ),
    MetricSpec("mean_score", "mean score", "group", "decimal"),
    MetricSpec("calibration_gap", "calibration error", "group", "decimal", denominator=LABELLED),
    # Metrics of all people together
    MetricSpec("auc", "area under the ROC curve", "overall", "decimal", "lower", denominator=LABELLED),
    MetricSpec(
        "generalized_entropy_index",
        "generalised entropy of benefits (alpha 2)",
        "overall",
        "decimal",
        denominator=LABELLED,
    ),
    MetricSpec("theil_index", "Theil index of benefits", "overall", "decimal", denominator=LABELLED),
    MetricSpec("own_metric", "custom metric", "custom", "decimal", denominator=LABELLED),
    # Gaps between groups
    _gap(
        "demographic_parity_difference",
        "demographic parity difference",
        "selection_rate",
        comparison=f"{RANGE} selection rate",
    ),
    _gap(
        "demographic_parity_ratio",
        "demographic parity ratio",
        "selection_rate",
        comparison="lowest divided by highest selection rate",
        worse="lower",
    ),
    _gap(
        "equal_opportunity_difference",
        "equal opportunity difference",
        "true_positive_rate",
        comparison=f"{RANGE} true positive rate",
    ),
    _gap(
        "equalized_odds_difference",
        "equalized odds difference",
        comparison="true or false positive rates, whichever differ more",
    ),
    _gap("accuracy_difference", "accuracy", "accuracy"),
    _gap("false_discovery_difference", "false discovery rate", "false_discovery_rate"),
    _gap("false_omission_difference", "false omission rate", "false_omission_rate"),
    _gap("calibration_difference", "calibration error", "calibration_gap"),
    # Numeric decisions, and gaps between groups; a residual is the decided number minus the true one
    MetricSpec("mean", "mean", "number", "target"),
    MetricSpec("quantile_10", "10 % quantile", "number", "target"),
    MetricSpec("median", "median", "number", "target"),
    MetricSpec("quantile_90", "90 % quantile", "number", "target"),
    MetricSpec("true_mean", "true mean", "number", "target", denominator=NUMBERED),
    MetricSpec("mean_residual", "mean residual", "number", "target", denominator=NUMBERED),
    MetricSpec("mean_absolute_error", "mean absolute error", "number", "target", "higher", denominator=NUMBERED),
    _gap("mean_difference", "mean", "mean", unit="target", family="number gap"),
    _gap("quantile_10_difference", "10 % quantile", "quantile_10", unit="target", family="number gap"),
    _gap("median_difference", "median", "median", unit="target", family="number gap"),
    _gap("quantile_90_difference", "90 % quantile", "quantile_90", unit="target", family="number gap"),
    _gap(
        "residual_difference",
        "mean residual",
        "mean_residual",
        comparison=f"decided minus true, {RANGE}",
        unit="target",
        family="number gap",
    ),
    _gap("absolute_error_difference", "mean absolute error", "mean_absolute_error", unit="target", family="number gap"),
    # One label against the rest
    MetricSpec("label_share", "share given it", "label rate"),
    MetricSpec("label_base_share", "share who truly have it", "label rate", denominator=LABELLED),
    MetricSpec(
        "label_true_positive_rate", "true positive rate", "label rate", denominator="people who truly have the label"
    ),
    MetricSpec(
        "label_false_positive_rate",
        "false positive rate",
        "label rate",
        denominator="people who truly have another label",
    ),
    MetricSpec("label_precision", "precision", "label rate", denominator="people given the label, with a true label"),
    MetricSpec("at_least", "share given this or a higher grade", "label rate"),
    # All labels; the metrics from ``too_low`` onwards are for ordered labels
    MetricSpec("label_accuracy", "accuracy (given the true label)", "label", worse="lower", denominator=LABELLED),
    MetricSpec("macro_recall", "macro recall", "label", worse="lower", denominator=LABELLED),
    MetricSpec("too_low", "graded too low", "label", denominator=LABELLED),
    MetricSpec("too_high", "graded too high", "label", denominator=LABELLED),
    MetricSpec("mean_grade_error", "mean error in grades", "label", "target", denominator=LABELLED),
    _gap("label_share_difference", "share given one label", "label_share", family="label gap"),
    _gap("cut_difference", "share given at least one grade", "at_least", family="label gap"),
    _gap("label_accuracy_difference", "accuracy", "label_accuracy", family="label gap"),
    _gap("macro_recall_difference", "macro recall", "macro_recall", family="label gap"),
    _gap("too_low_difference", "share graded too low", "too_low", family="label gap"),
    _gap("too_high_difference", "share graded too high", "too_high", family="label gap"),
    _gap(
        "grade_error_difference",
        "mean error in grades (given minus true)",
        "mean_grade_error",
        unit="target",
        family="label gap",
    ),
    _gap(
        "label_true_positive_difference",
        "true positive rate of one label",
        "label_true_positive_rate",
        family="label gap",
    ),
    _gap(
        "label_false_positive_difference",
        "false positive rate of one label",
        "label_false_positive_rate",
        family="label gap",
    ),
    _gap("label_precision_difference", "precision of one label", "label_precision", family="label gap"),
    # Rankings
    MetricSpec("exposure", "attention per candidate", "ranking", "decimal"),
    MetricSpec("relative_exposure", "attention divided by that in random orders", "ranking", "decimal"),
    MetricSpec("representation_ratio", "places divided by those in random orders", "ranking", "decimal"),
    MetricSpec("above_rate", "ranked above another group", "ranking"),
    MetricSpec("exposure_per_relevance", "attention per relevance", "ranking", "decimal"),
    _gap(
        "exposure_ratio",
        "exposure ratio",
        comparison="lowest divided by highest attention per candidate",
        family="ranking gap",
        worse="lower",
    ),
    _gap(
        "selection_ratio",
        "selection ratio",
        comparison="lowest divided by highest selection rate",
        family="ranking gap",
        worse="lower",
    ),
    _gap(
        "pairwise_parity_difference",
        "pairwise parity difference",
        comparison="how much more often one group is ranked above the other",
        family="ranking gap",
    ),
    _gap(
        "disparate_treatment_ratio",
        "disparate treatment ratio",
        comparison="lowest divided by highest attention per relevance",
        family="ranking gap",
        worse="lower",
    ),
    # Groups whose membership is known only as a probability
    *(
        MetricSpec(
            f"{kind}_selection_rate_difference", f"{kind} selection rate difference", "proxy", "decimal", "higher"
        )
        for kind in ("probable", "bounded")
    ),
    # Individuals, subgroups and proofs
    *(
        MetricSpec(f"{prefix}{name}", f"{title}{over}", "individual", unit, "higher")
        for prefix, over in (("", ""), ("population_", ", simulated population"))
        for name, title, unit in _INDIVIDUAL
    ),
    MetricSpec("worst_subgroup_gap", "gap of the subgroup most clearly worse off", "subgroup", worse="higher"),
    MetricSpec("worst_subgroup_residual", "mean residual of the subgroup most clearly off", "subgroup", worse="higher"),
    MetricSpec("subgroup_gap", "gap of a subgroup", "subgroup finding"),
    MetricSpec("certified", "certified fair", "proof", worse="lower"),
    MetricSpec("falsified", "certified unfair", "proof", worse="higher"),
    MetricSpec("undecided", "undecided", "proof"),
)

MEASURED_FAMILIES = ("group", "overall", "number", "label rate", "label")

METRICS = {spec.name: spec for spec in _SPECS}
"""Metrics by name."""


def metric_spec(name: str) -> MetricSpec:
    """Return the specification of a metric. A custom metric has the name ``own_metric`` and its own name as a title."""
    return METRICS.get(name) or replace(METRICS["own_metric"], title=name)


def names_of(*families: Family) -> tuple[str, ...]:
    """Return the names of the metrics of the given families."""
    return tuple(name for name, spec in METRICS.items() if spec.family in families)


def titles_of(*families: Family) -> dict[str, str]:
    """Return the titles of the metrics of the given families, with the compared quantity, by name."""
    return {name: METRICS[name].heading for name in names_of(*families)}


def order_names(names: Collection[str]) -> list[str]:
    """Order the names of metrics as in the registry, followed by custom metrics in the given order."""
    return [*(name for name in METRICS if name in names), *(name for name in names if name not in METRICS)]


METRIC_NAMES = names_of("group")
GAP_NAMES = names_of("gap")
METRIC_TITLES = titles_of("group", "overall")
GAP_TITLES = titles_of("gap")
NUMBER_TITLES = titles_of("number")
NUMBER_GAP_TITLES = titles_of("number gap")
RATE_TITLES = titles_of("label rate")
LABEL_GAP_TITLES = titles_of("label gap")

LABEL_RATE_GAPS = {name: METRICS[name].compares for name in LABEL_GAP_TITLES if METRICS[name].compares in RATE_TITLES}
"""Gaps in the rates of one label, and the metric that each of them compares."""

DECISION_METRICS = frozenset(
    {name for name, spec in METRICS.items() if spec.denominator == "people" and spec.family in MEASURED_FAMILIES}
)
"""Metrics that need only decisions. All other metrics, including custom metrics, need true labels or numbers."""

CONDITION_NAMES = frozenset(
    name for name, spec in METRICS.items() if spec.family not in ("custom", "label rate", "ranking", "subgroup finding")
)
"""Metrics that are available in conditions."""

LOWER_IS_WORSE = frozenset(name for name, spec in METRICS.items() if spec.worse == "lower")


def unit_of(name: str) -> Unit:
    """Return the unit of a metric. The default is percent."""
    return METRICS[name].unit if name in METRICS else "percent"
