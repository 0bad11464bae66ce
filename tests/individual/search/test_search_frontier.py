"""The default method and what it stands on: moves that stay possible, and the surrogate."""

import itertools
import json
import sys

import numpy as np
import pytest
import search_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from search_cases import DOMAIN, SCHEMA, BlackBox, LabelOnly, flipping, network, people, profiles, published_network

from evenhand.individual import search
from evenhand.individual.search.confirmation import confirm_findings
from evenhand.individual.search.findings import NOT_QUERIED
from evenhand.individual.search.methods.frontier import Surrogate
from evenhand.individual.search.moves import Moves
from evenhand.individual.search.oracle import BudgetExhausted, ModelAnswers, Oracle
from evenhand.individual.search.space import ProfileSpace
from evenhand.models import QuestionLedger
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import People
from support import scaled, shared, small_schema


@pytest.mark.parametrize("kind", ["network", "tree", "labels", "box"])
@settings(max_examples=scaled(8))
@given(seed=st.integers(0, 10**6), constrained=st.booleans(), allow_infeasible=st.booleans())
def test_with_enough_budget_nobody_is_left_out(kind, seed, constrained, allow_infeasible):
    made = {"network": network, "tree": search_cases.tree}
    wrapped = {"labels": LabelOnly, "box": BlackBox}
    model = made[kind](seed) if kind in made else wrapped[kind](network(seed))
    data = people(12, seed)
    rules = ["years <= grade + 3", "not (job == cook and level == high)"] if constrained else []
    tried = 32 if kind == "tree" else 0  # an estimator is tried when it is loaded, at the budget's expense
    options = {"constraints": rules, "allow_infeasible": allow_infeasible, "samples": 0, "seed": seed}
    result = search.search(model, data, budget=2 * len(DOMAIN) + tried, **options)
    space = ProfileSpace(data, constraints=rules, allow_infeasible=allow_infeasible)
    admissible = {tuple(row) for row in DOMAIN[space.is_admissible(DOMAIN)].tolist()}
    assert profiles(result) == flipping(model, space) & admissible
    assert result.method == "frontier"
    assert result.queries <= 2 * len(admissible) + tried


MANY = small_schema("C B A", x=(0, 7), sex="f m *", y=(0, 7), origin="a b c *")


@settings(max_examples=scaled(15))
@given(st.integers(0, 10**6))
def test_several_classes_and_protected_attributes(seed):
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=(4, 6)), rng.normal(size=6)), (rng.normal(size=(6, 3)), rng.normal(size=3))]
    model = network_from_dense(MANY, layers, classes=("C", "B", "A"))
    data = people(10, seed, MANY)
    result = search.search(model, data, budget=8 * 64, samples=0, seed=seed)
    space = ProfileSpace(data)
    valid = np.array(list(itertools.product(range(8), range(8))), dtype=float)
    valid = valid[space.is_comparable(valid, by_data=True)]
    everybody = ([[x, sex, y, origin] for sex in range(2) for origin in range(3)] for x, y in valid)
    flips = [len(set(model.predict(np.array(rows)).tolist())) > 1 for rows in everybody]
    assert profiles(result) == {tuple(row) for row in valid[flips].tolist()}


TIED = small_schema(education="school college university", years=(9, 11), rents=(0, 1), owns=(0, 1), sex="f m *")
# education fixes years; nobody from university rents.
ROWS = [[0, 9, 1, 0], [0, 9, 0, 1], [1, 10, 1, 0], [1, 10, 0, 1], [2, 11, 0, 1]]


def tied(**more):
    rows = np.array([[*row, sex] for row in ROWS for sex in (0, 1)], dtype=float)
    return ProfileSpace(People(TIED, rows, None, np.arange(len(rows)), None), **more)


def test_moves_by_hand():
    space = tied()
    moves = Moves.of(space)
    # Rents and owns move only together; so do education and years.
    rows = np.array([[0.0, 9, 1, 0], [2.0, 11, 0, 1]])
    codes = moves.codes(rows)
    assert (moves.levels[codes] == rows).all()
    reached = set()
    for profile, level in np.argwhere(moves.open(codes)).tolist():
        moved, recoded = moves.move(rows[[profile]], codes[[profile]], np.array([level]))
        assert (moves.codes(moved) == recoded).all()
        reached.add((profile, tuple(moved[0].tolist())))
    assert reached == {(0, (0, 9, 0, 1)), (0, (1, 10, 1, 0)), (1, (0, 9, 0, 1)), (1, (1, 10, 0, 1))}
    assert {tuple(row) for row in moves.levels[moves.list_profiles(100)].tolist()} == {
        tuple(map(float, row)) for row in ROWS
    }
    assert moves.list_profiles(4) is None


