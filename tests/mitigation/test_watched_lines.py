"""Which lines stand in a comparison, and on whom each is counted."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from mitigate_cases import Decider

from evenhand.errors import OptionError
from evenhand.groups.config import SMALL
from evenhand.mitigation import MitigationConfig
from evenhand.mitigation import comparison as comparing
from evenhand.mitigation.candidate import Candidate
from evenhand.mitigation.comparison_lines import ComparisonSides, ModelDecisions
from evenhand.mitigation.gap_lines import compare_groups, compare_subgroup, expected_pairs
from evenhand.mitigation.metrics import FlipMetric, SubgroupGapMetric
from evenhand.mitigation.result import CandidateResult, Change, ComparisonLine
from evenhand.mitigation.split import Split
from evenhand.schema import People
from evenhand.stats import Observed
from evenhand.stats.paired import PairedCells, change_of_largest
from support import small_schema

SCHEMA = small_schema(target="credit", skill=(0, 99), sex="female male *", region="a b c d e f *")


def people(n, seed):
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, 100, n), rng.integers(0, 2, n), rng.integers(0, 6, n)], axis=1).astype(float)
    return People(SCHEMA, rows, (rows[:, 0] + rng.normal(0, 20, n) > 50).astype(np.int64), np.arange(n), None)


def model(against=()):
    """Skill decides; these regions need more of it, by so much."""
    return Decider(SCHEMA, lambda x: x[:, 0] / 100 - sum(width * (x[:, 2] == place) for place, width in against))


@pytest.fixture
def unsearched(monkeypatch):
    def refuse(*given, **options):
        raise OptionError("not now")

    monkeypatch.setattr(comparing.subgroups, "find_subgroups", refuse)


def comparison(harms, given=None, n=400):
    parts = Split(*(people(n, seed) for seed in range(3)))
    return comparing.Baseline(given or model(), parts, tuple(harms), MitigationConfig(certify_effort=0))


def sides_of(before, after, test, chosen):
    decided = [(before, test), (after, test), (before, chosen), (after, chosen)]
    return ComparisonSides(*(ModelDecisions(*one) for one in decided), 0.95)


def test_what_was_asked_about_stands_there_once(unsearched):
    made = comparison((FlipMetric(("region",)),))
    new = Candidate("made", "a model", model([(0, 0.2)]), lambda path: ())
    found = comparing.compare_candidate(made, new, lambda what, done: None)
    keys = [(line.name, line.of) for line in found.lines]
    assert len(keys) == len(set(keys))
    assert [line.part for line in found.lines if (line.name, line.of) == ("flip_rate", "region")] == ["asked"]


def test_watched_are_those_that_grew_most_and_no_two_of_the_same_people(unsearched):
    made = comparison((SubgroupGapMetric({"region": ("f",)}),), n=3000)
    after = model([(0, 0.1), (1, 0.5), (2, 0.3), (3, 0.2), (5, 0.4)])
    sides = sides_of(model(), after, made.split.test, made.split.validation)
    rules = [{"region": (place,)} for place in "abcdef"]
    rules.insert(3, {"region": tuple("acdef")})  # everybody but those of b
    found = SimpleNamespace(findings=[SimpleNamespace(rules=one) for one in rules])
    watched = [finding.rules for finding in comparing.widened_findings(found, sides, made.harms)]
    grown = {}
    for place in "abcde":
        inside = made.split.validation.individuals[:, 2] == "abcdef".index(place)
        gap = [
            abs(side.favourable_decisions[inside].mean() - side.favourable_decisions[~inside].mean())
            for side in (sides.before_validation, sides.after_validation)
        ]
        grown[place] = gap[1] - gap[0]
    order = sorted((place for place in grown if grown[place] > 0), key=lambda place: -grown[place])
    assert order[0] == "b"
    assert watched[0] in ({"region": ("b",)}, {"region": tuple("acdef")})
    assert watched[1:] == [{"region": (place,)} for place in order[1:3]]


def test_what_was_asked_about_and_performance_do_not_move():
    number = Observed(value=0.2, n=9, low=0.1, high=0.3, confidence=0.95, method="")
    change = Change(value=0.1, low=0.05, high=0.2, confidence=0.99, n=9, method="")

    def line(part, verdict):
        sides = {"before": number, "after": number, "change": change, "better_if": "down"}
        return ComparisonLine(part=part, name="x", of="", words=part, verdict=verdict, **sides)

    made = [line(part, "worse") for part in ("performance", "asked", "groups", "individuals", "subgroups", "proof")]
    made.append(line("groups", "better"))
    assert CandidateResult(method="m", words="w", lines=tuple(made)).regressions == made[2:6]


@pytest.mark.parametrize("name", ["equal_opportunity_difference", "equalized_odds_difference"])
def test_gaps_by_true_labels_are_bounded_over_the_right_people(name):
    test, chosen = people(500, 5), people(500, 6)
    before, after = model([(1, 0.4), (4, 0.2)]), model([(2, 0.3), (0, -0.3)])
    drafts, _ = compare_groups(sides_of(before, after, test, chosen), [("region",)])
    (draft,) = [one for one in drafts if one.line.name == name]
    tables = []
    for part in (test, chosen):
        region = part.individuals[:, 2].astype(int)
        answers = [one.predict(part.individuals).astype(bool) for one in (before, after)]
        # Cells 0 to 5: those who deserve it, by region; 6 to 11: those who do not.
        tables.append(PairedCells.count(np.where(part.favourable, region, 6 + region), *answers, 12))
    pairs = list(itertools.combinations(range(6), 2))
    if name == "equalized_odds_difference":
        pairs += list(itertools.combinations(range(6, 12), 2))
    bounds = change_of_largest(tables[0], pairs, expected_pairs(tables[1], np.array(pairs)), 0.99)
    change = draft.change(0.99)
    assert (change.low, change.high) == pytest.approx(bounds)
    assert change.n == (500 if len(pairs) > 15 else test.favourable.sum())


@pytest.mark.parametrize("few", [SMALL - 1, SMALL])
def test_groups_too_small_take_no_part(few):
    rows = np.zeros((few + 200, 3))
    rows[:, 0] = np.arange(len(rows)) % 100
    rows[few:, 2] = 1 + np.arange(200) % 2
    labels = (rows[:, 0] > 50).astype(np.int64)
    test = People(SCHEMA, rows, labels, np.arange(len(rows)), None)
    drafts, _ = compare_groups(sides_of(model(), model([(0, 0.3)]), test, people(300, 1)), [("region",)])
    (draft,) = [one for one in drafts if one.line.name == "demographic_parity_difference"]
    assert draft.change(0.95).n == (len(rows) if few == SMALL else 200)


def test_which_side_a_subgroup_is_on_is_not_chosen_on_the_people_test_data():
    test, chosen = people(400, 7), people(400, 8)
    before, after = model([(0, -0.3)]), model([(0, 0.3)])
    # Among the people chosen on, the models are the other way round.
    decided = [(before, test), (after, test), (after, chosen), (before, chosen)]
    sides = ComparisonSides(*(ModelDecisions(*one) for one in decided), 0.95)
    inside = (test.individuals[:, 2] == 0).astype(int)
    cells = PairedCells.count(inside, sides.before.favourable_decisions, sides.after.favourable_decisions, 2)
    change = compare_subgroup("asked", {"region": ("a",)}, "region a", sides).change(0.95)
    # Position 0 is inside minus outside, 1 the other way round: chosen on, those inside are refused first.
    assert (change.low, change.high) == change_of_largest(cells, [(1, 0)], (1, 0), 0.95)
    assert (change.low, change.high) != change_of_largest(cells, [(1, 0)], (0, 1), 0.95)
