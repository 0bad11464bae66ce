"""Configuration of a dossier: system, audit, data and columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evenhand.core.config import check_configuration, setting
from evenhand.core.configuration import read_configuration
from evenhand.schema.table import outcome_key, word_of


def _as_text(value: Any) -> Any:
    """Convert a YAML value to the string in a table. ``1`` and ``"1"`` are equal."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else ""
    return str(value) if isinstance(value, int | float) else value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_mapping(value: Any) -> Any:
    """Convert categories to a mapping from values. A list contains values that are categories."""
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
    """Immutable part of the configuration of a dossier. Unknown entries are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SystemFields(DossierPart):
    """Audited system."""

    name: str | None = setting(None, "name of the system")
    vendor: str | None = setting(None, "vendor of the system")
    version: Word | None = setting(None, "version of the system")
    purpose: str | None = setting(None, "purpose of the system")
    distribution_date: dt.date | None = setting(None, "first day of distribution or use")
    file: str | None = setting(None, "name or fingerprint of the model file")


class AuditorFields(DossierPart):
    """Auditor."""

    name: str | None = setting(None, "name of the auditor")
    organisation: str | None = setting(None, "organisation of the auditor")
    independence: str | None = setting(None, "reason why the auditor is independent of the system")


class AuditFields(DossierPart):
    """Audit."""

    date: dt.date | None = setting(None, "date of the audit")
    owner: str | None = setting(None, "person responsible for the audit at the user")


class DataFields(DossierPart):
    """Source of the data."""

    kind: Literal["historical", "test"] | None = setting(None, "historical or test data")
    whose: str | None = setting(None, "owner of the data")
    period: tuple[dt.date, dt.date] | None = setting(None, "first and last day of the data")
    obtained: str | None = setting(None, "method and time of the data collection")
    explanation: str | None = setting(None, "description of the data, and its suitability")
    why_test: str | None = setting(None, "reason for using test data; only for test data")
    how_made: str | None = setting(None, "generation of the test data; only for test data")


class OutcomeFields(DossierPart):
    """Column of outcomes."""

    column: str
    kind: Literal["selection", "score", "classes"] = "selection"
    selected: Words = setting((), "values that mean selected; default: 1 means selected, 0 rejected")
    rejected: Words = setting((), "values that mean rejected; not needed if the column has one other value")
    classes: Words = setting((), "classes in the order of the tables; default: sorted classes of the data")

    @model_validator(mode="after")
    def _check_words(self) -> OutcomeFields:
        if both := {outcome_key(word) for word in self.selected} & {outcome_key(word) for word in self.rejected}:
            raise ValueError(f"{min(both)!r} is among both selected and rejected")
        keys = [outcome_key(word) for word in self.classes]
        if twice := [word for word, key in zip(self.classes, keys, strict=True) if keys.count(key) > 1]:
            raise ValueError(f"{twice[-1]!r} is listed twice")
        return self


class AttributeFields(DossierPart):
    """Column of an attribute, with the category of each value."""

    column: str
    categories: Annotated[dict[str, str] | None, BeforeValidator(_as_mapping)] = setting(
        None, "mapping from values to categories, in the order of the rows; default: sorted values of the data"
    )


class ExclusionFields(DossierPart):
    """Category that is excluded from impact ratios, and the reason."""

    by: Words
    category: Words
    why: str | None = None


class ThresholdFields(DossierPart):
    """Declared limits of ratios and differences."""

    ratio: float | None = setting(None, "minimum ratio of rates within the threshold", gt=0)
    difference: float | None = setting(None, "maximum difference of rates within the threshold", ge=0, le=1)


class ProxyTableFields(DossierPart):
    """Table files of a proxy, with a column ``name`` and a column of probabilities for each group."""

    surname: str = setting(..., "P(group | surname)")
    first_name: str | None = setting(None, "P(first name | group)")
    geography: str | None = setting(None, "P(place | group)")


class ProxyFields(DossierPart):
    """Columns that determine group probabilities, for people without recorded categories."""

    surname: str = setting(..., "column of surnames")
    first_name: str | None = setting(None, "column of first names")
    geography: str | None = setting(None, "column of places")
    tables: ProxyTableFields

    @model_validator(mode="after")
    def _require_tables(self) -> ProxyFields:
        for part in ("first_name", "geography"):
            if (getattr(self, part) is None) != (getattr(self.tables, part) is None):
                raise ValueError(f"{part} requires a column and a table")
        return self


class DossierConfig(DossierPart):
    """Configuration of a dossier: system, audit, data, columns and categories."""

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
            raise ValueError("attributes are empty, and there is no proxy")
        return self


def read_dossier_config(path: str | Path) -> DossierConfig:
    """Read the configuration of a dossier from a YAML or TOML file.

    Raises:
        OptionError: The file cannot be read, or an entry is missing, unknown or invalid.
    """
    path = Path(path)
    entries = read_configuration(path, example="dossier.yaml", entries="outcome and attributes, at least")
    return check_dossier_config(entries, location=str(path))


def check_dossier_config(entries: Mapping[str, Any], *, location: str | None = None) -> DossierConfig:
    """Build the configuration of a dossier from its entries.

    Raises:
        OptionError: An entry is missing, unknown or invalid.
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


TEMPLATE = """\
# Configuration of a dossier: {names}.
# Empty entries are printed as "to be filled"; the tables require only outcome and attributes.
system:
  name:                       # name of the system
  vendor:                     # vendor of the system
  version:
  purpose:                    # purpose of the system
  distribution_date:          # YYYY-MM-DD, first day of distribution or use
  file:                       # name or fingerprint of the model file
auditor:
  name:
  organisation:
  independence:               # reason why the auditor is independent
audit:
  date:                       # YYYY-MM-DD
  owner:                      # person responsible for the audit
data:
  kind: historical            # historical or test
  whose:                      # owner of the data
  period:                     # [first day, last day]
  obtained:                   # method and time of the data collection
  explanation:                # description of the data
  why_test:                   # only for test data: reason for using it
  how_made:                   # only for test data: its generation
outcome:
  column: selected            # column of DATA
  kind: selection             # selection: selected or not; score: a number; classes: a name
  # selected: [hired]         # values that mean selected; default: 1 means selected, 0 rejected
  # rejected: [declined]      # values that mean rejected; not needed if the column has one other value
  # classes: [lead, analyst]  # order of the classes
attributes:                   # one table each, and one for the first two jointly
  sex:
    column: sex
    categories:               # value in DATA: category, in the order of the rows
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
unknown: ["", Unknown]        # words that mean unknown or no outcome; empty cells always do
# exclude:                    # categories below 2 % excluded from impact ratios, with reasons
#   - {{by: [race_ethnicity], category: [Asian], why: the reason}}
{more}"""

TEMPLATE_MORE = """\
# reference: {sex: Male}      # declared reference categories; default: highest rate
# strata: requisition         # column whose values are the strata of comparisons
# thresholds: {ratio: 0.8, difference: 0.05}   # declared limits
# quantiles: [0.1, 0.5]       # of scores: shares selected from the top
"""


def write_template(names: tuple[str, ...]) -> str:
    """Write a configuration template with all fields of the dossiers."""
    return TEMPLATE.format(names=", ".join(names), more=TEMPLATE_MORE if set(names) - {"ll144"} else "")