def test_tied_attributes_are_searched_through():
    # years + sex decide: those who studied 10 years are hired if they are men.
    model = network_from_dense(TIED, [(np.array([[0.0], [1.0], [0.0], [0.0], [1.0]]), np.array([-10.5]))])
    space = tied()
    rows = np.array(ROWS, dtype=float)
    source = People(TIED, space.rows(rows), None, np.arange(2 * len(rows)), None)
    result = search.search(model, source, budget=1000, samples=0)
    assert profiles(result) == {(1, 10, 1, 0), (1, 10, 0, 1)}


@settings(max_examples=scaled(20))
@given(st.integers(0, 10**6), st.integers(3, 30))
def test_moves_lead_to_everybody_one_change_away_and_to_nobody_impossible(seed, n):
    space = ProfileSpace(people(n, seed))
    moves = Moves.of(space)
    codes = moves.codes(space.people)
    assert (moves.levels[codes] == space.people).all()
    profile, level = np.nonzero(moves.open(codes))
    moved, _ = moves.move(space.people[profile], codes[profile], level)
    alone = (moved != space.people[profile]).sum(axis=1) == 1
    assert space.is_admissible(moved[alone]).all()
    reached = {tuple(row) for row in moved.tolist()}
    for row in DOMAIN[space.is_admissible(DOMAIN)]:
        if ((row != space.people).sum(axis=1) == 1).any():
            assert tuple(row.tolist()) in reached
    listed = {tuple(row) for row in moves.levels[moves.list_profiles(10_000)].tolist()}
    assert listed == {tuple(row) for row in DOMAIN[space.is_admissible(DOMAIN)].tolist()}


def test_numbers_with_many_values_move_between_those_of_the_data():
    wide = small_schema(income=(0.0, 1e6), age=(0, 1000), sex="f m *")
    rng = np.random.default_rng(0)
    rows = np.stack([rng.random(500) * 1e6, rng.integers(0, 1001, 500), rng.integers(0, 2, 500)], axis=1)
    data = People(wide, rows.astype(float), None, np.arange(500), None)
    moves = Moves.of(ProfileSpace(data))
    assert np.bincount(moves.attribute).tolist() == [64, 64]
    assert set(moves.levels[:64]) <= set(rows[:, 0])
    assert moves.list_profiles(10**6) is None
    model = network_from_dense(wide, [(np.array([[1e-6], [1e-3], [0.4]]), np.array([-1.2]))])
    result = search.search(model, data, budget=1500, samples=0)
    assert result.profiles > 200
    rows = result.table.unprotected
    score = rows[:, 0] * 1e-6 + rows[:, 1] * 1e-3 - 1.2
    assert ((score <= 0) & (score + 0.4 > 0)).all()


def test_the_surrogate_knows_an_additive_model():
    space = ProfileSpace(people(60, 2))
    model = network_from_dense(SCHEMA, [(np.random.default_rng(4).normal(size=(SCHEMA.width, 1)), np.array([0.3]))])
    moves = Moves.of(space)
    oracle = Oracle(model, space)
    known = Surrogate(moves, 2, 2, label_only=False)
    said = oracle.ask(space.people)
    codes = moves.codes(space.people)
    answers = known.answers(said.scores, said.labels)
    assert answers == pytest.approx(model.logits(space.rows(space.people)).reshape(-1, 2), abs=1e-6)
    for _ in range(200):  # so much of the same that the ridge does not matter
        known.learn_answers(codes, answers)
    known.fit()
    profile, level = np.nonzero(moves.open(codes))
    moved, _ = moves.move(space.people[profile], codes[profile], level)
    before = codes[profile, moves.attribute[level]]
    guessed = known.guess_answers(answers[profile], before, level)
    asked = oracle.ask(moved)
    truth = known.answers(asked.scores, asked.labels)
    assert guessed == pytest.approx(truth, abs=0.02)
    wide = known.spread()
    for _ in range(50):
        assert known.complete_answers(guessed, (before, level), asked, None) == pytest.approx(truth)
    assert (known.spread() < wide).all()


def test_the_boundary_need_not_lie_at_one_half():
    space = ProfileSpace(people(10, 0))
    known = Surrogate(Moves.of(space), 2, 2, label_only=False)
    scores = np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.6, 0.4]]])
    margins = known.margins(known.answers(scores, np.array([[0, 0], [1, 1]])))
    assert (margins[0] < 0).all()
    assert (margins[1] > 0).all()


def test_margins_with_three_classes_and_chances_by_hand():
    space = ProfileSpace(people(10, 0))
    known = Surrogate(Moves.of(space), 2, 3, label_only=False)
    scores = np.array([[[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]], [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1]]])
    margins = known.margins(known.answers(scores, scores.argmax(axis=2)))
    assert np.sign(margins).tolist() == [[1, -1], [1, 1]]
    chance = known.chance(np.array([-1.0, 1.0, -9.0]), np.array([1.0, 2.0, 9.0]), np.ones(3))
    assert chance == pytest.approx([0.6827, 0.1359, 1.0], abs=2e-3)


