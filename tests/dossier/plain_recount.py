"""The tables once more, the plain way: people in lists, fractions, one loop per sentence of the rule."""

import itertools
import math
from fractions import Fraction

FOUR_FIFTHS = Fraction(4, 5)


def number(value):
    return None if value is None else float(value)


def fisher(k, n, k_r, n_r):
    """Sum the tables that are not likelier than the one seen."""
    m = k + k_r
    ways = {x: math.comb(n, x) * math.comb(n_r, m - x) for x in range(max(0, m - n_r), min(n, m) + 1)}
    return Fraction(sum(way for way in ways.values() if way <= ways[k]), math.comb(n + n_r, m))


def holm(tests):
    adjusted, worst = {}, Fraction(0)
    for rank, pair in enumerate(sorted(tests, key=tests.get)):
        worst = max(worst, (len(tests) - rank) * tests[pair])
        adjusted[pair] = min(worst, Fraction(1))
    return adjusted


def rows_by(people, by, categories):
    """Count the people of each category: who they are, and who of them is selected."""
    cells = {cell: [] for cell in itertools.product(*(categories[name] for name in by))}
    unknown = 0
    for person in people:
        cell = tuple(person[name] for name in by)
        if cell in cells:
            cells[cell].append(person)
        else:
            unknown += 1
    return cells, unknown


def impact_ratios(cells, selected):
    """Rate over highest rate, as tuples (n, k, rate, status, ratio)."""
    counts = {cell: (len(those), sum(map(selected, those))) for cell, those in cells.items()}
    highest = max((Fraction(k, n) for n, k in counts.values() if n), default=0)
    found = []
    for n, k in counts.values():
        status = "empty" if not n else "in" if highest else "no-highest"
        ratio = Fraction(k, n) / highest if status == "in" else None
        found.append((n, k, number(Fraction(k, n)) if n else None, status, number(ratio)))
    return found


def comparisons(cells, selected, declared):
    """Every category against the reference, as the reference and dictionaries of what was found."""
    counts = {cell: (sum(map(selected, those)), len(those)) for cell, those in cells.items()}
    filled = [cell for cell in cells if counts[cell][1]]
    reference = declared
    for cell in filled if declared is None else ():
        if reference is None:
            reference = cell
        (k, n), (k_r, n_r) = counts[cell], counts[reference]
        if (Fraction(k, n), n) > (Fraction(k_r, n_r), n_r):
            reference = cell
    pairs = [(one, other) for one, other in itertools.combinations(filled, 2)]
    if declared is not None:
        pairs = [(cell, declared) for cell in filled if cell != declared]
    exact = {pair: fisher(*counts[pair[0]], *counts[pair[1]]) for pair in pairs}
    adjusted = holm(exact)
    found = {}
    for cell in filled:
        if cell == reference:
            continue
        (k, n), (k_r, n_r) = counts[cell], counts[reference]
        pair = (cell, reference) if (cell, reference) in exact else (reference, cell)
        rate, rate_r, p = Fraction(k, n), Fraction(k_r, n_r), Fraction(k + k_r, n + n_r)
        ratio = rate / rate_r if k_r else None
        spread = p * (1 - p) * (Fraction(1, n) + Fraction(1, n_r))
        flag = None if ratio is None else "below" if ratio < FOUR_FIFTHS else "above" if ratio > FOUR_FIFTHS else "at"
        swaps = 0
        while flag == "below" and Fraction(k + swaps, n) < FOUR_FIFTHS * Fraction(k_r - swaps, n_r):
            swaps += 1
        z = float(rate - rate_r) / math.sqrt(spread) if spread else None
        found[cell] = {
            "ratio": number(ratio),
            "four_fifths": flag,
            "difference": number(rate_r - rate),
            "odds_ratio": number(Fraction(k * (n_r - k_r), (n - k) * k_r)) if (n - k) * k_r else None,
            "z": z,
            "two_sd": None if z is None else abs(z) > 2,
            "fisher_p": number(exact[pair]),
            "adjusted_p": number(adjusted[pair]),
            "significant": adjusted[pair] < Fraction(1, 20),
            "shortfall": number(n * p - k),
            "one_swap_clears": Fraction(k + 1, n) >= FOUR_FIFTHS * Fraction(k_r - 1, n_r) if flag == "below" else None,
            "one_swap_reverses": Fraction(k + 1, n) > Fraction(k_r - 1, n_r) if flag == "below" else None,
            "swaps_to_four_fifths": swaps if flag == "below" else None,
        }
    return reference, found


def stratified(cells, selected, reference, cell, stratum):
    """Mantel and Haenszel's odds ratio, rate ratio and test, in fractions."""
    odds_up = odds_down = rate_up = rate_down = excess = variance = Fraction(0)
    everybody = [person for those in cells.values() for person in those]
    for one in sorted({stratum(person) for person in everybody}):
        mine = [selected(person) for person in cells[cell] if stratum(person) == one]
        theirs = [selected(person) for person in cells[reference] if stratum(person) == one]
        if not mine or not theirs:
            continue
        a, b, c, d = sum(mine), len(mine) - sum(mine), sum(theirs), len(theirs) - sum(theirs)
        people = a + b + c + d
        odds_up, odds_down = odds_up + Fraction(a * d, people), odds_down + Fraction(b * c, people)
        rate_up += Fraction(a * (c + d), people)
        rate_down += Fraction(c * (a + b), people)
        excess += a - Fraction((a + b) * (a + c), people)
        variance += Fraction((a + b) * (c + d) * (a + c) * (b + d), people**2 * max(people - 1, 1))
    return {
        "odds_ratio": number(odds_up / odds_down) if odds_down else None,
        "rate_ratio": number(rate_up / rate_down) if rate_down else None,
        "z": float(excess) / math.sqrt(variance) if variance else None,
    }


def score_comparisons(cells, everybody, reference, quantiles):
    """Means, standardised differences and ratios at cuts, as dictionaries by cell and by quantile."""
    scores = {cell: [Fraction(str(person["score"])) for person in those] for cell, those in cells.items()}
    known = [score for those in scores.values() for score in those]
    middle = sum(known) / len(known)
    variance = sum((score - middle) ** 2 for score in known) / (len(known) - 1) if len(known) > 1 else Fraction(0)
    means = {cell: sum(those) / len(those) if those else None for cell, those in scores.items()}
    found = {
        cell: (
            number(mean),
            float(mean - means[reference]) / math.sqrt(variance) if mean is not None and variance else None,
        )
        for cell, mean in means.items()
    }
    ordered = sorted((Fraction(str(person["score"])) for person in everybody), reverse=True)
    cuts = []
    for q in quantiles:
        cut = ordered[math.ceil(Fraction(str(q)) * len(ordered)) - 1]
        reached = {cell: sum(score >= cut for score in those) for cell, those in scores.items()}
        base = Fraction(reached[reference], len(scores[reference]))
        ratios = {
            cell: number(Fraction(k, len(scores[cell])) / base) if scores[cell] and base else None
            for cell, k in reached.items()
        }
        cuts.append((float(cut), sum(score >= cut for score in ordered), reached, ratios))
    return found, cuts
