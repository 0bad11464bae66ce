"""Certificate files of trees: honest ones are confirmed, forged ones refused, and nothing untrue is proved."""

import dataclasses
import itertools
import zlib
from fractions import Fraction

import numpy as np
import pytest
from forgery import WHOLE, forged
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tree_certificates import boosted, by_hand, fitted, random_model, real_data, tree

from evenhand import certification, checker, models
from evenhand.checker.question import AskedQuestion
from evenhand.checker.reading import ClaimedBoxes
from evenhand.checker.trees.proofs import TreeProver
from evenhand.checker.trees.question import recorded_trees_of
from evenhand.errors import OptionError
from evenhand.models.white_box import extract_white_box
from evenhand.population import product_of_marginals
from support import scaled

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture
def hand_file(tmp_path):
    path = tmp_path / "c.cert"
    certification.certify(by_hand(), certificate=path, enumeration=False, jobs=1, samples=5)
    return path


def check(path, model, **asked):
    return checker.check_certificate(path, model, AskedQuestion(**asked), sample=None)


def test_by_hand(hand_file):
    found = check(hand_file, by_hand())
    assert found.verdict == "confirmed"
    assert (found.certified, found.falsified) == pytest.approx((0.5, 0.5), abs=1e-12)
    assert found.exact
    assert found.checked == found.boxes


def change_leaf(model):
    values = model.nodes.values.copy()
    leaf = int(np.flatnonzero(model.nodes.left < 0)[0])
    values[leaf, 0] = np.nextafter(values[leaf, 0], np.inf)
    return dataclasses.replace(model, nodes=model.nodes._replace(values=values))


@pytest.mark.parametrize(
    "change",
    [
        change_leaf,
        lambda model: dataclasses.replace(model, single=True),
        lambda model: dataclasses.replace(model, base=model.base + 1),
        lambda model: dataclasses.replace(model, classes=model.classes[::-1], favourable=0),
    ],
    ids=["one bit of a leaf", "single precision", "another start", "labels swapped"],
)
def test_other_trees_are_refused(change, hand_file):
    assert check(hand_file, change(by_hand())).verdict == "rejected"


def lies():
    def everything_is_fair(it):
        it.fair[:], it.unfair[:] = WHOLE, 0

    def everything_is_unfair(it):
        it.fair[:], it.unfair[:] = 0, WHOLE

    def verdicts_swapped(it):
        it.fair, it.unfair = it.unfair, it.fair

    def one_part_more(it):
        k = int(np.flatnonzero(it.unfair == WHOLE)[0])
        it.fair[k], it.unfair[k] = 1, WHOLE - 1

    def cells_that_hold_two_cuts(it):
        it.head["attributes"][0] |= {"cells": 1}
        it.head["attributes"][0] |= {"form": "runs", "first": 0, "last": 9, "values": 10, "weights": "entries"}
        it.cells = []
        it.low, it.high = np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
        it.fair, it.unfair, it.proof = np.array([WHOLE]), np.array([0]), np.array([0])
        it.totals |= {"boxes": 1, "certified": str(10 * WHOLE), "falsified": "0", "of": str(10 * WHOLE)}

    def bins_that_weigh_one_each(it):
        """Five ages that are treated fairly, one to a cell, and five that are not in a single cell."""
        it.head["attributes"][0] |= {"cells": 6, "form": "bins", "weights": "entries"}
        it.cells = [zlib.compress(np.array(ages, dtype="<f8").tobytes()) for ages in ([*range(6)], [*range(5), 9])]
        it.low, it.high = np.array([[0], [5]]), np.array([[4], [5]])
        it.fair, it.unfair = np.array([WHOLE, 0]), np.array([0, WHOLE])
        it.totals |= {"boxes": 2, "certified": str(5 * WHOLE), "falsified": str(WHOLE), "of": str(6 * WHOLE)}

    def a_network(it):
        it.head["model"]["kind"] = "network"
        it.head["slack"] = {"unit": 2.0**-24, "activation": 2.0**-21}

    def finer_rounding(it):
        it.head["slack"] = {"unit": 0.0, "activation": 0.0}

    def coarser_rounding(it):
        it.head["slack"] = {"unit": 2.0**-24, "activation": 2.0**-21}

    def a_tolerance(it):
        it.head["tolerance"] = 1e9

    def a_kind_that_is_no_text(it):
        it.head["model"]["kind"] = ["trees"]

    return [value for value in locals().values() if callable(value)]


