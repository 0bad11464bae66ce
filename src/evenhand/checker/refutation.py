"""Check refutations independently, in integer arithmetic.

A file claims that no rule of a family with a minimum number of correct decisions has a gap below a bound. It contains
counts of people by cell, group and true label, and a proof in parts. For each part and nonnegative multipliers lambda,
mu, kappa with ``sum mu <= 1``,

    lambda need - sum kappa limit
    + sum_c min over z_c of z_c (sum mu difference_c - lambda gain_c + sum kappa factor_c)

is a bound by weak duality. The parts fill the space because each split is complete. Each cut is checked (see
``_add_up``). No optimisation problem is solved, and nothing is rounded.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from operator import index
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from evenhand.checker.reading import CertificateError, reject_malformed
from evenhand.checker.result import float_below
from evenhand.core.document import Document, Facts, Note, Text
from evenhand.core.result import Result
from evenhand.errors import DataError, OptionError
from evenhand.schema.constraint import parse_constraint
from evenhand.schema.people import People

SCALE = 10**12
"""Multipliers are stored as integer multiples of 1 / ``SCALE``."""

ROUNDING = Fraction(1, 10**9)
"""Maximum error of the numbers of a witness, which are written in floating point."""

FAMILIES = ("any", "linear", "tree")
MOST_FILE = 2**28
"""Maximum size of a file in bytes."""


class RefutationCheck(Result):
    """Result of checking a refutation.

    Attributes:
        verdict: ``confirmed``: cells, proof and witness are correct. ``rejected``: see ``fault``.
        fault: Reason of the rejection.
        family, depth, accuracy, need, features, groups, decided: The statement: rules, accuracy floor, correct
            decisions that it requires, conditions, and the target with its favourable label. Compare it with the
            question.
        bound: Lower bound on the gap of every rule of the family, rounded down. None if no rule reaches the floor, or
            if the file is rejected.
        claimed: Bound that the file claims.
        people, cells, parts: Numbers of people, cells and parts of the proof.
        data_checked: Whether the counts were recomputed from the data.
    """

    kind: Literal["refutation-check"] = "refutation-check"
    verdict: Literal["confirmed", "rejected"]
    fault: str | None = None
    family: str | None = None
    depth: int | None = None
    accuracy: float | None = None
    need: int | None = None
    features: dict[str, str] = Field(default_factory=dict)
    groups: dict[str, str] = Field(default_factory=dict)
    decided: str | None = None
    bound: float | None = None
    claimed: float | None = None
    people: int = 0
    cells: int = 0
    parts: int = 0
    data_checked: bool = False

    def document(self) -> Document:
        """Build the report: verdict and checked parts."""
        if self.verdict == "rejected":
            note = Note(f"rejected: {self.fault}", "caution")
            return Document("Refutation rejected", "", (note,), brand="Evenhand check", made=self.provenance)
        limit = "" if self.bound is None else f" with a gap below {math.floor(self.bound * 10**6) / 10**6:.6f}"
        how = "all trees were enumerated" if not self.parts and self.family == "tree" else f"{self.parts:,}"
        counted = (
            "counted again in the data" if self.data_checked else "as the file states them, not compared with data"
        )
        family = {"any": "no decisions based on these features", "tree": f"no tree of depth {self.depth}"}.get(
            str(self.family), f"no {self.family} rule on these features"
        )
        facts = (
            ("accuracy floor", f"{self.accuracy}: {self.need:,} of {self.people:,} correct decisions"),
            ("decided", str(self.decided)),
            ("features", "; ".join(self.features.values())),
            ("groups", "; ".join(f"{name}: {text}" for name, text in self.groups.items())),
            ("cells", f"{self.cells:,}; people {counted}"),
            ("parts of the proof", how),
        )
        return Document(
            "Refutation confirmed",
            f"Among {self.people:,} people {family} reaches the floor{limit}, in exact arithmetic.",
            (Facts(facts), Text("The witness was counted again.")),
            brand="Evenhand check",
            made=self.provenance,
        )


def is_refutation(path: Path) -> bool:
    """Check whether a file looks like JSON, as refutations do."""
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False


def check_refutation(
    path: Path | str, *, people: Callable[[Mapping[str, Any]], People] | None = None
) -> RefutationCheck:
    """Check the claims of a refutation in exact arithmetic, without the code that produced it.

    Args:
        path: JSON file of a refutation.
        people: Function that reads the people from the data, given the content of the file. Default: the counts of the
            file are not compared with data.

    Raises:
        DataError: The file is not a refutation.
        EvenhandError: The people cannot be read.
    """
    started = time.perf_counter()
    content = _read(Path(path))
    claim: _Claim | None = None
    bound: Fraction | None = None
    try:
        claim = _understand(content)
        if people is not None:
            _count_again(claim, content, people(content))
        bound = _prove(claim)
        _check_claim(claim, bound)
        _check_witness(claim, content)
        _check_any_bound(claim, content)
    except CertificateError as fault:
        return RefutationCheck(
            verdict="rejected",
            fault=fault.message,
            family=str(content.get("family")),
            seed=0,
            seconds=time.perf_counter() - started,
        )
    return RefutationCheck(
        verdict="confirmed",
        family=claim.family,
        depth=claim.depth,
        accuracy=claim.accuracy,
        need=claim.need + claim.base,
        features={str(name): str(text) for name, text in content["features"].items()},
        groups={str(name): str(text) for name, text in content["groups"].items()},
        decided=f"{content.get('target')}, favourable: {content.get('favourable')}",
        bound=None if bound is None or bound > 1 else float_below(bound),
        claimed=claim.bound,
        people=claim.people,
        cells=len(claim.features),
        parts=len(claim.parts),
        data_checked=people is not None,
        seed=0,
        seconds=time.perf_counter() - started,
    )


class _Cut(NamedTuple):
    """``sum factor z <= limit``, and the difference of features that makes it valid."""

    terms: tuple[tuple[int, int], ...]
    limit: int
    difference: tuple[int, ...]


class _Claim(NamedTuple):
    """Claims of a file, in integers.

    ``gains`` and ``differences`` (in multiples of 1 / ``whole``) are the effects of accepting each cell; ``need`` is
    the required number of correct decisions beyond those of rejecting everyone.
    """

    family: str
    depth: int | None
    accuracy: float
    bound: float | None
    people: int
    need: int
    features: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[tuple[int, int], ...], ...]
    gains: list[int]
    differences: list[list[int]]
    whole: int
    cuts: tuple[_Cut, ...]
    parts: tuple[str, ...]

    @property
    def base(self) -> int:
        return sum(against for cell in self.counts for against, _ in cell)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > MOST_FILE:
            raise DataError("the file is too large for a refutation", location=str(path))
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", location=str(path)) from None
    except (ValueError, RecursionError):
        raise DataError("this is not JSON", location=str(path)) from None
    if not isinstance(content, dict) or content.get("kind") != "refutation":
        raise DataError("this holds no refutation", location=str(path), hint="pass the JSON file of a refutation")
    return content


@reject_malformed("the refutation")
def _understand(content: Mapping[str, Any]) -> _Claim:
    """Parse the claims of a file, and add up its counts."""
    family, depth = str(content["family"]), content["depth"]
    conditions = *content["features"].values(), *content["groups"].values()
    texts = content["target"], content["favourable"], *content["protected"], *conditions
    if not all(isinstance(text, str) for text in texts):
        raise CertificateError("target, favourable label, protected attributes and conditions must be texts")
    width, groups = len(content["features"]), len(content["groups"])
    features = tuple(tuple(map(int, cell["features"])) for cell in content["cells"])
    counts = tuple(tuple((index(no), index(yes)) for no, yes in cell["counts"]) for cell in content["cells"])
    accuracy, people, need = float(content["accuracy"]), index(content["people"]), index(content["need"])
    bound = None if content["bound"] is None else float(content["bound"])
    if bound is not None and not math.isfinite(bound):
        raise CertificateError(f"a bound must be finite, got {bound:g}")
    cuts, parts = list(content["proof"]["cuts"]), tuple(map(str, content["proof"]["parts"]))
    if family not in FAMILIES or (family == "tree" and depth not in (1, 2, 3)):
        raise CertificateError(f"there are no rules of family {family!r} and depth {depth!r}")
    if len(set(features)) < len(features) or any(len(row) != width or set(row) - {0, 1} for row in features):
        raise CertificateError("the cells are not different values of the features")
    if any(len(cell) != groups or min(min(pair) for pair in cell) < 0 for cell in counts) or groups < 2:
        raise CertificateError("the counts of a cell must cover at least two groups")
    sizes = [sum(sum(cell[group]) for cell in counts) for group in range(groups)]
    if sum(sizes) != people or min(sizes) < 1:
        raise CertificateError(f"the cells hold {sum(sizes):,} people, and the file says {people:,}")
    if not 0 < accuracy <= 1 or need != _count_needed(accuracy, people):
        raise CertificateError(f"an accuracy of {accuracy!r} does not equal {need:,} correct decisions of {people:,}")
    denominator = math.lcm(*sizes)
    shares = [[sum(cell[group]) * (denominator // sizes[group]) for cell in counts] for group in range(groups)]
    return _Claim(
        family=family,
        depth=None if depth is None else int(depth),
        accuracy=accuracy,
        bound=bound,
        people=people,
        need=need - sum(no for cell in counts for no, _ in cell),
        features=features,
        counts=counts,
        gains=[sum(yes - no for no, yes in cell) for cell in counts],
        differences=[[a - b for a, b in zip(*pair, strict=True)] for pair in itertools.permutations(shares, 2)],
        whole=denominator,
        cuts=tuple(_read_cut(cut, features) for cut in cuts),
        parts=parts,
    )


def _count_needed(accuracy: float, people: int) -> int:
    """Compute the smallest count with ``count / people >= accuracy``, the quotient rounded to float64."""
    count = math.ceil(Fraction(accuracy) * people)
    return count - 1 if (count - 1) / people >= accuracy else count


def _read_cut(text: str, features: Sequence[tuple[int, ...]]) -> _Cut:
    terms = []
    for term in text.split():
        cell, factor = map(int, term.split(":"))
        if not 0 <= cell < len(features) or factor == 0:
            raise CertificateError(f"the cut {text!r} refers to a cell that does not exist")
        terms.append((cell, factor))
    positive = sum(factor for _, factor in terms if factor > 0)
    if not terms or sum(factor for _, factor in terms) != 0 or len({cell for cell, _ in terms}) < len(terms):
        raise CertificateError(f"the factors of the cut {text!r} do not cancel")
    limit = positive - min(abs(factor) for _, factor in terms)
    width = range(len(features[0]))
    difference = tuple(sum(factor * features[cell][column] for cell, factor in terms) for column in width)
    return _Cut(tuple(terms), limit, difference)


# The proof, part by part.


class _Place(NamedTuple):
    """Region of a part: bounds of the weights, and cells that are rejected or accepted."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    fixed: Mapping[int, int]


