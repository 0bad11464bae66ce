"""The penalties: worked by hand, against independent formulas, and which way their gradients point."""

import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch")

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from evenhand.errors import OptionError
from evenhand.mitigation import FairClassifier
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.losses.counterfactual import LogitPairing, draw_assignments, draw_people
from evenhand.mitigation.training.losses.group_penalties import (
    hsic_criterion,
    mean_gap,
    mutual_information,
)
from evenhand.mitigation.training.losses.laftr import balanced_accuracy
from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingPlan
from evenhand.mitigation.training.network import TrainableNetwork
from evenhand.mitigation.training.recipes import load_loss
from evenhand.schema import People, Schema
from support import scaled, small_schema


@pytest.fixture(autouse=True)
def _single_thread():
    """Small tensors are slower on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


people = st.integers(2, 24).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0.01, 0.99), min_size=n, max_size=n), st.lists(st.integers(-1, 3), min_size=n, max_size=n)
    )
)


def tensors(scores, groups):
    return torch.tensor(scores, dtype=torch.float64), torch.tensor(groups)


def plan_for(rows, labels, groups, protected, steps: int) -> TrainingPlan:
    return TrainingPlan(rows, labels, groups, tuple(protected), steps, 128, learning_rate=0.01, strength=1.0, seed=0)


def setting(hidden=(8, 6), seed=0, n=200) -> tuple[TrainableNetwork, TrainingBatch, list]:
    """A random network, people of three groups whose x differs with the group, and the arguments of `prepare`."""
    schema = small_schema([0, 1], target="y", x=(-5.0, 5.0), a="f m o *")
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 3, n)
    rows = np.stack([np.clip(rng.normal(groups - 1.0), -5, 5), groups.astype(float)], axis=1)
    encoding = FeatureEncoding.fit_to_people(schema, rows)
    generator = torch.Generator().manual_seed(seed)
    network = TrainableNetwork.fresh(encoding, hidden, generator)
    tensors = (rows, encoding.features(rows), (rows[:, 0] > 0).astype(np.float32), groups)
    batch = TrainingBatch(*map(torch.from_numpy, tensors), 0)
    plan = plan_for(rows, rows[:, 0] > 0, groups, "a", 10)
    return network, batch, [plan, network, generator]


def test_what_an_adversary_gives_the_right_group_by_hand():
    guesses = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.5, 0.5]])
    # Group 0: mean of 0.9, 0.7, 0.6; group 1: 0.5.
    assert balanced_accuracy(guesses, torch.tensor([0, 0, 0, 1])).item() == pytest.approx((2.2 / 3 + 0.5) / 2)


def gap_of_means(scores, groups):
    present = np.unique(groups)
    if len(present) < 2:
        return 0.0
    return np.mean([abs(scores[groups == g].mean() - scores[groups != g].mean()) for g in present])


def trace(scores, groups):
    n = len(scores)
    if n < 2:
        return 0.0
    kernel = np.exp(-(np.subtract.outer(scores, scores) ** 2))
    of_groups = np.where(np.not_equal.outer(groups, groups), np.exp(-1.0), 1.0)
    centring = np.eye(n) - np.full((n, n), 1 / n)
    return np.trace(kernel @ centring @ of_groups @ centring) / (n - 1) ** 2


def joint_information(scores, groups):
    if not len(scores):
        return 0.0
    sums = [(scores[groups == g].sum(), (1 - scores[groups == g]).sum()) for g in np.unique(groups)]
    joint = np.array(sums) / len(scores)
    return rel_entr(joint, joint.sum(axis=0) * joint.sum(axis=1, keepdims=True)).sum()


@pytest.mark.parametrize(
    ("penalty", "oracle"), [(mean_gap, gap_of_means), (hsic_criterion, trace), (mutual_information, joint_information)]
)
@given(people)
@settings(max_examples=scaled(100), deadline=None)
def test_penalties_are_those_of_independent_formulas(penalty, oracle, drawn):
    scores, groups = (np.array(part) for part in drawn)
    expected = oracle(scores[groups >= 0], groups[groups >= 0])
    assert penalty(*tensors(*drawn)).item() == pytest.approx(expected, abs=1e-9)


def descend(tensors, penalty, steps):
    """Return the penalties of a descent by gradient."""
    optimiser = torch.optim.Adam(tensors, lr=0.01)
    course = []
    for _ in range(steps):
        optimiser.zero_grad()
        value = penalty()
        value.backward()
        optimiser.step()
        course.append(value.item())
    return course


@pytest.mark.parametrize("penalty", [mean_gap, hsic_criterion, mutual_information])
def test_nothing_is_asked_of_people_who_are_treated_alike_or_are_nobodys(penalty):
    scores = torch.full((6,), 0.3, dtype=torch.float64)
    assert penalty(scores, torch.tensor([0, 0, 1, 1, 2, 2])).item() == pytest.approx(0, abs=1e-12)
    mixed = torch.tensor([0.1, 0.9], dtype=torch.float64)
    assert penalty(mixed, torch.tensor([-1, -1])).item() == 0
    assert penalty(mixed, torch.tensor([1, 1])).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("method", ["diffdp", "hsic", "prejudice-remover"])
def test_every_penalty_falls_when_it_alone_is_descended(method):
    network, batch, setup = setting()
    teacher = load_loss(method)
    teacher.prepare(*setup)
    course = descend(network.tensors, lambda: teacher.penalty(network, batch, network.logits(batch.features)), 100)
    assert course[-1] < 0.1 * course[0]


def test_the_encoder_learns_to_deceive_an_adversary_that_stands_still(monkeypatch):
    network, batch, setup = setting()
    teacher = load_loss("laftr")
    decoder = teacher.prepare(*setup)
    logits = network.logits(batch.features)
    for _ in range(40):
        teacher.penalty(network, batch, logits)
    monkeypatch.setattr("evenhand.mitigation.training.losses.laftr.ADVERSARY_STEPS", 0)
    course = descend([*network.tensors, *decoder], lambda: teacher.penalty(network, batch, logits), 60)
    assert course[-1] < 0.1 * course[0]


def test_the_adversary_learns_what_the_representation_tells():
    network, batch, setup = setting()
    teacher: Any = load_loss("laftr")
    teacher.prepare(*setup)
    with torch.no_grad():
        for _, bias in network.layers:
            bias.zero_()
    logits = network.logits(batch.features)
    course = [teacher.penalty(network, batch, logits).item() for _ in range(40)]
    # The group is one of the inputs, and the encoder stands still: in the end the adversary is nearly sure.
    assert course[-1] > 0.5 > course[0]


def test_laftr_needs_a_representation():
    _, _, setup = setting(hidden=())
    with pytest.raises(OptionError, match="requires a hidden layer"):
        load_loss("laftr").prepare(*setup)


def loans(ages: int = 1) -> Schema:
    return small_schema([0, 1], target="loan", sex="f m", age=(0, ages), income=(0, 20)).with_protected(["sex", "age"])


def applicants(schema: Schema, n: int = 600, seed: int = 0) -> tuple[Any, Any]:
    """Whoever earns enough gets a loan, and men need to earn less."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, int(a.last) + 1, n) for a in schema.attributes]).astype(float)
    wanted = rows[:, 2] + 4 * rows[:, 0] + rng.normal(size=n)
    return rows, (wanted > 11).astype(int)


