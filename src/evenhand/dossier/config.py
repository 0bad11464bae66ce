"""The configuration of a dossier: what people say about a system, its audit and the columns of its data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evenhand.core.config import check_configuration, setting
from evenhand.core.configuration import read_configuration
from evenhand.schema.words import outcome_key, word_of


def _as_text(value: Any) -> Any:
    """Convert a value of YAML to the word of a table: ``1`` and ``"1"`` are the same word."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else ""
    return str(value) if isinstance(value, int | float) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_mapping(value: Any) -> Any:
    """Convert categories to a mapping from values; a list names values that are categories themselves."""
    if not isinstance(value, list | tuple | Mapping):
        return value
    pairs = value.items() if isinstance(value, Mapping) else zip(value, value, strict=True)
    categories: dict[Any, Any] = {}
    for key, category in ((word_of(_as_text(key)), _as_text(category)) for key, category in pairs):
        if categories.setdefault(key, category) != category:
            raise ValueError(f"{key!r} has two categories: {categories[key]!r} and {category!r}")
    return categories


Word = Annotated[str, BeforeValidator(_as_text)]
Words = Annotated[tuple[Word, ...], BeforeValidator(_as_list)]


class DossierPart(BaseModel):
    """A part of a dossier's configuration: immutable, and other entries are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SystemFields(DossierPart):
    """The system that is audited."""

    name: str | None = setting(None, "name of the system")
    vendor: str | None = setting(None, "who made it")
    version: Word | None = setting(None, "its version")
    purpose: str | None = setting(None, "what it is used for")
    distribution_date: dt.date | None = setting(None, "the day from which it was distributed or used")
    file: str | None = setting(None, "the file of the model, as its name or fingerprint")


class AuditorFields(DossierPart):
    """The auditor."""

    name: str | None = setting(None, "name of the auditor")
    organisation: str | None = setting(None, "organisation of the auditor")
    independence: str | None = setting(None, "why the auditor is independent of the system")


class AuditFields(DossierPart):
    """The audit."""

    date: dt.date | None = setting(None, "the day of the audit")
    owner: str | None = setting(None, "who is responsible for the audit on the user's side")


class DataFields(DossierPart):
    """Where the data comes from."""

    kind: Literal["historical", "test"] | None = setting(None, "historical data, or test data")
    whose: str | None = setting(None, "whose data it is")
    period: tuple[dt.date, dt.date] | None = setting(None, "first and last day of the data")
    obtained: str | None = setting(None, "how and when it was obtained")
    explanation: str | None = setting(None, "what the data is, and why it is fit")
    why_test: str | None = setting(None, "why test data is used; for test data alone")
    how_made: str | None = setting(None, "how the test data was made; for test data alone")


class OutcomeFields(DossierPart):
    """The column of outcomes."""

    column: str
    kind: Literal["selection", "score", "classes"] = "selection"
    selected: Words = setting((), "values that mean selected; without them 1 is selected and 0 is rejected")
    rejected: Words = setting((), "values that mean rejected; not needed if the column has one other value")
    classes: Words = setting((), "the classes, in the order of the tables; without them those in the data, sorted")

    @model_validator(mode="after")
    def _check_words(self) -> OutcomeFields:
        if both := {outcome_key(word) for word in self.selected} & {outcome_key(word) for word in self.rejected}:
            raise ValueError(f"{min(both)!r} is among both selected and rejected")
        keys = [outcome_key(word) for word in self.classes]
        if twice := [word for word, key in zip(self.classes, keys, strict=True) if keys.count(key) > 1]:
            raise ValueError(f"{twice[-1]!r} is listed twice")
        return self


class AttributeFields(DossierPart):
    """A column of people, and the category that each value means."""

    column: str
    categories: Annotated[dict[str, str] | None, BeforeValidator(_as_mapping)] = setting(
        None, "value -> category, in the order of the rows; without it the values in the data, sorted"
    )


class ExclusionFields(DossierPart):
    """A category that is left out of impact ratios, and why."""

    by: Words
    category: Words
    why: str | None = None


class ThresholdFields(DossierPart):
    """Limits that people declare: a ratio below the first, or a difference above the second, is beyond them."""

    ratio: float | None = setting(None, "the lowest ratio of rates that is within the threshold", gt=0)
    difference: float | None = setting(None, "the largest difference of rates that is within the threshold", ge=0, le=1)


class ProxyTableFields(DossierPart):
    """Files of the tables of a proxy, each with a column ``name`` and a column of probabilities per group."""

    surname: str = setting(..., "P(group | surname)")
    first_name: str | None = setting(None, "P(first name | group)")
    geography: str | None = setting(None, "P(place | group)")


class ProxyFields(DossierPart):
    """Columns by which groups are known by probability alone, where people's own categories are not recorded."""

    surname: str = setting(..., "column of surnames")
    first_name: str | None = setting(None, "column of first names")
    geography: str | None = setting(None, "column of places")
    tables: ProxyTableFields

    @model_validator(mode="after")
    def _require_tables(self) -> ProxyFields:
        for part in ("first_name", "geography"):
            if (getattr(self, part) is None) != (getattr(self.tables, part) is None):
                raise ValueError(f"{part} needs both a column and a table")
        return self


