"""The bounds that certified training trains through: sound against enumeration, exact where they should be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs the extra torch")

from evenhand.certification import certify
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.losses.boxes import (
    FeatureBoxes,
    assign_protected,
    bound_linearly,
    bound_pair,
    bound_relu_change,
    draw_assignments,
    draw_boxes,
    draw_people,
)
from evenhand.schema import Schema
from support import scaled

TOLERANCE = 1e-9


def small_schema() -> Schema:
    """Two numbers, a category and two protected attributes: few enough people to ask all of them."""
    return Schema.parse(
        {
            "target": {"name": "y", "favourable": 1, "values": [0, 1]},
            "attributes": [
                {"name": "age", "kind": "integer", "lower": 0, "upper": 6},
                {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
                {"name": "job", "kind": "categorical", "values": ["a", "b", "c", "d"]},
                {"name": "old", "kind": "integer", "lower": 0, "upper": 2, "protected": True},
                {"name": "debt", "kind": "integer", "lower": -3, "upper": 3},
            ],
        }
    )


def random_layers(sizes: list[int], rng: np.random.Generator) -> list[tuple[Any, Any]]:
    return [
        (torch.from_numpy(rng.normal(size=(a, b)) / np.sqrt(a)), torch.from_numpy(0.3 * rng.normal(size=b)))
        for a, b in itertools.pairwise(sizes)
    ]


def forward(layers: list[tuple[Any, Any]], features: Any) -> Any:
    units = features @ layers[0][0] + layers[0][1]
    for weight, bias in layers[1:]:
        units = units.relu() @ weight + bias
    return units[..., 0]


def everybody(encoding: FeatureEncoding, boxes: FeatureBoxes, n: int, protected: list[int]) -> Any:
    """All individuals of box n, their protected entries 0."""
    choices = []
    for i, (attribute, block) in enumerate(zip(encoding.schema.attributes, encoding.blocks, strict=True)):
        if i in protected:
            choices.append(np.zeros(1))
        elif attribute.is_discrete:
            choices.append(np.flatnonzero(boxes.upper[n, block.columns].numpy() > 0).astype(float))
        else:
            scaled = (attribute.domain() - block.offset) / block.scale
            low, high = float(boxes.lower[n, block.start]), float(boxes.upper[n, block.start])
            choices.append(attribute.domain()[(scaled >= low - 1e-6) & (scaled <= high + 1e-6)])
    return torch.from_numpy(np.array(list(itertools.product(*choices))))


def scene(seed: int, sizes: list[int], n: int = 4, growth: float = 1.0) -> Any:
    """Encoding, layers, people, boxes, assignments, the protected features and everybody's, in double precision."""
    schema, rng = small_schema(), np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    low, high = (np.array([getattr(a, end) for a in schema.attributes]) for end in ("first", "last"))
    sample = torch.from_numpy(rng.integers(low, high + 1, size=(12, 5)).astype(np.float64))
    encoding = FeatureEncoding.fit_to_people(schema, sample.numpy())
    positions = schema.positions(schema.protected)
    people = draw_people(schema, sample, n, generator)
    boxes = draw_boxes(encoding, positions, people, growth, generator)
    boxes = FeatureBoxes(boxes.lower.double(), boxes.upper.double(), boxes.categories)
    assignments = draw_assignments(schema, schema.protected, n, 2, generator)
    asked = (
        encoding.tensor(assign_protected(people, positions, assignments).flatten(0, 1)).double().unflatten(0, (n, 2))
    )
    protected = asked.clone()
    for i, block in enumerate(encoding.blocks):
        if i not in positions:
            protected[:, :, block.columns] = 0
    layers = random_layers([encoding.width, *sizes, 1], rng)
    return schema, encoding, layers, people, boxes, assignments, asked, protected


def test_two_units_by_hand() -> None:
    # One number x in [-1, 1]; the second assignment adds 1 to the first unit: z = (x, -x), then (x + 1, -x).
    # Logit relu(z1) - relu(z2) + 0.5: x + 0.5 under the first; relu(x + 1) - relu(-x) + 0.5 under the second, which is
    # x + 1.5 for x >= 0 and 2 x + 1.5 below. The difference is 1 at x >= 0 and falls to 0 at -1.
    layers = [
        (torch.tensor([[1.0, -1.0], [1.0, 0.0]]), torch.zeros(2)),
        (torch.tensor([[1.0], [-1.0]]), torch.tensor([0.5])),
    ]
    boxes = FeatureBoxes(torch.tensor([[-1.0, 0.0]]), torch.tensor([[1.0, 0.0]]), ())
    found = bound_pair(layers, boxes, torch.tensor([[[0.0, 0.0], [0.0, 1.0]]]))
    assert found.least.tolist() == [0.0]
    assert found.greatest.tolist() == [1.0]
    assert found.difference.tolist() == [1.0]
    low, high = found.intervals[0]
    assert low[0].tolist() == [[-1.0, -1.0], [0.0, -1.0]]
    assert high[0].tolist() == [[1.0, 1.0], [2.0, 1.0]]
    functions = bound_linearly(layers, found.intervals)
    # Chords have the slope 1/2 and the shift 1/2. Below, first assignment: 0 for unit 1 (a tie cuts nothing off), less
    # the chord of unit 2: -(1 - x)/2 + 1/2 = x/2. Above: the chord of unit 1 less 0: (1 + x)/2 + 1/2.
    first = torch.tensor([[[0.25, -0.25], [1.25, -0.25]]])
    assert functions.lower(first)[0].tolist() == pytest.approx([0.125, 1.375])
    # Under the second assignment unit 1 is on throughout: above it is z1 - 0 + 0.5.
    assert functions.upper(first)[0].tolist() == pytest.approx([1.125, 1.75])


