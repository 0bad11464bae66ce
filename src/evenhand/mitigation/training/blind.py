"""Fairness through unawareness: a model that does not look at what is protected. An honest baseline, no cure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.mitigation.candidate import Candidate, MitigationTask, Trial, accuracy, measure_all
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.split import TrainingSet
from evenhand.mitigation.training.network import write_network
from evenhand.models.additive.network import AdditiveNetwork, AttributeTerm, LineTerm, StepTerm, TableTerm
from evenhand.models.scorer import Scorer, WrappedScorer
from evenhand.schema.people import People, decode
from evenhand.schema.schema import Schema
from evenhand.schema.table import plain_value

PROXIES = (
    "No decision can flip with what it does not look at. What goes along with it, such as a job or a place to live, "
    "still speaks for it: gaps between groups need not close, and may widen."
)
"""What a reader must know about every model that is made blind."""


@dataclass(frozen=True, eq=False)
class BlindModel(WrappedScorer):
    """A model that is asked about everybody as if they had the same protected values.

    Attributes:
        model: the model asked.
        columns: positions of the protected attributes.
        entries: what it is told there, shape (columns,).
    """

    model: Scorer
    columns: tuple[int, ...]
    entries: Floats

    @property
    def name(self) -> str:
        """How to call it in a report."""
        return f"{self.model.name}, blind"

    def scores(self, individuals: Floats) -> Floats:
        """Return one column per class, shape (n, classes)."""
        return self.model.scores(fix_columns(individuals, self.columns, self.entries))

    def predict(self, individuals: Floats) -> Integers:
        """Return the label of each, shape (n,)."""
        return self.model.predict(fix_columns(individuals, self.columns, self.entries))


def blind(task: MitigationTask) -> Candidate:
    """Return the model without what is protected: its counterfactual flip rate is exactly 0.

    Of an additive network the protected attributes' parts are replaced by their averages over the training set,
    and nothing is trained. Any other model is retrained on people whose protected values are all the same, the most
    frequent ones, and is asked so ever after.

    Raises:
        OptionError: no attribute is protected, or it is not known how to train such a model.
    """
    schema, parts = task.split.train.schema, task.split
    names = find_protected(task)
    given = task.given
    notes: tuple[str, ...] = (PROXIES,)
    if isinstance(given, AdditiveNetwork):
        task.progress("making the network blind", 0.0)
        network = average_protected(given, parts.train, schema.positions(names))
        words = f"its {' and '.join(names)} replaced by their average over the training set"
        scorer: Scorer = network
        save = partial(write_network, network)
    elif task.learner is None:
        raise OptionError(
            "a model whose inside is not known is made blind by retraining it, and it is not known how",
            location="`methods=blind`",
            hint="name a function that trains such a model: `fit=module:function`",
        )
    else:
        learner = task.learner
        task.progress("training without what is protected", 0.0)
        columns = tuple(schema.positions(names))
        entries = most_frequent_row(parts.train.individuals[:, columns])
        model = learner.fit(TrainingSet.plain(fix_people(parts.train, columns, entries)), seed=task.config.seed)
        scorer = BlindModel(model, columns, entries)
        told = ", ".join(
            f"{name} = {_entry_text(schema, name, entry)}" for name, entry in zip(names, entries, strict=True)
        )
        words = f"{learner.name}, for everybody told {told}"
        notes = (*notes, f"The file holds the model alone: tell it {told} for everybody it is asked about.")
        save = partial(learner.save, model)
    people = parts.validation
    trial = Trial(
        setting="blind",
        value=1.0,
        accuracy=accuracy(scorer, people),
        harms=measure_all(scorer, people, task.harms),
        chosen=True,
    )
    return Candidate(method="blind", words=words, scorer=scorer, save=save, trials=(trial,), notes=notes)


def find_protected(task: MitigationTask) -> tuple[str, ...]:
    """The attributes that decisions must not depend on: those that the schema protects, and those found to flip any.

    Raises:
        OptionError: there is none.
    """
    schema = task.split.train.schema
    flipping = [name for harm in task.harms if isinstance(harm, FlipMetric) for name in harm.protected]
    names = tuple(dict.fromkeys([*schema.protected, *flipping]))
    if not names:
        raise OptionError("no attribute is protected", hint="name protected attributes: `protected=NAME`")
    return names


def average_protected(network: AdditiveNetwork, people: People, positions: Sequence[int]) -> AdditiveNetwork:
    """Return a network that sees some attributes as the average of what it sees of people: the same for everybody."""
    made = list(network.parts)
    for i in positions:
        made[i] = _constant_part(made[i], made[i].at(people.individuals[:, i]).mean(axis=0))
    return AdditiveNetwork(
        network.schema,
        tuple(made),
        network.bias,
        network.layers,
        network.classes,
        network.favourable,
        f"{network.name}, blind",
    )


def _constant_part(part: AttributeTerm, mean: Floats) -> AttributeTerm:
    """Return a part of the same kind that always adds this."""
    if isinstance(part, TableTerm):
        return TableTerm(np.tile(mean, (len(part.rows), 1)), part.first)
    if isinstance(part, StepTerm):
        return StepTerm(part.cuts, np.tile(mean, (len(part.rows), 1)))
    return LineTerm(np.zeros_like(mean), mean)


def fix_columns(individuals: Floats, columns: Sequence[int], entries: Floats) -> Floats:
    """Return individuals with the same entries in some columns."""
    told = individuals.copy()
    told[:, list(columns)] = entries
    return told


def fix_people(people: People, columns: Sequence[int], entries: Floats) -> People:
    """Return the same people with the same entries in some columns, in their frame as well."""
    frame = people.frame
    if frame is not None:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        row = nw.from_native(decode(people.schema, fix_columns(people.individuals[:1], columns, entries), like=frame))
        told = [people.schema.names[column] for column in columns]
        frame = table.with_columns(
            *(nw.lit(plain_value(row[name].to_list()[0])).cast(table.schema[name]).alias(name) for name in told)
        ).to_native()
    return dataclasses.replace(people, individuals=fix_columns(people.individuals, columns, entries), frame=frame)


def most_frequent_row(rows: Floats) -> Floats:
    """Return the row that occurs most often, the least of several."""
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()])


def _entry_text(schema: Schema, name: str, entry: float) -> str:
    attribute = schema[name]
    return str(attribute.values[int(entry)]) if attribute.values is not None else f"{entry:g}"