class DossierConfig(DossierPart):
    """Everything that a dossier needs beside the people: columns, categories, and what people must say."""

    system: SystemFields = SystemFields()
    auditor: AuditorFields = AuditorFields()
    audit: AuditFields = AuditFields()
    data: DataFields = DataFields()
    outcome: OutcomeFields
    attributes: dict[str, AttributeFields]
    unknown: Words = ("", "Unknown")
    exclude: tuple[ExclusionFields, ...] = ()
    reference: dict[str, Word] = {}
    strata: str | None = None
    thresholds: ThresholdFields = ThresholdFields()
    quantiles: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    proxy: ProxyFields | None = None

    @model_validator(mode="after")
    def _require_groups(self) -> DossierConfig:
        if not self.attributes and self.proxy is None:
            raise ValueError("there is nothing in attributes, and no proxy")
        return self


def read_dossier_config(path: str | Path) -> DossierConfig:
    """Read the configuration of a dossier from a YAML or TOML file.

    Raises:
        OptionError: the file cannot be read, or an entry is missing, unknown or makes no sense.
    """
    path = Path(path)
    entries = read_configuration(path, example="dossier.yaml", entries="outcome and attributes, at least")
    return check_dossier_config(entries, location=str(path))


def check_dossier_config(entries: Mapping[str, Any], *, location: str | None = None) -> DossierConfig:
    """Build the configuration of a dossier from its entries.

    Raises:
        OptionError: an entry is missing, unknown or invalid.
    """
    return check_configuration(
        lambda: DossierConfig.model_validate(entries),
        DossierConfig,
        location=location,
        hints={
            "outcome": "outcome: {column: selected, kind: selection}",
            "attributes": "attributes: {sex: {column: sex}}",
        },
    )


"""The entries at each place, for messages."""


TEMPLATE = """\
# Configuration of a dossier: {names}.
# An entry that is left empty is printed as "to be filled"; only outcome and attributes are needed for the tables.
system:
  name:                       # name of the system
  vendor:                     # who made it
  version:
  purpose:                    # what it is used for
  distribution_date:          # YYYY-MM-DD, the day from which it was distributed or used
  file:                       # the model's file or fingerprint, if it can be named
auditor:
  name:
  organisation:
  independence:               # why the auditor is independent of the system
audit:
  date:                       # YYYY-MM-DD
  owner:                      # who is responsible for it
data:
  kind: historical            # historical or test
  whose:                      # whose decisions these are
  period:                     # [first day, last day]
  obtained:                   # how and when the data was obtained
  explanation:                # what the data is
  why_test:                   # test data alone: why it is used
  how_made:                   # test data alone: how it was made
outcome:
  column: selected            # the column of DATA
  kind: selection             # selection: selected or not; score: a number; classes: a name
  # selected: [hired]         # values that mean selected; without it 1 is selected, 0 is rejected
  # rejected: [declined]      # values that mean rejected; not needed if the column has one other value
  # classes: [lead, analyst]  # for classes: their order
attributes:                   # a table for each, and for the first two crossed
  sex:
    column: sex
    categories:               # value in DATA: category; the order is that of the rows
      Male: Male
      Female: Female
  race_ethnicity:
    column: race_ethnicity
    categories:
      Hispanic or Latino: Hispanic or Latino
      White: White
      Black or African American: Black or African American
      Native Hawaiian or Pacific Islander: Native Hawaiian or Pacific Islander
      Asian: Asian
      Native American or Alaska Native: Native American or Alaska Native
      Two or more races: Two or more races
unknown: ["", Unknown]        # words that mean unknown, or no outcome; an empty cell always does
# exclude:                    # categories below 2 % that are left out of impact ratios, each with its reason
#   - {{by: [race_ethnicity], category: [Asian], why: the reason}}
{more}"""

TEMPLATE_MORE = """\
# reference: {sex: Male}      # declared reference categories; without it the highest rate
# strata: requisition         # a column within whose values people are compared
# thresholds: {ratio: 0.8, difference: 0.05}   # declared limits
# quantiles: [0.1, 0.5]       # of scores: shares selected from the top
"""


def write_template(names: tuple[str, ...]) -> str:
    """Write a configuration with every field that the dossiers can use, to be filled by a person."""
    return TEMPLATE.format(names=", ".join(names), more=TEMPLATE_MORE if set(names) - {"ll144"} else "")