@settings(max_examples=scaled(60), deadline=None)
@given(low=st.floats(-3, 3), width=st.floats(0, 4), least=st.floats(-3, 3), span=st.floats(0, 4))
def test_change_is_the_exact_range(low: float, width: float, least: float, span: float) -> None:
    z, d = np.meshgrid(np.linspace(low, low + width, 41), np.linspace(least, least + span, 41))
    seen = np.maximum(z + d, 0) - np.maximum(z, 0)
    found = bound_relu_change(
        *(torch.tensor([value], dtype=torch.float64) for value in (low, low + width, least, least + span))
    )
    assert found[0].item() == pytest.approx(seen.min(), abs=1e-9)
    assert found[1].item() == pytest.approx(seen.max(), abs=1e-9)


@settings(max_examples=scaled(40), deadline=None)
@given(seed=st.integers(0, 10_000), sizes=st.lists(st.integers(1, 6), max_size=3), growth=st.floats(0.1, 1.0))
def test_sound_for_everybody_in_the_box(seed: int, sizes: list[int], growth: float) -> None:
    schema, encoding, layers, people, boxes, assignments, _, protected = scene(seed, sizes, growth=growth)
    positions = schema.positions(schema.protected)
    found = bound_pair(layers, boxes, protected)
    functions = bound_linearly(layers, found.intervals) if sizes else None
    for n in range(len(people)):
        inside = everybody(encoding, boxes, n, positions)
        each = assign_protected(inside, positions, assignments[n].expand(len(inside), -1, -1))
        asked = encoding.tensor(each.flatten(0, 1)).double().unflatten(0, (len(inside), 2))
        logits = forward(layers, asked)
        difference = logits[:, 1] - logits[:, 0]
        # Features come in single precision, so that a number's ends are off by its rounding.
        slack = 1e-5
        assert (difference >= found.least[n] - slack).all()
        assert (difference <= found.greatest[n] + slack).all()
        low, high = found.intervals[-1]
        assert (logits >= low[n, :, 0] - slack).all()
        assert (logits <= high[n, :, 0] + slack).all()
        if functions is not None:
            first = asked @ layers[0][0] + layers[0][1]
            below = (functions.below[n] * first).sum(-1) + functions.below_constant[n]
            above = (functions.above[n] * first).sum(-1) + functions.above_constant[n]
            assert (below <= logits + slack).all()
            assert (above >= logits - slack).all()