def _prove(claim: _Claim) -> Fraction | None:
    """Compute the bound of the proof, above 1 if no rule reaches the floor; None if no decisions do."""
    if claim.need > sum(max(gain, 0) for gain in claim.gains):
        return None
    if not claim.parts:
        if claim.family != "tree":
            raise CertificateError("there is no proof")
        return None if claim.bound is None else Fraction(claim.bound)  # _check_claim enumerates the trees
    width = len(claim.features[0])
    waiting = [_Place((-1,) * width, (1,) * width, {})]
    lowest: Fraction | None = None
    for text in claim.parts:
        if not waiting:
            raise CertificateError("the proof continues after its last part")
        place = waiting.pop()
        try:
            kind, _, arguments = text.partition(" ")
            if kind == "bound":
                bound = _add_up(claim, place, arguments)
                lowest = bound if lowest is None else min(lowest, bound)
            elif kind == "weight" and claim.family == "linear":
                waiting += reversed(list(_split_weight(place, *map(int, arguments.split()))))
            elif kind == "cell" and claim.family == "linear":
                cell = int(arguments)
                if not 0 <= cell < len(claim.features) or cell in place.fixed:
                    raise CertificateError(f"a part is split along cell {cell}, which is decided or does not exist")
                waiting += [place._replace(fixed={**place.fixed, cell: end}) for end in (1, 0)]
            else:
                raise CertificateError(f"the part {text[:40]!r} is invalid for these rules")
        except (ValueError, TypeError, IndexError) as error:
            if isinstance(error, CertificateError):
                raise
            raise CertificateError(f"the part {text[:40]!r} of the proof cannot be read") from None
    if waiting or lowest is None:
        raise CertificateError("the proof leaves parts open")
    return lowest