def asked(schema: Schema, layers: Any, n: int = 40) -> tuple[LogitPairing, TrainableNetwork, TrainingBatch]:
    rows, labels = applicants(schema, n)
    encoding = FeatureEncoding.fit_to_people(schema, rows)
    network, generator = TrainableNetwork.of(encoding, layers(encoding.width)), torch.Generator().manual_seed(0)
    pairing = LogitPairing()
    assert pairing.prepare(plan_for(rows, labels, np.zeros(n, int), schema.protected, 1), network, generator) == []
    individuals, groups = torch.from_numpy(rows), torch.zeros(n, dtype=torch.int64)
    batch = TrainingBatch(individuals, network.encode(individuals), torch.from_numpy(labels).float(), groups, 0)
    return pairing, network, batch


def test_every_pair_of_assignments_counts() -> None:
    rng = np.random.default_rng(1)
    drawn: list[Any] = []

    def layers(width: int) -> Any:
        drawn[:] = [(rng.normal(size=(width, 4)), rng.normal(size=4)), (rng.normal(size=(4, 1)), rng.normal(size=1))]
        return drawn

    schema = loans()
    pairing, network, batch = asked(schema, layers)
    made = network.encoding.additive(drawn, (0, 1), 1, "network")
    logits = []
    for assignment in schema.assignments(schema.protected):
        rows = batch.individuals.numpy().copy()
        rows[:, :2] = assignment
        logits.append(made.logits(rows)[:, 0])
    expected = np.mean([(a - b) ** 2 for a, b in itertools.combinations(logits, 2)])
    assert pairing.logit_spread(network, batch.individuals).item() == pytest.approx(expected, rel=1e-4)