@settings(max_examples=scaled(30), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_first_units_are_exact(seed: int) -> None:
    schema, encoding, layers, people, boxes, _assignments, _, _protected = scene(seed, [4])
    positions = schema.positions(schema.protected)
    low, high = boxes.bound_first(layers[0][0])
    for n in range(len(people)):
        inside = encoding.tensor(everybody(encoding, boxes, n, positions)).double()
        for i in positions:
            inside[:, encoding.blocks[i].columns] = 0
        units = inside @ layers[0][0]
        # The ends of a number's range need not be whole numbers: the box holds at least everybody.
        assert (low[n] <= units.amin(0) + 1e-5).all()
        assert (high[n] >= units.amax(0) - 1e-5).all()
    points = FeatureBoxes(*(encoding.tensor(people).double(),) * 2, boxes.categories)
    low, high = points.bound_first(layers[0][0])
    assert torch.allclose(low, encoding.tensor(people).double() @ layers[0][0])
    assert torch.allclose(low, high)


def test_a_box_of_one_person_leaves_nothing_open() -> None:
    _, _, layers, people, boxes, _, asked, protected = scene(3, [6, 5])
    points = FeatureBoxes(asked[:, 0] - protected[:, 0], asked[:, 0] - protected[:, 0], boxes.categories)
    found, logits = bound_pair(layers, points, protected), forward(layers, asked)
    assert torch.allclose(found.least, logits[:, 1] - logits[:, 0])
    assert torch.allclose(found.greatest, found.least)
    functions, first = bound_linearly(layers, found.intervals), asked @ layers[0][0] + layers[0][1]
    assert torch.allclose(functions.lower(first), logits)
    assert torch.allclose(functions.upper(first), logits)
    assert len(people) == 4


def test_bounding_the_difference_beats_subtracting_bounds() -> None:
    # With a small effect of what is protected: how far two logits lie apart is known much better than either.
    ratios = []
    for seed in range(20):
        _, _, layers, _, boxes, _, _, protected = scene(seed, [8, 8])
        found = bound_pair(layers, boxes, 0.05 * protected)
        low, high = found.intervals[-1]
        naive = torch.maximum(high[:, 1] - low[:, 0], high[:, 0] - low[:, 1])[:, 0]
        ratios += (found.difference / naive)[naive > TOLERANCE].tolist()
    assert np.median(ratios) < 0.2
    assert max(ratios) <= 1 + TOLERANCE


def test_decides_about_the_boxes_that_the_certifier_decides() -> None:
    """One box, the whole domain: what the certifier proves fair by symbolic intervals is mostly seen here as well."""
    ours, theirs = [], []
    for seed in range(30):
        schema, encoding, layers, _, _, _, _, _ = scene(seed, [6, 4])
        layers[-1] = (0.5 * layers[-1][0], layers[-1][1] + (seed % 6 - 2.5))
        network = encoding.additive([(weight.numpy(), bias.numpy()) for weight, bias in layers], (0, 1), 1, "network")
        certificate = certify(network, method="interval", max_boxes=1, samples=1, enumeration=False, jobs=1)
        theirs.append(certificate.certified == 1)
        lower, upper = torch.zeros((1, encoding.width)).double(), torch.zeros((1, encoding.width)).double()
        categories = []
        for attribute, block in zip(schema.attributes, encoding.blocks, strict=True):
            if not attribute.protected and attribute.is_discrete:
                upper[:, block.columns] = 1
                categories.append(block.columns)
            elif not attribute.protected:
                lower[:, block.start] = (attribute.first - block.offset) / block.scale
                upper[:, block.start] = (attribute.last - block.offset) / block.scale
        boxes = FeatureBoxes(lower, upper, tuple(categories))
        signs = set()
        for assignment in schema.assignments(schema.protected):
            individual = torch.zeros((1, len(schema.attributes))).double()
            individual[:, schema.positions(schema.protected)] = torch.from_numpy(assignment)
            protected = encoding.tensor(individual).double()
            for attribute, block in zip(schema.attributes, encoding.blocks, strict=True):
                if not attribute.protected:
                    protected[:, block.columns] = 0
            low, high = bound_pair(layers, boxes, protected[:, None].expand(-1, 2, -1)).intervals[-1]
            signs.add(1 if low.min() > 0 else -1 if high.max() <= 0 else 0)
        ours.append(len(signs) == 1 and signs != {0})
    assert sum(theirs) >= 8
    assert not any(mine and not other for mine, other in zip(ours, theirs, strict=True))
    assert sum(ours) >= 0.7 * sum(theirs)


def test_gradients() -> None:
    _, _, layers, _, boxes, _, asked, protected = scene(11, [5, 4])
    for weight, bias in layers:
        weight.requires_grad_()
        bias.requires_grad_()

    def width(*tensors: Any) -> Any:
        made = list(zip(tensors[::2], tensors[1::2], strict=True))
        found = bound_pair(made, boxes, protected)
        functions, first = bound_linearly(made, found.intervals), asked @ made[0][0] + made[0][1]
        return found.difference.sum() + (functions.upper(first) - functions.lower(first)).sum()

    assert torch.autograd.gradcheck(width, [tensor for layer in layers for tensor in layer], atol=1e-5)


def test_assignments_are_different_and_inside() -> None:
    schema, generator = small_schema(), torch.Generator().manual_seed(0)
    drawn = draw_assignments(schema, schema.protected, 200, 4, generator)
    assert drawn.shape == (200, 4, 2)
    assert all(len({tuple(row) for row in person.tolist()}) == 4 for person in drawn)
    assert {tuple(row) for row in drawn.flatten(0, 1).tolist()} == {
        tuple(row) for row in schema.assignments(schema.protected).tolist()
    }
    assert draw_assignments(schema, ["sex"], 5, 4, generator).shape == (5, 2, 1)


def test_boxes_hold_their_person_and_grow() -> None:
    schema, generator = small_schema(), torch.Generator().manual_seed(0)
    rng = np.random.default_rng(0)
    sample = torch.from_numpy(
        np.column_stack([rng.integers(int(a.first), int(a.last) + 1, 50) for a in schema.attributes]).astype(float)
    )
    encoding, widths = FeatureEncoding.fit_to_people(schema, sample.numpy()), []
    positions = schema.positions(schema.protected)
    for growth in (0.01, 0.5, 1.0):
        people = draw_people(schema, sample, 300, generator)
        assert schema.contains(people.numpy()).all()
        boxes = draw_boxes(encoding, positions, people, growth, generator)
        features = encoding.tensor(people)
        for i in positions:
            features[:, encoding.blocks[i].columns] = 0
        assert (boxes.lower <= features + 1e-6).all()
        assert (boxes.upper >= features - 1e-6).all()
        widths.append(float((boxes.upper - boxes.lower).mean()))
    assert widths[0] < widths[1] < widths[2]
