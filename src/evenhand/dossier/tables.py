"""The tables of a dossier, by the formulas of the rules: counted, and compared in whole numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.text import join_names, list_some
from evenhand.core.typing import Booleans, Integers
from evenhand.dossier.config import DossierConfig, ExclusionFields
from evenhand.dossier.people import AssessedPeople
from evenhand.errors import DossierError
from evenhand.stats.contingency import TwoRates, fisher_exact, mantel_haenszel, pooled_z
from evenhand.stats.permutation import holm

SIGNIFICANT = 0.05
"""Adjusted p-values below it are called significant."""

Category = tuple[str, ...]
"""A category of each attribute of a table."""


class ImpactRatio(ResultPart):
    """A category in a table of Local Law 144.

    Attributes:
        category: its name, or one name per attribute.
        n, k, rate: people counted; those selected, above the median, or in the class; k / n.
        share: of the people counted in the table; share_of_assessed: of everybody with an outcome.
        below_2_percent: whether it may be left out of the ratios: strictly below 2 % of the people counted.
        status: ``in``, ``excluded``, ``empty`` (no people), ``no-highest`` (the highest rate is 0).
        ratio: rate / highest rate of the table; why: the reason of an exclusion.
    """

    category: Category
    n: int
    k: int
    rate: float | None
    share: float | None
    share_of_assessed: float
    below_2_percent: bool
    status: Literal["in", "excluded", "empty", "no-highest"]
    ratio: float | None
    why: str | None


class ImpactRatios(ResultPart):
    """Selection or scoring rates and impact ratios by one attribute, or by two crossed."""

    by: tuple[str, ...]
    counted: int
    unknown: int
    rows: tuple[ImpactRatio, ...]


class RateComparison(ResultPart):
    """A category against the reference; what does not apply is None.

    Attributes:
        n, k, rate, ratio: people, selected, k / n, rate / reference's rate.
        four_fifths: whether 5 k n_r is below, at or above 4 k_r n.
        difference: the reference's rate minus this one.
        odds_ratio, z, fisher_p: the test without and with exact probabilities; two_sd: whether |z| > 2.
        adjusted_p: Holm's; significant: whether it is below 0.05.
        shortfall: selections that are missing to the pooled rate.
        one_swap_clears, one_swap_reverses: what one selection passed on by the reference would do.
        swaps_to_four_fifths: the fewest that reach four fifths.
    """

    category: Category
    n: int
    k: int
    rate: float | None
    ratio: float | None
    four_fifths: Literal["below", "at", "above"] | None = None
    difference: float | None = None
    odds_ratio: float | None = None
    z: float | None = None
    two_sd: bool | None = None
    fisher_p: float | None = None
    adjusted_p: float | None = None
    significant: bool | None = None
    shortfall: float | None = None
    one_swap_clears: bool | None = None
    one_swap_reverses: bool | None = None
    swaps_to_four_fifths: int | None = None


class RateComparisons(ResultPart):
    """Every category of a table against the reference, which the data picked or the user declared."""

    by: tuple[str, ...]
    unknown: int
    reference: Category | None
    reference_picked: bool
    rows: tuple[RateComparison, ...]


class StratifiedComparison(ResultPart):
    """A category against the reference within strata: see ``evenhand.stats.StratifiedOdds``."""

    category: Category
    strata: int
    informative: int
    odds_ratio: float | None
    odds_low: float | None
    odds_high: float | None
    rate_ratio: float | None
    z: float | None
    p: float | None
    homogeneity: float | None
    homogeneity_df: int | None
    homogeneity_p: float | None


class StratifiedComparisons(ResultPart):
    """Every category of a table with people against the reference, within strata."""

    by: tuple[str, ...]
    reference: Category | None
    rows: tuple[StratifiedComparison, ...]


class Crossing(NamedTuple):
    """The cells of one table.

    Attributes:
        by: its attributes; categories: its rows.
        cells: the row of each entry with an outcome, shape (assessed,); -1 where a category is unknown.
        counts: people that each of these entries stands for, shape (assessed,).
        n: people by row; unknown: those in no row.
        reference: the row that is declared to be compared with, if it has people; None: the data picks.
    """

    by: tuple[str, ...]
    categories: tuple[Category, ...]
    cells: Integers
    counts: Integers
    n: tuple[int, ...]
    unknown: int
    reference: int | None

    def count_rows(self, who: Booleans) -> tuple[int, ...]:
        """Return how many people of some entries there are in each row."""
        return tuple(_add_up(self.cells[who] + 1, self.counts[who], len(self.n) + 1)[1:].tolist())


def _add_up(codes: Integers, counts: Integers, size: int) -> Integers:
    """Return how many people there are of each code, shape (size,)."""
    # Whole numbers below 2^53, which doubles add up exactly.
    return np.bincount(codes, weights=counts, minlength=size).astype(np.int64)


def cross_people(people: AssessedPeople, config: DossierConfig) -> tuple[Crossing, ...]:
    """Return the tables of a dossier: one per attribute, and the first two crossed.

    Raises:
        DossierError: no-such-category, empty-reference: the reference is not among the categories, or has no people.
    """
    names = tuple(config.attributes)
    declared = {name: _find_reference(people, name, category) for name, category in config.reference.items()}
    crossings, counts = [], people.counts[people.assessed]
    for by in [*((name,) for name in names), *([names[:2]] if len(names) > 1 else [])]:
        columns = [people.attributes[name] for name in by]
        cells = np.zeros(len(counts), dtype=np.int64)
        known = np.ones(len(cells), dtype=bool)
        for column in columns:
            codes = column.codes[people.assessed]
            known &= codes >= 0
            cells = cells * len(column.names) + codes
        cells = np.where(known, cells, -1)
        categories = tuple(itertools.product(*(column.names for column in columns)))
        unknown, *n = _add_up(cells + 1, counts, len(categories) + 1).tolist()
        reference = None
        if set(by) <= set(declared):
            reference = categories.index(tuple(config.reference[name] for name in by))
            if not n[reference]:
                if len(by) == 1:
                    (name,) = by
                    message = f"no person is in the reference category {config.reference[name]!r}"
                    given = {"column": config.attributes[name].column, "category": config.reference[name]}
                    hint = "declare a category that has people, or none"
                    raise DossierError(
                        message, code="empty-reference", location=f"reference.{name}", hint=hint, **given
                    )
                reference = None
        crossings.append(Crossing(by, categories, cells, counts, tuple(n), unknown, reference))
    return tuple(crossings)


def _find_reference(people: AssessedPeople, name: str, category: str) -> int:
    known = people.attributes[name].names if name in people.attributes else ()
    if category not in known:
        message = f"the reference {category!r} is not a category of {name}"
        hint = f"categories: {list_some(known)}" if known else f"attributes: {', '.join(people.attributes)}"
        given = {"column": name, "category": category}
        raise DossierError(message, code="no-such-category", location=f"reference.{name}", hint=hint, **given)
    return known.index(category)


def find_exclusions(crossings: Sequence[Crossing], config: DossierConfig) -> dict[tuple[Category, Category], str]:
    """Return why categories are left out of impact ratios, by attributes and category.

    Raises:
        DossierError: exclusion-without-reason, no-such-category, not-below-2-percent.
    """
    found = {}
    for number, one in enumerate(config.exclude):
        place = f"exclude[{number}]"
        name = " x ".join(one.category)
        if not (one.why or "").strip():
            message, hint = f"{name} is excluded without a reason", "write it: why: ..."
            given = {"category": list(one.category)}
            raise DossierError(message, code="exclusion-without-reason", location=place, hint=hint, **given)
        table = _find_table(crossings, one, place)
        n, counted = table.n[table.categories.index(one.category)], sum(table.n)
        if 50 * n >= counted and n:
            message = (
                f"{name} has {n:,} of the {counted:,} people counted by {join_names(one.by)}, which is not below 2 %"
            )
            hint = "only categories below 2 % may be excluded; leave this one in"
            given = {"category": list(one.category)}
            raise DossierError(message, code="not-below-2-percent", location=place, hint=hint, **given)
        found[one.by, one.category] = str(one.why).strip()
    return found


def _find_table(crossings: Sequence[Crossing], one: ExclusionFields, place: str) -> Crossing:
    table = next((table for table in crossings if table.by == one.by), None)
    if table is None or one.category not in table.categories:
        message = f"there is no category {' x '.join(one.category)} by {join_names(one.by)}"
        known = table.categories if table is not None else tuple(table.by for table in crossings)
        hint = f"{'categories' if table is not None else 'tables'}: {list_some([' x '.join(each) for each in known])}"
        given = {"category": list(one.category)}
        raise DossierError(message, code="no-such-category", location=place, hint=hint, **given)
    return table


def tabulate_impact_ratios(
    table: Crossing, selected: Booleans, exclusions: dict[tuple[Category, Category], str]
) -> ImpactRatios:
    """Return rates and impact ratios: each rate over the highest of the table, of the categories that are not excluded.

    Args:
        table: the cells.
        selected: which entries with an outcome count, shape (assessed,).
        exclusions: why categories are left out, by attributes and category.
    """
    k, counted, assessed = table.count_rows(selected), sum(table.n), int(table.counts.sum())
    why = [exclusions.get((table.by, category)) for category in table.categories]
    rates = [Fraction(k[i], n) for i, n in enumerate(table.n) if n and why[i] is None]
    highest = max(rates, default=Fraction(0))
    rows = []
    for i, (category, n) in enumerate(zip(table.categories, table.n, strict=True)):
        status: Literal["in", "excluded", "empty", "no-highest"] = "in" if highest else "no-highest"
        status = "empty" if not n else "excluded" if why[i] is not None else status
        rows.append(
            ImpactRatio(
                category=category,
                n=n,
                k=k[i],
                rate=k[i] / n if n else None,
                share=n / counted if counted else None,
                share_of_assessed=n / assessed,
                below_2_percent=0 < 50 * n < counted,
                status=status,
                ratio=float(Fraction(k[i], n) / highest) if status == "in" else None,
                why=why[i] if status == "excluded" else None,
            )
        )
    return ImpactRatios(by=table.by, counted=counted, unknown=table.unknown, rows=tuple(rows))


def compare_rates(table: Crossing, selected: Booleans) -> RateComparisons:
    """Return every category against the reference: the declared one, or that of the highest rate (ties: most people).

    Holm's adjustment is over all pairs of categories if the data picked the reference, else over the comparisons.
    """
    k, n = table.count_rows(selected), table.n
    filled = [i for i, people in enumerate(n) if people]
    reference = table.reference
    if reference is None and filled:
        reference = max(filled, key=lambda i: (Fraction(k[i], n[i]), n[i], -i))
    pairs = list(itertools.combinations(filled, 2))
    if table.reference is not None:
        pairs = [(i, table.reference) for i in filled if i != table.reference]
    exact = {pair: fisher_exact(TwoRates(k[pair[0]], n[pair[0]], k[pair[1]], n[pair[1]])) for pair in pairs}
    adjusted = dict(zip(exact, holm(list(exact.values())).tolist(), strict=True))
    rows = []
    for i, category in enumerate(table.categories):
        if reference is None or i == reference or not n[i]:
            rate = k[i] / n[i] if n[i] else None
            ratio = 1.0 if i == reference and k[i] else None
            rows.append(RateComparison(category=category, n=n[i], k=k[i], rate=rate, ratio=ratio))
            continue
        pair = (i, reference) if (i, reference) in exact else (reference, i)
        rates = TwoRates(k[i], n[i], k[reference], n[reference])
        rows.append(_compare_rate(category, rates, exact[pair], adjusted[pair]))
    return RateComparisons(
        by=table.by,
        unknown=table.unknown,
        reference=None if reference is None else table.categories[reference],
        reference_picked=table.reference is None,
        rows=tuple(rows),
    )


def _compare_rate(category: Category, rates: TwoRates, exact: float, adjusted: float) -> RateComparison:
    """Return a category against the reference; every comparison of rates is one of whole numbers."""
    k, n, k_r, n_r = rates
    left, right = 5 * k * n_r, 4 * k_r * n
    four_fifths: Literal["below", "at", "above"] | None = None
    if k_r:
        four_fifths = "below" if left < right else "at" if left == right else "above"
    below = four_fifths == "below"
    z = pooled_z(rates)
    against = (n - k) * k_r
    return RateComparison(
        category=category,
        n=n,
        k=k,
        rate=k / n,
        ratio=k * n_r / (n * k_r) if k_r else None,
        four_fifths=four_fifths,
        difference=(k_r * n - k * n_r) / (n * n_r),
        odds_ratio=k * (n_r - k_r) / against if against else None,
        z=z,
        two_sd=None if z is None else abs(z) > 2,
        fisher_p=exact,
        adjusted_p=adjusted,
        significant=adjusted < SIGNIFICANT,
        shortfall=(n * k_r - k * n_r) / (n + n_r),
        one_swap_clears=5 * (k + 1) * n_r >= 4 * (k_r - 1) * n if below else None,
        one_swap_reverses=(k + 1) * n_r > (k_r - 1) * n if below else None,
        # 5 (k + s) n_r >= 4 (k_r - s) n, solved for s and rounded up.
        swaps_to_four_fifths=-((left - right) // (5 * n_r + 4 * n)) if below else None,
    )


def compare_within_strata(
    table: Crossing, selected: Booleans, strata: Integers, reference: Category | None
) -> StratifiedComparisons:
    """Return every category with people against the reference, within strata.

    Args:
        table: the cells.
        selected: which entries with an outcome count; strata: the stratum of each, shape (assessed,).
        reference: the category that the others are compared with.
    """
    width, number = len(table.n) + 1, int(strata.max()) + 1
    cells = strata * width + table.cells + 1
    n = _add_up(cells, table.counts, width * number).reshape(number, width)[:, 1:]
    k = _add_up(cells[selected], table.counts[selected], width * number).reshape(number, width)[:, 1:]
    present = n.sum(axis=1) > 0
    n, k = n[present], k[present]
    return StratifiedComparisons(by=table.by, reference=reference, rows=tuple(_stratify(table, n, k, reference)))


def _stratify(table: Crossing, n: Integers, k: Integers, reference: Category | None) -> Iterator[StratifiedComparison]:
    if reference is None:
        return
    r = table.categories.index(reference)
    for i, category in enumerate(table.categories):
        if i != r and table.n[i]:
            counts = np.column_stack([k[:, i], n[:, i], k[:, r], n[:, r]])
            rates = [TwoRates(*row) for row in counts.tolist()]
            yield StratifiedComparison(category=category, **mantel_haenszel(rates)._asdict())