@pytest.mark.parametrize("lie", lies(), ids=lambda lie: lie.__name__)
def test_forgeries_are_refused(lie, hand_file):
    own_totals = ("cells_that_hold_two_cuts", "bins_that_weigh_one_each", "everything_is_unfair", "a_network")
    found = check(forged(hand_file, lie, add_up=lie.__name__ not in own_totals), by_hand())
    assert found.verdict in ("rejected", "not confirmed")


def truth(question, low, high, least):
    """Which part of a box is treated fairly, and which unfairly, by asking the trees about everybody in it."""
    model, axes = question.ensemble, question.axes
    named = question.statement.header.protected
    free = [axis.position for axis in axes]
    held = [model.schema.position(name) for name in named]
    fair = unfair = total = Fraction(0)
    for cells in itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))):
        mass = Fraction(1)
        for axis, cell in zip(axes, cells, strict=True):
            mass *= int(axis.before(np.array([cell + 1]))[0] - axis.before(np.array([cell]))[0])
        assigned = list(itertools.product(*named.values()))
        rows = np.empty((len(assigned), len(model.schema.attributes)))
        rows[:, free] = [float(axis.entries(np.array([c]))[0][0]) for axis, c in zip(axes, cells, strict=True)]
        rows[:, held] = assigned
        labels = len(set(outcomes(question, rows)))
        total += mass
        fair += mass * (labels < least)
        unfair += mass * (labels >= least)
    return fair / total, unfair / total


def outcomes(question, rows):
    statement, model = question.statement, question.ensemble
    if statement.header.bands:
        return np.searchsorted(statement.header.bands, model.scores(rows)[:, model.favourable], side="right").tolist()
    if statement.header.threshold not in (None, 0.5):
        return (model.scores(rows)[:, 1] > statement.header.threshold).tolist()
    return model.predict(rows).tolist()


@given(SEEDS)
@settings(max_examples=scaled(60), deadline=None)
def test_honest_certificates_hold_and_no_box_is_proved_beyond_the_truth(tmp_path_factory, seed):
    """Of each box all is claimed, fair and then unfair: what is proved of it is never more than is true."""
    model, population = random_model(seed)
    rng, classes = np.random.default_rng(seed), len(model.classes)
    path = tmp_path_factory.mktemp("trees") / "c.cert"
    asked = {}
    if classes == 2 and rng.random() < 0.5:
        asked = {"threshold": 0.4} if rng.random() < 0.5 else {"bands": (0.3, 0.6)}
    options = {"population": population, "jobs": 1, "samples": 5, "enumeration": bool(rng.integers(2))}
    options |= {"outcomes": int(rng.integers(2, 4)), "max_boxes": int(rng.choice([5, 10**6])), **asked}
    found = certification.certify(model, certificate=path, **options)
    verdict = check(path, model, population=population, **asked)
    assert verdict.verdict == "confirmed"
    assert (verdict.certified, verdict.falsified) == pytest.approx((found.certified, found.falsified), abs=1e-6)
    statement = checker.read_certificate(path)
    question = recorded_trees_of(statement, model, AskedQuestion(population=population, **asked))
    if not question.axes:
        return
    counts = [axis.count for axis in question.axes]
    for part in statement.partitions:
        ends = np.sort(np.stack([rng.integers(counts), rng.integers(counts)]), axis=0)
        fair, unfair = truth(question, *ends, part.least)
        for claim in ([WHOLE, 0], [0, WHOLE], [1, 1]):
            box = (ends[:1], ends[1:], np.array(claim[:1]), np.array(claim[1:]))
            proof = TreeProver(question, part.least).prove(ClaimedBoxes(*box))
            assert proof.fair[0] <= fair
            assert proof.unfair[0] <= unfair
            assert not (proof.confirmed[0] and (claim[0] > fair * WHOLE or claim[1] > unfair * WHOLE))


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-305, 1e-260, 1.0, 1e90])
def test_leaves_of_any_size_can_be_checked(size, tmp_path):
    """In float32, leaves of zero or almost zero prove nothing, but the certificate that says so is valid."""
    values = np.array([[0.0, 0.0], [0.0, size], [size, 0.0]])
    grown = dataclasses.replace(tree([(1, 0.0, 1, 2), 0.0, 0.0]), values=values)
    model = boosted([grown], base=np.zeros(2), link="frequency")
    path = tmp_path / "c.cert"
    for single in (True, False):
        model = dataclasses.replace(model, single=single)
        made = certification.certify(model, certificate=path, enumeration=False, jobs=1, samples=5)
        found = check(path, model)
        assert found.verdict == "confirmed"
        assert (found.certified, found.falsified) == pytest.approx((made.certified, made.falsified), abs=1e-6)


