"""Tables of a dossier, by the formulas of the rules. Rates are compared in integers."""

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
"""Adjusted p-value below which a difference is significant."""

Category = tuple[str, ...]
"""Categories, one for each attribute of a table."""


class ImpactRatio(ResultPart):
    """Category in a table of Local Law 144.

    Attributes:
        category: One name per attribute.
        n: Number of people.
        k: Number of people who are selected, above the median, or in the class.
        rate: k / n.
        share: Share of the people in the table.
        share_of_assessed: Share of the people with an outcome.
        below_2_percent: Whether the category has less than 2 % of the people in the table, so that it may be excluded.
        status: ``in``, ``excluded``, ``empty`` (no people), ``no-highest`` (the highest rate is 0).
        ratio: Rate divided by the highest rate of the table.
        why: Reason for the exclusion.
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
    """Selection or scoring rates and impact ratios by one attribute, or by two jointly."""

    by: tuple[str, ...]
    counted: int
    unknown: int
    rows: tuple[ImpactRatio, ...]


class RateComparison(ResultPart):
    """Comparison of a category with the reference. Numbers that do not apply are None.

    Attributes:
        n, k: Number of people, and of selected people.
        rate: k / n.
        ratio: Rate divided by the rate of the reference.
        four_fifths: Comparison of 5 k n_r with 4 k_r n: below, at or above.
        difference: Rate of the reference minus the rate.
        odds_ratio: Odds ratio.
        z: Statistic of the pooled z-test.
        two_sd: Whether |z| > 2.
        fisher_p: p-value of Fisher's exact test.
        adjusted_p: p-value adjusted by Holm's method.
        significant: Whether the adjusted p-value is below 0.05.
        shortfall: Number of further selections required to reach the pooled rate.
        one_swap_clears, one_swap_reverses: Whether moving one selection from the reference to the category reaches four
            fifths, or reverses the order.
        swaps_to_four_fifths: Minimum number of such moves that reach four fifths.
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
    """Comparisons of all categories of a table with the reference, which is declared or has the highest rate."""

    by: tuple[str, ...]
    unknown: int
    reference: Category | None
    reference_picked: bool
    rows: tuple[RateComparison, ...]


class StratifiedComparison(ResultPart):
    """Comparison of a category with the reference within strata (see ``evenhand.stats.StratifiedOdds``)."""

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
    """Comparisons of all non-empty categories of a table with the reference, within strata."""

    by: tuple[str, ...]
    reference: Category | None
    rows: tuple[StratifiedComparison, ...]


class Crossing(NamedTuple):
    """Cells of a table.

    Attributes:
        by: Attributes.
        categories: Categories of the rows.
        cells: Row of each entry with an outcome, or -1 for an unknown category, shape (assessed,).
        counts: Number of people of each entry, shape (assessed,).
        n: Number of people by row.
        unknown: Number of people who belong to no row.
        reference: Row of the declared reference, if it has people. None selects the highest rate.
    """

    by: tuple[str, ...]
    categories: tuple[Category, ...]
    cells: Integers
    counts: Integers
    n: tuple[int, ...]
    unknown: int
    reference: int | None

    def count_rows(self, entries: Booleans) -> tuple[int, ...]:
        """Count the people of the selected entries in each row."""
        return tuple(_add_up(self.cells[entries] + 1, self.counts[entries], len(self.n) + 1)[1:].tolist())


def _add_up(codes: Integers, counts: Integers, size: int) -> Integers:
    """Count the people with each code, shape (size,)."""
    # Sums of integers below 2^53 are exact in double precision.
    return np.bincount(codes, weights=counts, minlength=size).astype(np.int64)