def _split_weight(place: _Place, weight: int, at: int) -> Iterator[_Place]:
    """Yield the two halves of a part split along a weight: up to ``at``, which must be 0, and the rest."""
    if not 0 <= weight < len(place.low) or not place.low[weight] <= at <= place.high[weight] or at != 0:
        raise CertificateError(f"a part is split along weight {weight}, which does not exist")
    for low, high in ((place.low[weight], at), (at, place.high[weight])):
        ends = [list(place.low), list(place.high)]
        ends[0][weight], ends[1][weight] = low, high
        yield _Place(tuple(ends[0]), tuple(ends[1]), place.fixed)


def _add_up(claim: _Claim, place: _Place, text: str) -> Fraction:
    """Compute the bound of one part from its multipliers.

    A cut is valid in a part if all its weights w have ``w D <= 0`` for the cut's difference D: if all its positive
    cells were accepted and the others rejected, w D would be above 0.
    """
    floor_text, pairs_text, cuts_text = text.split(";")
    floor, pairs = int(floor_text), [int(factor_value) for factor_value in pairs_text.split()]
    if floor < 0 or len(pairs) != len(claim.differences) or min(pairs) < 0 or sum(pairs) > SCALE:
        raise CertificateError("multipliers are below 0, or those of the groups add up to more than 1")
    # Weak duality: with nonnegative multipliers, no decisions within the part have a gap below floor * need -
    # sum of (cut's multiplier * limit) + sum over cells of the minimum of price * decision, where each decision is
    # between 0 and 1 or fixed.
    price = [-floor * gain * claim.whole for gain in claim.gains]
    for share, differences in zip(pairs, claim.differences, strict=True):
        if share:
            for cell, difference in enumerate(differences):
                price[cell] += share * difference
    total = floor * claim.need * claim.whole
    for term in cuts_text.split():
        number, value = map(int, term.split(":"))
        if value < 0 or not 0 <= number < len(claim.cuts):
            raise CertificateError("the multiplier of a cut is below 0, or its cut does not exist")
        cut = claim.cuts[number]
        highest = sum(
            factor_value * (high if factor_value > 0 else low)
            for factor_value, low, high in zip(cut.difference, place.low, place.high, strict=True)
        )
        if claim.family != "linear" or highest > 0:
            raise CertificateError(f"cut {number} does not hold for all rules where the proof uses it")
        total -= value * cut.limit * claim.whole
        for cell, factor in cut.terms:
            price[cell] += value * factor * claim.whole
    for cell, factor_value in enumerate(price):
        total += factor_value * place.fixed[cell] if cell in place.fixed else min(0, factor_value)
    return Fraction(total, SCALE * claim.whole)


