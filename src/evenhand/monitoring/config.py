"""What a monitor watches and how often it may be wrong: a file that people write, in YAML or TOML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from evenhand.core import check_configuration, read_configuration
from evenhand.errors import OptionError

Measure: TypeAlias = Literal["selection_rate", "equal_opportunity", "base_rate", "calibration"]
LABELLED: frozenset[Measure] = frozenset({"equal_opportunity", "base_rate", "calibration"})
"""Measures that need true labels."""

EXAMPLE = "monitor.yaml"
HINTS = {
    "groups": "name the fields whose values are the groups: groups: {by: [sex]}",
    "by": "groups: {by: [sex]}",
    "watch": "such as watch: [{gap: selection_rate, tolerance: 0.02}]",
    "tolerance": "the largest gap that raises no alarm, such as 0.02; of a ratio the smallest, such as 0.8",
    "webhook": "such as https://alerts.example.org/evenhand",
}


def _check_number(given: object) -> object:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(f"expected a number, got {given!r}")
    return given


def _check_whole(given: object) -> object:
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"expected a whole number, got {given!r}")
    return given


def _check_once(names: list[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice")
    return names


def _write_names(given: object) -> object:
    return (
        [str(one) if isinstance(one, int | float | bool) else one for one in given]
        if isinstance(given, list)
        else given
    )


Number: TypeAlias = Annotated[float, BeforeValidator(_check_number), Field(allow_inf_nan=False)]
Whole: TypeAlias = Annotated[int, BeforeValidator(_check_whole)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Names: TypeAlias = Annotated[list[Name], Field(min_length=1), AfterValidator(_check_once)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MonitorGroups(_StrictModel):
    """Which groups are compared.

    Attributes:
        by: fields of an event whose values are groups.
        intersections: whether groups by all of these fields together are compared too.
        min_share: groups with a smaller share of the decisions are not compared, each by itself.
        values: the values of each field; without them they are taken from the first decisions.
        learn: how many first decisions say which groups there are; they count like all others.
    """

    by: Names
    intersections: bool = False
    min_share: Annotated[Number, Field(ge=0, le=0.5)] = 0.02
    values: (
        dict[
            Name, Annotated[list[Name], BeforeValidator(_write_names), Field(min_length=2), AfterValidator(_check_once)]
        ]
        | None
    ) = None
    learn: Annotated[Whole, Field(ge=2, le=100_000)] = 1000

    @model_validator(mode="after")
    def _check_values(self) -> MonitorGroups:
        if self.values is not None and set(self.values) != set(self.by):
            raise OptionError(
                f"values are given of {', '.join(sorted(self.values))}, and groups are by {', '.join(self.by)}",
                location="groups.values",
                hint="give the values of every field that groups are by, or of none",
            )
        if self.intersections and len(self.by) < 2:
            raise OptionError("intersections need two fields", location="groups.by", hint="by: [sex, race]")
        return self


class Watch(_StrictModel):
    """A measure that is watched.

    Attributes:
        gap: the measure whose difference between groups is watched; of ``calibration`` it is the difference between the
            observed rate and the score, in each group.
        ratio: the measure whose ratio between groups is watched, instead.
        tolerance: the largest gap that raises no alarm; of a ratio, the smallest.
        bins: of scores, for calibration.
    """

    gap: Measure | None = None
    ratio: Literal["selection_rate", "equal_opportunity", "base_rate"] | None = None
    tolerance: Number
    bins: Annotated[Whole, Field(ge=1, le=20)] = 5

    @model_validator(mode="after")
    def _check_form(self) -> Watch:
        if (self.gap is None) == (self.ratio is None):
            raise OptionError("expected `gap` or `ratio`, one of them", location="watch", hint=HINTS["watch"])
        if self.gap is not None and not 0 <= self.tolerance < 1:
            raise OptionError(
                f"the tolerance of a gap is at least 0 and below 1, not {self.tolerance:g}", location="watch"
            )
        if self.ratio is not None and not 0 < self.tolerance <= 1:
            raise OptionError(
                f"the tolerance of a ratio is above 0 and at most 1, not {self.tolerance:g}",
                location="watch",
                hint="0.8 raises an alarm when a group has less than four fifths of another's rate",
            )
        return self

    @property
    def measure(self) -> Measure:
        """The measure."""
        found = self.gap or self.ratio
        assert found is not None
        return found

    @property
    def name(self) -> str:
        """Measure and form, as ``selection_rate gap``."""
        return f"{self.measure} {'gap' if self.gap else 'ratio'}"


class FalseAlarms(_StrictModel):
    """How often alarms may be false.

    Attributes:
        probability: of any false alarm in all the time, over all groups and measures together.
        horizon: decisions over which the search for changes is spread; the probability holds beyond it too.
        period: decisions after which new bets start, so that a change is found however late it comes.
        average_run: instead of a probability, the mean number of decisions before the first false alarm, at least.
    """

    probability: Annotated[Number, Field(gt=0, le=0.5)] = 0.05
    horizon: Annotated[Whole, Field(ge=1)] = 100_000
    period: Annotated[Whole, Field(ge=1)] = 1000
    average_run: Annotated[Whole, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_period(self) -> FalseAlarms:
        longest = self.average_run or self.horizon
        if self.period > longest:
            raise OptionError(
                f"a period of {self.period:,} decisions is longer than {longest:,}", location="false_alarms"
            )
        return self


class MonitorLabels(_StrictModel):
    """How true labels come.

    Attributes:
        audited_with: probability with which the monitor draws a decision to be audited; then it takes the labels of
            these decisions alone.
        proxy: field with a guess of the label between 0 and 1, such as a judge's, that every decision has.
        wait: decisions that are kept until their label comes; older ones are given up.
    """

    audited_with: Annotated[Number, Field(ge=0.001, le=1)] | None = None
    proxy: Name | None = None
    wait: Annotated[Whole, Field(ge=1, le=10_000_000)] = 100_000

    @model_validator(mode="after")
    def _check_audits(self) -> MonitorLabels:
        if self.proxy is not None and self.audited_with is None:
            raise OptionError(
                "a proxy alone says nothing about true labels",
                location="labels",
                hint="have a few decisions audited: labels: {audited_with: 0.05, proxy: judge}",
            )
        return self


class MonitorFields(_StrictModel):
    """What the fields of an event are called.

    Attributes:
        id, decision, label, score: names of fields.
        favourable: the decision that people want, where decisions are not 0 and 1.
        positive: the label that is counted as 1, where labels are not 0 and 1.
    """

    id: Name = "id"
    decision: Name = "decision"
    label: Name = "label"
    score: Name = "score"
    favourable: str | int | None = None
    positive: str | int | None = None


class MonitorConfig(_StrictModel):
    """What a monitor watches; see ``docs/reference/monitor-file.md`` for every entry.

    Attributes:
        groups, watch, false_alarms, labels, fields: the parts of the file.
        webhook: address to which every alarm is posted as JSON.
        seed: of the audits that are drawn; by default secret, so that nobody knows which decision will be.
        recent: decisions after which one counts half in the recent gap.
    """

    groups: MonitorGroups
    watch: Annotated[list[Watch], Field(min_length=1)]
    false_alarms: FalseAlarms = FalseAlarms()
    labels: MonitorLabels = MonitorLabels()
    fields: MonitorFields = MonitorFields()
    webhook: str | None = None
    seed: Annotated[Whole, Field(ge=0)] | None = None
    recent: Annotated[Whole, Field(ge=1)] = 5000

    @field_validator("webhook")
    @classmethod
    def _check_webhook(cls, given: str | None) -> str | None:
        if given is not None and not given.startswith(("https://", "http://")):
            raise ValueError(f"expected an address of the web, got {given!r}")
        return given

    @model_validator(mode="after")
    def _check_watch(self) -> MonitorConfig:
        names = [watch.name for watch in self.watch]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"{name} is watched twice", location="watch")
        if self.labels.audited_with is not None and not self.needs_labels:
            raise OptionError(
                "decisions are to be audited, and nothing that is watched needs their labels",
                location="labels",
                hint="watch base_rate, equal_opportunity or calibration",
            )
        if self.labels.proxy is not None and all(watch.measure != "base_rate" for watch in self.watch):
            raise OptionError(
                "a proxy is used for base_rate, and that is not watched",
                location="labels.proxy",
                hint="watch: [{gap: base_rate, tolerance: 0.05}]",
            )
        return self

    @property
    def needs_labels(self) -> bool:
        """Whether anything that is watched needs true labels."""
        return any(watch.measure in LABELLED for watch in self.watch)


def read_monitor_config(source: MonitorConfig | Mapping[str, Any] | str | Path) -> MonitorConfig:
    """Return the configuration of a monitor.

    Args:
        source: one, or its entries, or a YAML or TOML file of them.

    Raises:
        OptionError: the file cannot be read, or an entry is missing, unknown, or makes no sense.
    """
    if isinstance(source, MonitorConfig):
        return source
    if isinstance(source, Mapping):
        return _check(source, None)
    described = read_configuration(Path(source), example=EXAMPLE, entries="groups: and watch:")
    return _check(described, str(source))


def _check(described: Mapping[str, Any], location: str | None) -> MonitorConfig:
    entries = {
        "": MonitorConfig.model_fields,
        "groups": MonitorGroups.model_fields,
        "watch": Watch.model_fields,
        "false_alarms": FalseAlarms.model_fields,
        "labels": MonitorLabels.model_fields,
        "fields": MonitorFields.model_fields,
    }
    return check_configuration(
        lambda: MonitorConfig.model_validate(described), location=location, entries=entries, hints=HINTS
    )
