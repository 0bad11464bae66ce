"""Result of a search: the profiles found, and the counterfactual flip rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evenhand.core.document import Document, SubjectCard
from evenhand.core.result import Result
from evenhand.core.typing import Integers
from evenhand.individual.flips import FlipRate
from evenhand.individual.result import Profile, describe_pair
from evenhand.individual.search.findings import ProfileTable
from evenhand.models.noise import NoiseCheck, RepeatCheck

if TYPE_CHECKING:
    import pandas as pd


class SearchResult(Result):
    """Profiles whose decision changes with a protected assignment.

    Attributes:
        method: Search method.
        protected: Attributes whose joint assignments were compared.
        counterparts: Whether the schema has rules or links, so that people were compared with plausible counterparts.
        profiles: Number of distinct profiles found. The model itself confirmed each of them.
        valid: Number of profiles in which every pair of values occurs together in the data. None without data.
        queries: Total number of individuals queried: during loading, for rates, in the search and for confirmation.
        rates: Counterfactual flip rates, the population first. Empty if a tenth of the budget does not cover a single
            individual per rate.
        examples: Profiles with the widest gaps between scores, plausible ones first.
        gaps: Number of profiles by gap between scores, in 20 equal bins from 0 to 1. Empty without findings.
        favoured: Number of profiles by protected value of the best treated assignment, such as ``sex Male``, if its
            label is favourable.
        interrupted: Whether an interrupt stopped the search, so that the result is incomplete.
        stopped_by: Reason why the search ended: its plan was complete, a limit, or an interrupt.
        asked: Source of the answers: the model, or its white box, which defers close decisions to the model. Labels and
            scores of all findings come from the model.
        noise: Result of the noise check (see ``models.check_noise``). None if it was not run.
        noise_test: Number of findings that repeat. Only these are reported. None for a deterministic model.
        caution: Caution about the queries.
        settings: Settings of the search.
        table: All profiles. Not part of the JSON.
    """

    chart = "search.draw_gaps"
    kind: Literal["individual"] = "individual"
    method: str
    protected: tuple[str, ...]
    counterparts: bool = False
    profiles: int
    valid: int | None
    queries: int
    rates: tuple[FlipRate, ...]
    examples: tuple[Profile, ...]
    gaps: tuple[int, ...] = ()
    favoured: dict[str, int] = Field(default_factory=dict)
    interrupted: bool = False
    stopped_by: Literal["plan", "budget", "time", "interrupt"]
    asked: Literal["model", "white box"] = "model"
    noise: NoiseCheck | None = None
    noise_test: RepeatCheck | None = None
    caution: str = ""
    settings: dict[str, Any]
    table: Any = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        """Compare all fields except the table of all profiles, which is not part of the JSON."""
        return isinstance(other, SearchResult) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]  # settings and table cannot be hashed

    @property
    def rate(self) -> FlipRate | None:
        """First of ``rates``, over the population. None if no rate was estimated."""
        return self.rates[0] if self.rates else None

    @property
    def plausible_means(self) -> str:
        """Definition of plausible profiles."""
        rules = "they obey the rules of the schema, and " if self.counterparts else ""
        return f"{rules}any two of their values occur together in the data"

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": tuple(example for example in self.examples if not example.real)}

    def _small_groups_hidden(self) -> dict[str, Any]:
        return {"table": None, **({} if self.valid is None else {"examples": ()})}

    def document(self, subject: SubjectCard | None = None) -> Document:
        """Build the document with the rates and the findings.

        Args:
            subject: Model and data, which are not part of the result.
        """
        return self._write_document("evenhand.individual.search.wording", subject)

    @property
    def shown_table(self) -> ProfileTable:
        """Profiles that may be shown. Only synthetic profiles if records of people are omitted."""
        assert isinstance(self.table, ProfileTable)
        return self.table[~self.table.real] if self.people_left_out else self.table

    def to_frame(self) -> pd.DataFrame:
        """Convert the profiles to a table, in the order they were found. After ``from_json``, only the examples.

        If records of people are omitted, it contains only synthetic profiles.

        Columns: the unprotected attributes; protected values, label and favourable score of the worst and the best
        treated assignment; gap; valid.
        """
        import pandas as pd

        if isinstance(self.table, ProfileTable):
            return self.shown_table.to_frame()
        return pd.DataFrame([example.row() | {"valid": example.valid} for example in self.examples])


def build_examples(table: ProfileTable, rows: Integers) -> tuple[Profile, ...]:
    """Build examples from the profiles at these positions (n,) of a table."""
    space, pairs = table.space, table.pairs.sides[rows]
    return tuple(
        describe_pair(
            space.schema,
            space.protected,
            side,
            [table.classes[label] for label in table.labels[row, pair]],
            table.favourable_scores[row, pair],
            valid=None if space.people is None else bool(table.valid[row]),
            real=bool(table.real[row]),
        )
        for row, pair, side in zip(rows.tolist(), pairs, space.sides(table.unprotected[rows], pairs), strict=True)
    )