def test_two_assignments_are_enough_to_find_somebody():
    rng = np.random.default_rng(35)
    model = BlackBox(network_from_dense(MANY, [(rng.normal(size=(4, 3)), rng.normal(size=3))], classes=("C", "B", "A")))
    space = ProfileSpace(MANY)
    rows = space.uniform(40, rng)
    which = np.tile([4, 1], (40, 1))
    ledger = QuestionLedger(70)
    oracle = Oracle(model, space, ledger=ledger)
    with pytest.raises(BudgetExhausted):
        oracle.ask(rows, which)
    assert oracle.queries == model.asked == 70
    truth = model.inner.predict(space.rows(rows[:35])).reshape(35, 6)
    differ = truth[:, 4] != truth[:, 1]
    found = oracle.findings.reportable()
    assert {tuple(row) for row in found.unprotected} == {tuple(row) for row in rows[:35][differ]}
    assert len(found) > 2
    assert (found.labels[:, [0, 2, 3, 5]] == NOT_QUERIED).all()
    assert np.isnan(found.scores[:, [0, 2, 3, 5]]).all()
    assert not np.isnan(found.scores[:, [1, 4]]).any()
    everything = model.inner.predict(space.rows(found.unprotected)).reshape(-1, 6)
    # The budget pays for the other assignments of the first two; of the others the two that differ are known.
    ledger.budget = 78
    some, cut_short = confirm_findings(model, found, ledger)
    assert model.asked == ledger.sent == 78
    assert (some.labels[:2] == everything[:2]).all()
    assert (some.labels[2:] == found.labels[2:]).all()
    ledger.budget = None
    whole, cut_short = confirm_findings(model, found, ledger)
    assert model.asked == 78 + 4 * len(found)
    assert not cut_short
    assert (whole.labels == everything).all()
    assert (whole.scores == model.scores(space.rows(found.unprotected)).reshape(-1, 6, 3)).all()


def test_interrupt_during_confirmation_keeps_all_confirmed_findings(monkeypatch):
    rng = np.random.default_rng(1)
    model = BlackBox(network_from_dense(MANY, [(rng.normal(size=(4, 3)), rng.normal(size=3))], classes=("C", "B", "A")))
    space = ProfileSpace(MANY)
    oracle = Oracle(model, space, ledger=QuestionLedger(6000))
    oracle.ask(space.uniform(500, rng))
    findings = oracle.findings.reportable()
    complete, _ = confirm_findings(model, findings, QuestionLedger())
    module = sys.modules[confirm_findings.__module__]
    query_missing, batches = module._query_missing, []

    def interrupt_fourth_batch(scorer, findings, ledger):
        batches.append(len(findings))
        if len(batches) == 4:
            raise KeyboardInterrupt
        return query_missing(scorer, findings, ledger)

    monkeypatch.setattr(module, "CONFIRM_BATCH", 1)
    monkeypatch.setattr(module, "_query_missing", interrupt_fourth_batch)
    partial, interrupted = confirm_findings(model, findings, QuestionLedger())
    assert interrupted
    assert len(findings) > 4
    # Every assignment was queried during the search, so an interrupt loses no finding.
    assert (partial.unprotected == complete.unprotected).all()


def test_what_two_assignments_say_moves_the_others():
    space = ProfileSpace(people(10, 0, MANY))
    known = Surrogate(Moves.of(space), 6, 2, label_only=False)
    scores = 1 / (1 + np.exp(-np.array([[1.0, 4.0]])))
    replies = ModelAnswers(np.stack([1 - scores, scores], axis=2), np.ones((1, 2), dtype=np.int64), np.array([False]))
    levels = np.array([0]), np.array([1])
    every = known.complete_answers(np.arange(6.0)[None], levels, replies, np.array([[0, 2]]))
    assert every == pytest.approx(np.array([[1.0, 2.5, 4.0, 4.5, 5.5, 6.5]]))


def published(name, column):
    described = json.loads(shared("data", "testing", "models.json").read_text())[name]
    return published_network(described["dataset"], column, described["file"])[:2]


@pytest.mark.parametrize(("name", "column"), [("adult", 7), ("german", 6), ("diabetes", 7)])
def test_five_times_what_maft_finds_of_people_who_could_exist(name, column):
    model, data = published(name, column)
    theirs = search.search(model, data, method="maft", seeds=30, local=30, allow_infeasible=True, samples=0)
    ours = search.search(model, data, budget=theirs.queries, samples=0)
    assert ours.queries <= theirs.queries
    assert ours.valid == ours.profiles >= 5 * theirs.valid


@pytest.mark.parametrize(
    ("name", "column"), [("adult_EIDIG_5_retrained", 7), ("bank_EIDIG_INF_retrained", 0), ("german_ADF_retrained", 6)]
)
def test_more_than_others_on_retrained_networks(name, column):
    model, data = published(name, column)
    found = {
        method: search.search(model, data, method=method, budget=8000, samples=0).valid
        for method in ("frontier", "aequitas")
    }
    assert found["frontier"] > 1.2 * found["aequitas"]