def _check_claim(claim: _Claim, bound: Fraction | None) -> None:
    """Compare the claimed bound with the proved one."""
    if bound is None and claim.need > sum(max(gain, 0) for gain in claim.gains):
        return  # no rule reaches the floor, so the claim holds
    if claim.parts:
        assert bound is not None
        if claim.bound is None and bound <= 1:
            raise CertificateError(
                f"it is claimed that no rule reaches the floor, but the proof only shows a gap of {float(bound):.6f}"
            )
        if claim.bound is not None and Fraction(claim.bound) > max(bound, Fraction(0)):
            raise CertificateError(f"a bound of {claim.bound:.9f} is claimed, but only {float(bound):.9f} is proved")
        return
    better = _find_tree(claim, claim.bound)
    if better:
        limit = "that reaches the floor" if claim.bound is None else f"with a gap below {claim.bound:.9f}"
        raise CertificateError(f"there is a tree {limit}")


@reject_malformed("the witness")
def _check_witness(claim: _Claim, content: Mapping[str, Any]) -> None:
    """Count the witness again."""
    witness = content.get("witness")
    if witness is None:
        return
    decisions = [Fraction(float(entry)) for entry in witness["decisions"]]
    if len(decisions) != len(claim.features) or not all(0 <= entry <= 1 for entry in decisions):
        raise CertificateError("the witness does not decide every cell")
    gained = (gain * entry for gain, entry in zip(claim.gains, decisions, strict=True))
    right = sum(gained, Fraction(claim.base))
    gap = max(
        sum((difference * entry for difference, entry in zip(row, decisions, strict=True)), Fraction(0))
        for row in claim.differences
    )
    slack, required = ROUNDING * claim.people, Fraction(claim.need + claim.base)
    if right < required - slack or abs(right - Fraction(float(witness["right"]))) > slack:
        raise CertificateError(f"the witness decides {float(right):,.1f} people correctly, fewer than required")
    if abs(gap / claim.whole - Fraction(float(witness["gap"]))) > ROUNDING:
        raise CertificateError(f"the witness has a gap of {float(gap / claim.whole):.9f}, not {witness['gap']}")
    if claim.family == "any":
        return
    if any(entry not in (0, 1) for entry in decisions):
        raise CertificateError("the witness is randomised, but rules of this family are deterministic")
    if claim.family == "tree":
        chosen = [_ask_tree(str(witness["tree"]), row, claim.depth or 0) for row in claim.features]
    else:
        weights, threshold = [Fraction(entry) for entry in witness["weights"]], Fraction(witness["threshold"])
        chosen = [
            sum(entry * has for entry, has in zip(weights, row, strict=True)) >= threshold for row in claim.features
        ]
    if [bool(entry) for entry in decisions] != chosen:
        raise CertificateError("the decisions of the witness differ from its weights or its tree")


