"""Which number stands for which value: a model that is fed with codes is refused where that would be a guess.

Codes in another order than the training's exchange groups without a word. So where nothing says the encoding of a
categorical attribute, the error shows the order that stands in the schema, how accurate the model is with it, and
which other order is clearly more accurate on the same people.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import DataError, ModelError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.blackbox.onnx_model import OnnxModel
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.readers.onnx_signature import encoded_attributes
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.schema import Attribute, People, attribute_to_yaml, encode
from evenhand.stats import mcnemar
from evenhand.text import format_count, format_percent, list_some
from evenhand.typing import Booleans, Floats

MAX_PEOPLE = 5_000
"""People on whom orders of codes are compared, at most: the model is asked once per person and value."""

MAX_PERMUTED = 4
"""Values up to which every order of an attribute's codes is tried (23 others); with more, exchanges of two."""

MAX_CHANGES = 8
"""Orders changed one after another, at most."""

SIGNIFICANCE = 1e-3
"""Level of McNemar's test, divided by the orders tried, at which an order is clearly more accurate."""

Orders: TypeAlias = dict[str, tuple[int, ...]]
"""By attribute, the number that each of its values gets."""


def require_encodings(scorer: Scorer, data: Any) -> Scorer:
    """Return a model, unless it is fed with numbers for categories and nothing says which number means which value.

    Args:
        scorer: a model that was just loaded.
        data: a frame of people to compare orders of codes on; without one, or without true labels, none are compared.

    Raises:
        ModelError: an attribute lacks its encoding; the message has the lines to put into a schema.
    """
    guessed = [attribute for attribute in _encoded_attributes(scorer) if attribute.lacks_encoding]
    if not guessed:
        return scorer
    orders = {attribute.name: tuple(range(len(attribute.values or ()))) for attribute in guessed}
    message = (
        f"the model takes numbers for {', '.join(orders)}, and nothing says which number stands for which value\n"
        "  in the order of the schema"
    )
    shown = "".join(f"\n    {_describe_codes(attribute, orders[attribute.name])}" for attribute in guessed)
    people = _labelled_people(scorer, data)
    if people is None:
        message += shown
    else:
        before, after, better = _better_orders(scorer, people, orders)
        who = f"of {format_count(len(people), 'person', 'people')}"
        message += f": right about {format_percent(before)} {who}{shown}"
        changed = [attribute for attribute in guessed if better[attribute.name] != orders[attribute.name]]
        if changed:
            message += f"\n  clearly more accurate on the same people: right about {format_percent(after)}"
            message += "".join(f"\n    {_describe_codes(attribute, better[attribute.name])}" for attribute in changed)
        orders = better
    lines = [
        attribute.model_copy(update={"encoding": "code" if list(codes) == sorted(codes) else codes})
        for attribute, codes in zip(guessed, orders.values(), strict=True)
    ]
    raise ModelError(
        message,
        location=scorer.name,
        hint="look up how the model was trained, and say it in the schema (`evenhand schema` writes one; in "
        "Python schema.with_encodings); if this is how, its lines are:\n" + "\n".join(map(attribute_to_yaml, lines)),
    )


def _encoded_attributes(scorer: Scorer) -> Sequence[Attribute]:
    """Return the attributes that a model is given by their encoding, not in the data's own words."""
    if isinstance(scorer, OnnxModel):
        return encoded_attributes(scorer.session, scorer.schema)
    if isinstance(scorer, AdditiveNetwork | TorchModule) or (
        isinstance(scorer, EstimatorModel) and scorer.form == "numbers"
    ):
        return scorer.schema.attributes
    return ()


def _labelled_people(scorer: Scorer, data: Any) -> People | None:
    """Return people with true labels and no missing value, drawn at random if they are many; None if there are none."""
    import narwhals as nw

    if data is None:
        return None
    table = nw.from_native(data, eager_only=True)
    if len(table) > MAX_PEOPLE:
        table = table[np.sort(np.random.default_rng(0).choice(len(table), MAX_PEOPLE, replace=False)).tolist()]
    try:
        people = encode(scorer.schema, table.to_native())
    except DataError:  # a frame of another shape is only a template
        return None
    known = people.at(np.flatnonzero(~np.isnan(people.individuals).any(axis=1)))
    return known if known.labels is not None and len(known) else None


def _better_orders(scorer: Scorer, people: People, orders: Orders) -> tuple[float, float, Orders]:
    """Return the accuracy with these orders of codes, that with clearly better ones, and the better ones.

    The order of one attribute is changed at a time, the one that gains most, until no change is clearly better.
    With more than two labels the model is right if it gives the favourable one to those who truly have it, and to no
    one else.
    """

    def is_right(individuals: Floats) -> Booleans:
        return np.asarray((predict_labels(scorer, individuals) == scorer.favourable) == people.favourable)

    # Another code for a value is what the model gets for the value that has this code in the schema.
    asked, everybody = people.individuals.copy(), np.arange(len(people))
    right = is_right(asked)
    before = float(right.mean())
    for _ in range(MAX_CHANGES):
        tried = {name: list(_other_orders(codes)) for name, codes in orders.items()}
        level = SIGNIFICANCE / max(1, sum(map(len, tried.values())))
        best, gain = None, 0
        for name, candidates in tried.items():
            column = scorer.schema.position(name)
            by_code = np.empty((len(orders[name]), len(people)), dtype=bool)
            for code in range(len(by_code)):
                changed = asked.copy()
                changed[:, column] = code
                by_code[code] = is_right(changed)
            for codes in candidates:
                mapped = np.array(codes)[people.individuals[:, column].astype(np.int64)]
                now = by_code[mapped, everybody]
                gained, lost = int((now & ~right).sum()), int((right & ~now).sum())
                if gained - lost > gain and mcnemar(gained, lost) <= level:
                    best, gain = (name, codes, column, mapped, now), gained - lost
        if best is None:
            break
        name, codes, column, asked[:, column], right = best
        orders = orders | {name: codes}
    return before, float(right.mean()), orders


def _other_orders(codes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield other orders of an attribute's codes: all where there are few values, else exchanges of two."""
    if len(codes) <= MAX_PERMUTED:
        yield from (order for order in itertools.permutations(range(len(codes))) if order != codes)
        return
    for i, j in itertools.combinations(range(len(codes)), 2):
        exchanged = list(codes)
        exchanged[i], exchanged[j] = codes[j], codes[i]
        yield tuple(exchanged)


def _describe_codes(attribute: Attribute, codes: Sequence[int]) -> str:
    """Return which number each value gets, the smallest numbers first."""
    values = attribute.values or ()
    return f"{attribute.name}: " + list_some([f"{codes[i]} {values[i]}" for i in np.argsort(codes)])
