"""What is said of proofs, against the whole truth about tiny networks."""

import numpy as np
import pytest

from evenhand.individual import find_flips
from evenhand.individual.flips import build_variants
from evenhand.mitigation.proof_lines import ProofComparison
from evenhand.models.additive.network import network_from_dense
from evenhand.population import product_of_marginals
from evenhand.schema import People
from support import shortened, small_schema

SCHEMA = small_schema([0, 1], target="credit", skill=(0, 11), debt=(0, 11), sex=[0, 1]).with_protected(["sex"])
GRID = np.array([[skill, debt, sex] for skill in range(12) for debt in range(12) for sex in (0, 1)], dtype=float)
EVERYBODY = People(SCHEMA, GRID, (GRID[:, 0] > GRID[:, 1]).astype(np.int64), np.arange(len(GRID)), None)


def network(seed):
    """Random, and of seeds that three divides blind to sex."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(3, 4))
    first[2] *= 0 if seed % 3 == 0 else rng.uniform(0, 6)
    return network_from_dense(SCHEMA, [(first, rng.normal(size=4)), (rng.normal(size=(4, 1)), rng.normal(size=1))])


def the_same(scorer):
    """The share of people, all as likely, whose decision is the same whatever their sex."""
    columns, assignments = SCHEMA.positions(("sex",)), SCHEMA.assignments(("sex",))
    labels = scorer.predict(build_variants(GRID, columns, assignments)).reshape(len(GRID), -1)
    return 1 - float(find_flips(labels).mean())


# Boxes for about this many splits: with few, most is undecided.
@pytest.mark.parametrize("seconds", shortened([1e-9, 0.02]))
def test_better_and_worse_are_true_and_shares_add_up(seconds):
    population = product_of_marginals(EVERYBODY)
    said = []
    for seed in range(9):
        before, after = network(seed), network(seed + 1)
        comparison = ProofComparison(before, (("sex",),), population, EVERYBODY, seconds, 0)
        drafts, notes = comparison.compare(after, lambda action, share: None)
        assert not notes
        line = {draft.line.name: draft.line for draft in drafts}
        truth = {"before": the_same(before), "after": the_same(after)}
        for side, same in truth.items():
            certified, falsified, undecided = (getattr(line[name], side).value for name in line)
            assert certified + falsified + undecided == pytest.approx(1)
            assert certified <= same + 1e-9
            assert falsified <= 1 - same + 1e-9
        for name in ("certified", "falsified"):
            said.append(line[name].verdict)
            assert line[name].verdict != "better" or truth["after"] > truth["before"]
            assert line[name].verdict != "worse" or truth["after"] < truth["before"]
        gone = line["undecided"].before.value - line["undecided"].after.value
        expected = "as much is proved" if abs(gone) < 0.0005 else "more is proved" if gone > 0 else "less is proved"
        assert line["undecided"].verdict == expected
        more = line["certified"].after.value - line["certified"].before.value
        if line["certified"].verdict not in ("better", "worse"):
            assert line["falsified"].verdict == "open"
            assert (line["certified"].verdict == "more is proved") == (more >= 0.0005)
    assert {"better", "worse"} <= set(said) or seconds < 0.02


def test_an_inside_that_decides_otherwise_proves_nothing(monkeypatch):
    monkeypatch.setattr("evenhand.mitigation.proof_lines.extract_white_box", lambda scorer: network(5))
    comparison = ProofComparison(network(4), (("sex",),), product_of_marginals(EVERYBODY), EVERYBODY, 1e-9, 0)
    drafts, notes = comparison.compare(network(5), lambda action, share: None)
    assert drafts == []
    assert "the model make different decisions" in notes[0]