def cross_people(people: AssessedPeople, config: DossierConfig) -> tuple[Crossing, ...]:
    """Build the cells of all tables: one per attribute, and one for the first two attributes jointly.

    Raises:
        DossierError: The reference is not a category (``no-such-category``) or has no people (``empty-reference``).
    """
    names = tuple(config.attributes)
    declared = {name: _find_reference(people, name, category) for name, category in config.reference.items()}
    crossings, counts = [], people.counts[people.assessed]
    for by in [*((name,) for name in names), *([names[:2]] if len(names) > 1 else [])]:
        columns = [people.attributes[name] for name in by]
        cells = np.zeros(len(counts), dtype=np.int64)
        complete = np.ones(len(cells), dtype=bool)
        for column in columns:
            codes = column.codes[people.assessed]
            complete &= codes >= 0
            cells = cells * len(column.names) + codes
        cells = np.where(complete, cells, -1)
        categories = tuple(itertools.product(*(column.names for column in columns)))
        unknown, *n = _add_up(cells + 1, counts, len(categories) + 1).tolist()
        reference = None
        if set(by) <= set(declared):
            reference = categories.index(tuple(config.reference[name] for name in by))
            if not n[reference]:
                if len(by) == 1:
                    (name,) = by
                    message = f"no person is in the reference category {config.reference[name]!r}"
                    details = {"column": config.attributes[name].column, "category": config.reference[name]}
                    hint = "declare a category with people, or none"
                    raise DossierError(
                        message, code="empty-reference", location=f"reference.{name}", hint=hint, **details
                    )
                reference = None
        crossings.append(Crossing(by, categories, cells, counts, tuple(n), unknown, reference))
    return tuple(crossings)


def _find_reference(people: AssessedPeople, name: str, category: str) -> int:
    categories = people.attributes[name].names if name in people.attributes else ()
    if category not in categories:
        message = f"the reference {category!r} is not a category of {name}"
        hint = f"categories: {list_some(categories)}" if categories else f"attributes: {', '.join(people.attributes)}"
        details = {"column": name, "category": category}
        raise DossierError(message, code="no-such-category", location=f"reference.{name}", hint=hint, **details)
    return categories.index(category)


def find_exclusions(crossings: Sequence[Crossing], config: DossierConfig) -> dict[tuple[Category, Category], str]:
    """Return the reasons for categories that are excluded from impact ratios, by attributes and category.

    Raises:
        DossierError: An exclusion is invalid (``exclusion-without-reason``, ``no-such-category``,
            ``not-below-2-percent``).
    """
    reasons = {}
    for number, exclusion in enumerate(config.exclude):
        place = f"exclude[{number}]"
        name, details = " x ".join(exclusion.category), {"category": list(exclusion.category)}
        if not (exclusion.why or "").strip():
            message, hint = f"{name} is excluded without a reason", "add the reason: why: ..."
            raise DossierError(message, code="exclusion-without-reason", location=place, hint=hint, **details)
        table = _find_table(crossings, exclusion, place)
        n, counted = table.n[table.categories.index(exclusion.category)], sum(table.n)
        if 50 * n >= counted and n:
            message = (
                f"{name} has {n:,} of the {counted:,} people by {join_names(exclusion.by)}, which is not below 2 %"
            )
            hint = "remove the exclusion: only categories below 2 % may be excluded"
            raise DossierError(message, code="not-below-2-percent", location=place, hint=hint, **details)
        reasons[exclusion.by, exclusion.category] = str(exclusion.why).strip()
    return reasons


def _find_table(crossings: Sequence[Crossing], exclusion: ExclusionFields, place: str) -> Crossing:
    table = next((table for table in crossings if table.by == exclusion.by), None)
    if table is None or exclusion.category not in table.categories:
        message = f"there is no category {' x '.join(exclusion.category)} by {join_names(exclusion.by)}"
        options = table.categories if table is not None else tuple(table.by for table in crossings)
        hint = (
            f"{'categories' if table is not None else 'tables'}: {list_some([' x '.join(names) for names in options])}"
        )
        details = {"category": list(exclusion.category)}
        raise DossierError(message, code="no-such-category", location=place, hint=hint, **details)
    return table


def tabulate_impact_ratios(
    table: Crossing, selected: Booleans, exclusions: dict[tuple[Category, Category], str]
) -> ImpactRatios:
    """Compute rates and impact ratios: each rate divided by the highest rate of the categories that are not excluded.

    Args:
        table: Cells.
        selected: Whether each entry with an outcome is selected, shape (assessed,).
        exclusions: Reasons for exclusions, by attributes and category.
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
    """Compare all categories with the reference: the declared one, or that with the highest rate (ties: most people).

    Holm's adjustment is over the comparisons for a declared reference, otherwise over all pairs of categories.
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
    """Compare a category with the reference. Rates are compared in integers."""
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
    """Compare all non-empty categories with the reference within strata.

    Args:
        table: Cells.
        selected: Whether each entry with an outcome is selected, shape (assessed,).
        strata: Stratum of each entry, shape (assessed,).
        reference: Category that the others are compared with.
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