def _ask_tree(text: str, row: tuple[int, ...], depth: int) -> bool:
    """Evaluate a tree, ``feature ? (holds) : (does not)``, for the features of a cell."""
    text = text.strip()
    if text in ("accept", "refuse"):
        return text == "accept"
    feature, _, branches = text.partition(" ? (")
    open_, at = 1, 0
    while open_:
        open_ += {"(": 1, ")": -1}.get(branches[at], 0)
        at += 1
    if depth < 1 or branches[at : at + 4] != " : (" or not branches.endswith(")"):
        raise CertificateError("the tree of the witness cannot be read, or is too deep")
    return _ask_tree(branches[: at - 1] if row[int(feature)] else branches[at + 4 : -1], row, depth - 1)


@reject_malformed("the bound for arbitrary decisions")
def _check_any_bound(claim: _Claim, content: Mapping[str, Any]) -> None:
    """Check the bound for arbitrary decisions."""
    if content.get("any_bound") is None:
        return
    anywhere = _Place((-1,) * len(claim.features[0]), (1,) * len(claim.features[0]), {})
    proof = str(content["proof"]["anything"]).removeprefix("bound ")
    bound = _add_up(claim._replace(family="any", cuts=()), anywhere, proof)
    if Fraction(float(content["any_bound"])) > max(bound, Fraction(0)):
        raise CertificateError(f"a bound of {content['any_bound']} for arbitrary decisions is not proved")


# Trees are enumerated completely.