def test_people_who_are_not_in_the_data_count_too() -> None:
    # Nobody in the data earns anything; the network favours men by what they earn above the mean.
    def layers(width: int) -> Any:
        weight = np.zeros((width, 1))
        weight[1], weight[-1] = 100.0, 1.0
        return [(weight, np.array([-100.0])), (np.ones((1, 1)), np.zeros(1))]

    pairing, network, batch = asked(loans(), layers)
    individuals = batch.individuals.clone()
    individuals[:, 2] = 0
    poor = TrainingBatch(individuals, network.encode(individuals), batch.labels, batch.groups, 0)
    assert pairing.logit_spread(network, individuals).item() == 0
    assert pairing.penalty(network, poor, network.logits(poor.features)).item() > 0


def test_fewer_decisions_flip() -> None:
    schema = loans(ages=30)  # too many assignments to take all of them at every step
    rows, labels = applicants(schema)
    people = People(schema, rows, labels.astype(np.int64), np.arange(len(rows)), None)
    settings = {"schema": schema, "hidden": (8,), "steps": 150, "seed": 3}
    plain = FairClassifier("erm", **settings).fit(rows, labels).network_
    made = FairClassifier("logit-pairing", strength=3.0, **settings).fit(rows, labels).network_
    harm = FlipMetric(("sex", "age"))
    assert harm.size(plain, people) > 0.15
    assert harm.size(made, people) < 0.2 * harm.size(plain, people)
    assert (made.predict(rows) == labels).mean() > 0.75


def test_needs_somebody_to_compare() -> None:
    schema = loans()
    rows, labels = applicants(schema)
    with pytest.raises(OptionError, match="no attribute is protected"):
        FairClassifier("logit-pairing", schema=schema, protected=(), hidden=(4,), steps=2).fit(rows, labels)


def test_drawn_people_and_assignments_are_distinct_and_in_the_domain() -> None:
    schema, generator = loans(ages=2), torch.Generator().manual_seed(0)
    people = draw_people(schema, torch.from_numpy(applicants(schema, 50)[0]), 300, generator)
    assert schema.contains(people.numpy()).all()
    drawn = draw_assignments(schema, schema.protected, 200, 4, generator)
    assert drawn.shape == (200, 4, 2)
    assert all(len({tuple(row) for row in person.tolist()}) == 4 for person in drawn)
    assert {tuple(row) for row in drawn.flatten(0, 1).tolist()} == {
        tuple(row) for row in schema.assignments(schema.protected).tolist()
    }
    assert draw_assignments(schema, ["sex"], 5, 4, generator).shape == (5, 2, 1)
