"""Fairness through unawareness: a model that does not look at what is protected. An honest baseline, no cure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.mitigate.candidate import Candidate, Situation, Trial
from evenhand.mitigate.choice import accuracy, sizes
from evenhand.mitigate.harms import FlipHarm
from evenhand.mitigate.lesson import Lesson
from evenhand.mitigate.training.saving import write_network
from evenhand.models import Scorer
from evenhand.models.additive import AdditiveNetwork, Line, Part, Steps, Table
from evenhand.schema import People, Schema, Value, decode
from evenhand.schema.people import plain

PROXIES = (
    "No decision can flip with what it does not look at. What goes along with it, such as a job or a place to live, "
    "still speaks for it: gaps between groups need not close, and may widen."
)
"""What a reader must know about every model that is made blind."""


@dataclass(frozen=True, eq=False)
class Blind:
    """A model that is asked about everybody as if they had the same protected values.

    Attributes:
        model: the model asked.
        columns: positions of the protected attributes.
        entries: what it is told there, shape (columns,).
    """

    model: Scorer
    columns: tuple[int, ...]
    entries: NDArray[np.float64]

    @property
    def schema(self) -> Schema:
        """What its individuals are."""
        return self.model.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        """The labels it can give."""
        return self.model.classes

    @property
    def favourable(self) -> int:
        """Position of the favourable label."""
        return self.model.favourable

    @property
    def label_only(self) -> bool:
        """Whether the scores are only the labels."""
        return self.model.label_only

    @property
    def name(self) -> str:
        """How to call it in a report."""
        return f"{self.model.name}, blind"

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """One column per class, shape (n, classes)."""
        return self.model.scores(fixed(individuals, self.columns, self.entries))

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        """The label of each, shape (n,)."""
        return self.model.predict(fixed(individuals, self.columns, self.entries))


def blind(situation: Situation) -> Candidate:
    """The model without what is protected: its violation rate is exactly 0.

    Of an additive network the protected attributes' parts are replaced by their averages over the people learnt from,
    and nothing is trained. Any other model is trained anew on people whose protected values are all the same, the most
    frequent ones, and is asked so ever after.

    Raises:
        OptionError: no attribute is protected, or nobody knows how such a model is trained.
    """
    schema, parts = situation.split.train.schema, situation.split
    names = protected_of(situation)
    given = situation.given
    notes: tuple[str, ...] = (PROXIES,)
    if isinstance(given, AdditiveNetwork):
        situation.progress("making the network blind", 0.0)
        network = averaged(given, parts.train, schema.positions(names))
        words = f"its {' and '.join(names)} replaced by their average over the people learnt from"
        scorer: Scorer = network
        save = partial(write_network, network)
    elif situation.learner is None:
        raise OptionError(
            "a model whose inside is not known is made blind by training it anew, and nobody knows how",
            where="--method blind",
            mend="name a function that trains such a model: --fit module:function (in Python: fit=function)",
        )
    else:
        learner = situation.learner
        situation.progress("training without what is protected", 0.0)
        columns = tuple(schema.positions(names))
        entries = most_frequent(parts.train.individuals[:, columns])
        model = learner.fit(Lesson.plain(alike(parts.train, columns, entries)), seed=situation.config.seed)
        scorer = Blind(model, columns, entries)
        told = ", ".join(f"{name} = {_word(schema, name, entry)}" for name, entry in zip(names, entries, strict=True))
        words = f"{learner.name}, for everybody told {told}"
        notes = (*notes, f"The file holds the model alone: tell it {told}, whoever it is asked about.")
        save = partial(learner.save, model)
    people = parts.validation
    trial = Trial(
        setting="blind", value=1.0, accuracy=accuracy(scorer, people), harms=sizes(scorer, people, situation.harms),
        chosen=True,
    )  # fmt: skip
    return Candidate(method="blind", words=words, scorer=scorer, save=save, trials=(trial,), notes=notes)


def protected_of(situation: Situation) -> tuple[str, ...]:
    """The attributes that decisions must not depend on: those that the schema protects, and those found to flip any.

    Raises:
        OptionError: there is none.
    """
    schema = situation.split.train.schema
    flipping = [name for harm in situation.harms if isinstance(harm, FlipHarm) for name in harm.protected]
    names = tuple(dict.fromkeys([*schema.protected, *flipping]))
    if not names:
        raise OptionError("no attribute is protected", mend="name protected attributes: --protected")
    return names


def averaged(network: AdditiveNetwork, people: People, positions: Sequence[int]) -> AdditiveNetwork:
    """A network that sees some attributes as the average of what it sees of people: the same for everybody."""
    made = list(network.parts)
    for i in positions:
        made[i] = _constant(made[i], made[i].at(people.individuals[:, i]).mean(axis=0))
    return AdditiveNetwork(
        network.schema, tuple(made), network.bias, network.layers, network.classes, network.favourable,
        f"{network.name}, blind",
    )  # fmt: skip


def _constant(part: Part, mean: NDArray[np.float64]) -> Part:
    """A part of the same kind that always adds this."""
    if isinstance(part, Table):
        return Table(np.tile(mean, (len(part.rows), 1)), part.first)
    if isinstance(part, Steps):
        return Steps(part.cuts, np.tile(mean, (len(part.rows), 1)))
    return Line(np.zeros_like(mean), mean)


def fixed(
    individuals: NDArray[np.float64], columns: Sequence[int], entries: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Individuals with the same entries in some columns."""
    told = individuals.copy()
    told[:, list(columns)] = entries
    return told


def alike(people: People, columns: Sequence[int], entries: NDArray[np.float64]) -> People:
    """The same people with the same entries in some columns, in their frame as well."""
    frame = people.frame
    if frame is not None:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        row = nw.from_native(decode(people.schema, fixed(people.individuals[:1], columns, entries), like=frame))
        told = [people.schema.names[column] for column in columns]
        frame = table.with_columns(
            *(nw.lit(plain(row[name].to_list()[0])).cast(table.schema[name]).alias(name) for name in told)
        ).to_native()
    return dataclasses.replace(people, individuals=fixed(people.individuals, columns, entries), frame=frame)


def most_frequent(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The row that occurs most often, the least of several."""
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()])


def _word(schema: Schema, name: str, entry: float) -> str:
    attribute = schema[name]
    return str(attribute.values[int(entry)]) if attribute.values is not None else f"{entry:g}"