def _find_tree(claim: _Claim, below: float | None) -> bool:
    """Check whether a tree reaches the floor with a gap below a number. None: any gap.

    Outcomes of branches are integers: correct decisions beyond those of rejecting everyone, and the difference of every
    pair of groups, in multiples of 1 / ``whole``.
    """
    steps = np.array([claim.gains, *claim.differences], dtype=object).T
    limit = None if below is None else math.ceil(Fraction(below) * claim.whole)
    features = np.array(claim.features)
    all_cells = np.ones(len(features), dtype=np.bool_)
    constant_rules = _outcomes(features, steps, all_cells, 0)
    if any(right >= claim.need and (limit is None or max(gaps) < limit) for right, *gaps in constant_rules):
        return True
    fits = max(abs(int(step)) for step in steps.ravel()) * len(features) < 2**62
    # The outcome of a tree is the sum of those of its two branches. The outcomes of one branch are sorted by correct
    # decisions, so that those that reach the floor with an outcome of the other come first.
    for feature in range(features.shape[1]):
        has = features[:, feature] == 1
        without, holding = (
            np.array(
                sorted(_outcomes(features, steps, members, (claim.depth or 1) - 1)), dtype=np.int64 if fits else object
            )
            for members in (~has, has)
        )
        holding = holding[np.argsort(holding[:, 0], kind="stable")[::-1]]
        for outcome_row in without[without[:, 0] + holding[0, 0] >= claim.need]:
            sums = holding[: np.searchsorted(-holding[:, 0], outcome_row[0] - claim.need, side="right")] + outcome_row
            if limit is None or bool(np.asarray(sums[:, 1:].max(axis=1) < limit, dtype=np.bool_).any()):
                return True
    return False


def _outcomes(features: Any, steps: Any, members: Any, depth: int) -> set[tuple[int, ...]]:
    """Enumerate the outcomes of branches of at most the given depth, for the people of some cells."""
    accepted = tuple(int(one) for one in steps[members].sum(axis=0)) if members.any() else (0,) * steps.shape[1]
    outcomes = {accepted, (0,) * steps.shape[1]}
    if depth > 0:
        for feature in range(features.shape[1]):
            has = features[:, feature] == 1
            parts = [_outcomes(features, steps, members & side, depth - 1) for side in (~has, has)]
            outcomes |= {tuple(a + b for a, b in zip(one, two, strict=True)) for one, two in itertools.product(*parts)}
    return outcomes


# The people, counted again.


def _count_again(claim: _Claim, content: Mapping[str, Any], people: People) -> None:
    """Count people by cell, group and true label."""
    rows, schema = people.individuals, people.schema
    if str(schema.target.favourable) != str(content.get("favourable")) or schema.target.name != content.get("target"):
        raise CertificateError("the data has a different target or favourable label")

    def column(text: str) -> Any:
        try:
            condition = parse_constraint(text, schema.attributes, location="the refutation")
        except OptionError as error:
            raise CertificateError(f"the condition {text!r} cannot be read: {error.message}") from None
        return condition.holds(rows) & ~np.isnan(rows[:, condition.columns]).any(axis=1)

    bits = np.stack([column(text) for text in content["features"].values()], axis=1).astype(int)
    member = np.stack([column(text) for text in content["groups"].values()], axis=1).astype(int)
    if len(rows) != claim.people or (member.sum(axis=1) != 1).any():
        raise CertificateError(f"the data has {len(rows):,} people, and not all of them are in the groups of the file")
    counted: dict[tuple[int, ...], list[list[int]]] = {}
    for row, group, label in zip(bits.tolist(), member.argmax(axis=1), people.favourable, strict=True):
        counted.setdefault(tuple(row), [[0, 0] for _ in content["groups"]])[group][int(label)] += 1
    stated = {row: [list(pair) for pair in cell] for row, cell in zip(claim.features, claim.counts, strict=True)}
    if counted != stated:
        wrong = next(row for row in {**counted, **stated} if counted.get(row) != stated.get(row))
        raise CertificateError(f"the counts in the data and in the file differ in cell {''.join(map(str, wrong))}")
