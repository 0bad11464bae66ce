"""Two audits compared: by hand, against people counted one by one, at every way of being related, and by coverage."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand
from evenhand.auditing import AuditResult, compare_audits, parse_gate
from evenhand.auditing.gates.conditions import measure_values
from evenhand.errors import DataError, OptionError
from evenhand.stats import bonferroni, difference_interval, paired_difference
from evenhand.stats.proportion import smallest_ratio_of_proportions
from support import scaled

LENIENT = {"min_group_size": 1}


def audit(decided, sex, truth=None, *, keep=True, **settings):
    return evenhand.audit_predictions(
        decided, y_true=truth, sensitive_features={"sex": sex}, keep_decisions=keep, favourable=1, **settings
    )


SEX = ["F"] * 100 + ["M"] * 100
TRUTH = ([1] * 50 + [0] * 50) * 2
BEFORE = [1] * 20 + [0] * 80 + [1] * 60 + [0] * 40
AFTER = [1] * 40 + [0] * 60 + [1] * 55 + [0] * 45


def test_a_comparison_by_hand():
    found = compare_audits(audit(BEFORE, SEX, TRUTH), audit(AFTER, SEX, TRUTH))
    assert found.pairing == "paired"
    line = found.line("selection_rate", "sex", "F")
    assert (line.before.value, line.after.value) == (0.2, 0.4)
    assert line.change.value == pytest.approx(0.2)
    # 2 of everybody, 3 gaps and a ratio, 2 for each of 2 groups: 10 changes. 20 of 100 women gained, none lost.
    assert found.comparisons == 10
    assert (line.change.low, line.change.high) == pytest.approx(paired_difference(20, 0, 100, bonferroni(0.95, 10)))
    assert line.verdict == "higher"
    gap = found.line("demographic_parity_difference", "sex")
    assert gap.change.value == pytest.approx(0.15 - 0.4)
    assert gap.verdict == "better"
    ratio = found.line("demographic_parity_ratio", "sex")
    assert ratio.change.value == pytest.approx(40 / 55 - 20 / 60)
    both = bonferroni(bonferroni(0.95, 10), 2)
    (low1, high1), (low2, high2) = (
        smallest_ratio_of_proportions(np.array(k), np.array([100, 100]), both) for k in ([20, 60], [40, 55])
    )
    assert (ratio.change.low, ratio.change.high) == pytest.approx((low2 - high1, high2 - low1))
    assert (ratio.pairing, ratio.verdict) == ("same people", "no clear change" if low2 <= high1 else "better")
    # Right decisions: of women 20 + 50 before, 40 + 50 after; of men 50 + 40 before, 50 + 45 after.
    accuracy = found.line("accuracy")
    assert (accuracy.before.value, accuracy.after.value) == (0.8, 0.925)
    assert (accuracy.change.low, accuracy.change.high) == pytest.approx(
        paired_difference(25, 0, 200, bonferroni(0.95, 10))
    )
    assert found.count("worse") == 0
    assert AuditResult.from_json(audit(BEFORE, SEX).to_json()).groups.kept is not None
    assert type(found).from_json(found.to_json()) == found


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=scaled(40), deadline=None)
def test_paired_counts_are_those_of_people_counted_one_by_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 90))
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "race": rng.choice(["A", "B", "C"], n)})
    truth, first, second = [0, 1, *rng.integers(0, 2, n - 2)], *rng.integers(0, 2, (2, n))
    truth = np.array(truth)
    both = [
        evenhand.audit_predictions(
            decided, y_true=truth, sensitive_features=frame, favourable=1, keep_decisions=True, **LENIENT
        )
        for decided in (first, second)
    ]
    found = compare_audits(*both)
    assert found.pairing == "paired"
    level = bonferroni(0.95, found.comparisons)
    for line in found.lines:
        if line.name in (
            "demographic_parity_ratio",
            "demographic_parity_difference",
            "equal_opportunity_difference",
            "accuracy_difference",
        ):
            continue
        chosen = np.ones(n, dtype=bool) if not line.by else (frame[line.by] == line.group).to_numpy()
        one, other = (first == truth, second == truth) if line.name == "accuracy" else (first == 1, second == 1)
        if line.name == "true_positive_rate":
            chosen = chosen & (truth == 1)
        gained, lost = (other & ~one & chosen).sum(), (one & ~other & chosen).sum()
        if line.change.kind == "unknown":
            assert not chosen.any()
            continue
        assert line.change.value == pytest.approx((gained - lost) / chosen.sum())
        expected = paired_difference(int(gained), int(lost), int(chosen.sum()), level)
        assert (line.change.low, line.change.high) == pytest.approx(
            (min(expected[0], line.change.value), max(expected[1], line.change.value))
        )


def test_other_people_are_compared_as_two_samples():
    before, after = audit(BEFORE, SEX), audit(AFTER[::-1], SEX[::-1])
    found = compare_audits(before, after)
    assert found.pairing == "unpaired"
    line = found.line("selection_rate", "sex", "F")
    level = bonferroni(0.95, found.comparisons)
    assert (line.change.low, line.change.high) == pytest.approx(difference_interval(40, 100, 20, 100, level))


def test_the_same_people_without_their_decisions_are_not_paired_and_told_so():
    kept = compare_audits(audit(BEFORE, SEX), audit(AFTER, SEX))
    found = compare_audits(audit(BEFORE, SEX, keep=False), audit(AFTER, SEX))
    assert found.pairing == "same people"
    wide, short = (one.line("selection_rate", "sex", "F").change for one in (found, kept))
    assert wide.low < short.low < short.high < wide.high
    assert "--keep-decisions" in found.to_markdown()


def test_what_is_kept_holds_no_attribute_of_a_single_person():
    one, turned = audit(BEFORE, SEX), audit(BEFORE[100:] + BEFORE[:100], SEX[100:] + SEX[:100])
    assert one.groups.kept == turned.groups.kept  # the order within a cell alone is kept
    assert one.groups.people_fingerprint != turned.groups.people_fingerprint
    assert audit(BEFORE, SEX, keep=False).groups.kept is None


def test_nothing_changed():
    same = audit(BEFORE, SEX, TRUTH)
    found = compare_audits(same, same)
    assert {line.verdict for line in found.lines} == {"no clear change"}
    assert all(line.change.value == 0 for line in found.lines)


def test_what_only_one_audit_has_is_named():
    more = evenhand.audit_predictions(
        AFTER, sensitive_features={"sex": SEX, "race": ["A", "B"] * 100}, favourable=1, keep_decisions=True
    )
    found = compare_audits(audit(BEFORE, SEX, TRUTH), more)
    assert "accuracy: only one audit has true labels" in found.left_out
    assert "race: only in the second audit" in found.left_out
    small = audit(AFTER[:100] + AFTER[100:110], SEX[:100] + SEX[100:110])
    found = compare_audits(audit(BEFORE, SEX), small)
    assert "sex M: too few people" in found.left_out
    gap = found.line("demographic_parity_difference", "sex")
    assert gap.verdict == "not comparable"
    assert gap.change.kind == "unknown"


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(OptionError, match="favourable label"):
        compare_audits(
            audit(BEFORE, SEX), evenhand.audit_predictions(AFTER, sensitive_features={"sex": SEX}, favourable=0)
        )
    weighted = evenhand.audit_predictions(AFTER, sensitive_features={"sex": SEX}, sample_weight=[1, 2] * 100)
    with pytest.raises(OptionError, match="weights"):
        compare_audits(weighted, weighted)
    broken = audit(BEFORE, SEX)
    kept = broken.groups.kept.model_copy(update={"selected": "AAAA"})
    broken = broken.model_copy(update={"groups": broken.groups.model_copy(update={"kept": kept})})
    with pytest.raises(DataError, match="of 200 people"):
        compare_audits(broken, audit(AFTER, SEX))
    with pytest.raises(DataError, match="no such file"):
        evenhand.compare("nowhere/report.json", "nowhere/report.json")


def test_gates_are_about_changes():
    found = compare_audits(audit(AFTER, SEX, TRUTH), audit(BEFORE, SEX, TRUTH))
    assert measure_values(found)["worse"][""] == found.count("worse") > 0
    assert parse_gate("worse > 0").holds(found)
    assert parse_gate("accuracy < -0.1").holds(found)
    assert parse_gate("demographic_parity_difference.sex.low > 0.1").holds(found)
    assert not parse_gate("demographic_parity_difference.sex > 0.3 or better > 0").holds(found)
    with pytest.raises(OptionError, match="no number called 'certified'"):
        parse_gate("certified < 1").holds(found)


def simulate(paired, rng):
    """Return two audits' decisions about 400 people, or 400 each, whose true changes are known."""
    rates = {"F": (0.3, 0.36), "M": (0.5, 0.45)}
    sides = []
    sex = np.repeat(["F", "M"], [150, 250])
    first, second = (np.array([rates[one][side] for one in sex]) for side in (0, 1))
    u = rng.random(400)
    v = np.where(rng.random(400) < 0.8, u, rng.random(400)) if paired else rng.random(400)
    sides = [(u < first).astype(int), (v < second).astype(int)]
    return sex, sides


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_all_intervals_together_cover_the_true_changes(paired):
    truth = {"F": 0.06, "M": -0.05, "gap": (0.45 - 0.36) - (0.5 - 0.3), "": (150 * 0.06 - 250 * 0.05) / 400}
    rng, hits, runs, settings = np.random.default_rng(7), 0, scaled(300), {"time_limit": 1e-9}
    for _ in range(runs):
        sex, sides = simulate(paired, rng)
        order = slice(None) if paired else slice(None, None, -1)
        both = [
            audit(sides[0].tolist(), sex.tolist(), **settings),
            audit(sides[1][order].tolist(), sex[order].tolist(), **settings),
        ]
        found = compare_audits(*both, confidence=0.9)
        assert found.pairing == ("paired" if paired else "unpaired")
        hits += all(
            line.change.low
            <= truth["gap" if line.name == "demographic_parity_difference" else line.group]
            <= line.change.high
            for line in found.lines
        )
    assert hits / runs >= 0.9 - 3.1 * math.sqrt(0.09 / runs)