def test_masses_beyond_the_precision_of_floats_are_exact(tmp_path):
    """Two of three cells hold 312 and 200 of 2**60 + 512 people; of these two, the 200 are treated unfairly."""
    grown = [tree([(0, 2.0, 1, 2), -4.0, (0, 4.0, 3, 4), -3.0, 0.0]), tree([(1, 0.0, 1, 2), -1.0, 1.0])]
    model = boosted(grown)
    certification.certify(model, certificate=tmp_path / "c.cert", enumeration=False, jobs=1, samples=5)
    question = recorded_trees_of(checker.read_certificate(tmp_path / "c.cert"), model)
    (axis,) = question.axes
    cells = dataclasses.replace(axis.cells, weights=np.array([2**60, 312, 200]))
    question = dataclasses.replace(question, axes=(dataclasses.replace(axis, cells=cells),))
    claims = np.array([0]), np.array([int(0.45 * WHOLE)])
    proof = TreeProver(question).prove(ClaimedBoxes(*np.array([[[1]], [[2]]]), *claims))
    assert not proof.confirmed[0]
    assert 200 / 512 - 1e-9 <= proof.unfair[0] <= 200 / 512


@pytest.mark.parametrize("single", [True, False])
def test_margins_close_to_zero_are_decided_only_if_every_order_of_adding_up_agrees(single, tmp_path):
    rng = np.random.default_rng(5)
    kind = np.float32 if single else np.float64
    decided = 0
    for _ in range(60):
        leaves = rng.normal(size=(8, 2)).astype(kind).astype(np.float64)
        grown = [tree([(0, 4.0, 1, 2), *pair]) for pair in leaves]
        # The margin of whoever is five or more is a few units of the last place of the sum of the sizes.
        near = -leaves[:, 1].sum() + rng.uniform(0, 40) * np.finfo(kind).eps * np.abs(leaves[:, 1]).sum()
        sexed = tree([(1, 0.0, 1, 2), 0.0, float(kind(near) * 2.0**-60)])
        model = boosted([*grown, sexed], base=np.array([float(kind(near))]))
        model = dataclasses.replace(model, single=single)
        path = tmp_path / "c.cert"
        certification.certify(model, certificate=path, enumeration=False, jobs=1, samples=5)
        question = recorded_trees_of(checker.read_certificate(path), model)
        box = np.array([[question.axes[0].count - 1]])
        proof = TreeProver(question).prove(ClaimedBoxes(box, box, np.array([WHOLE]), np.array([0])))
        if proof.fair[0] < 1:
            continue
        decided += 1
        terms = np.concatenate([leaves[:, 1], model.base]).astype(kind)
        sums = [np.add.accumulate(rng.permutation(terms))[-1] for _ in range(50)]
        assert len({bool(kind(1) / (kind(1) + np.exp(-total)) > kind(0.5)) for total in sums}) == 1
    assert 0 < decided < 60


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "forest", "boosting"])
def test_real_models(kind, tmp_path):
    people, inputs, labels = real_data("german")
    box = extract_white_box(models.load_model(fitted(kind, inputs, labels), people.schema))
    population = product_of_marginals(people)
    protected = ["sex", "age"] if "age" in people.schema.names else ["sex"]
    options = {"protected": protected, "population": population, "max_boxes": 200, "jobs": 1, "samples": 5}
    made = certification.certify(box, certificate=tmp_path / "c.cert", **options)
    found = check(tmp_path / "c.cert", box, protected=tuple(protected), population=population)
    assert found.verdict == "confirmed"
    assert (found.certified, found.falsified) == pytest.approx((made.certified, made.falsified), abs=1e-6)
    question = AskedQuestion(protected=("sex",), population=population)
    assert checker.check_certificate(tmp_path / "c.cert", box, question, sample=20).verdict == "restricted"


def test_changes_of_numbers_have_no_file_yet(tmp_path):
    with pytest.raises(OptionError, match="not changes of a number"):
        certification.certify(by_hand(), tolerance=0.5, certificate=tmp_path / "c.cert")
    assert not list(tmp_path.iterdir())
