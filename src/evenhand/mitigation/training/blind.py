"""Fairness through unawareness: models that ignore the protected attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
from evenhand.schema.table import plain_value

PROXIES = (
    "A decision cannot flip with an attribute that the model ignores. Correlated attributes, such as an occupation or "
    "a place of residence, can still act as proxies: gaps between groups need not close, and may widen."
)
"""Note about all blind models."""


@dataclass(frozen=True, eq=False)
class BlindModel(WrappedScorer):
    """Model that receives the same protected values for all people.

    Attributes:
        model: Wrapped model.
        columns: Positions of the protected attributes.
        entries: Their fixed values, shape (columns,).
    """

    decides = True

    model: Scorer
    columns: tuple[int, ...]
    entries: Floats

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.model.name}, blind"

    def scores(self, individuals: Floats) -> Floats:
        """Compute the score of each class, shape (n, classes)."""
        return self.model.scores(fix_columns(individuals, self.columns, self.entries))

    def predict(self, individuals: Floats) -> Integers:
        """Predict the label of each individual, shape (n,)."""
        return self.model.predict(fix_columns(individuals, self.columns, self.entries))


def blind(task: MitigationTask) -> Candidate:
    """Make a model ignore the protected attributes, so that its counterfactual flip rate is exactly 0.

    In an additive network, the terms of the protected attributes are replaced by their averages over the training set,
    without training. Any other model is retrained with the protected values of all people replaced by the most frequent
    ones, and receives the same values for predictions.

    Raises:
        OptionError: No attribute is protected, or the model has no learner.
    """
    schema, train, people = task.split.train.schema, task.split.train, task.split.validation
    names, model = find_protected(task), task.given
    notes: tuple[str, ...] = (PROXIES,)
    scorer: Scorer
    save: Callable[[Path], tuple[Path, ...]]
    if isinstance(model, AdditiveNetwork):
        task.progress("averaging the protected attributes", 0.0)
        scorer = average_protected(model, train, schema.positions(names))
        words = f"its {' and '.join(names)} replaced by their average over the training set"
        save = partial(write_network, scorer)
    elif task.learner is None:
        raise OptionError(
            "this model cannot be retrained, which the method blind requires",
            location="`methods=blind`",
            hint="name a training function: `fit=module:function`",
        )
    else:
        task.progress("training without the protected attributes", 0.0)
        columns = tuple(schema.positions(names))
        entries = most_frequent_row(train.individuals[:, columns])
        retrained = task.learner.fit(TrainingSet.plain(fix_people(train, columns, entries)), seed=task.config.seed)
        scorer = BlindModel(retrained, columns, entries)
        values = ", ".join(f"{name} = {schema[name].text(entry)}" for name, entry in zip(names, entries, strict=True))
        words = f"{task.learner.name}, with {values} for all people"
        notes = (*notes, f"The file contains the model alone. Set {values} for each person that it decides about.")
        save = partial(task.learner.save, retrained)
    trial = Trial(
        setting="blind",
        value=1.0,
        accuracy=accuracy(scorer, people),
        harms=measure_all(scorer, people, task.harms),
        chosen=True,
    )
    return Candidate(method="blind", words=words, scorer=scorer, save=save, trials=(trial,), notes=notes)


def find_protected(task: MitigationTask) -> tuple[str, ...]:
    """Collect the protected attributes of the schema and the attributes whose flips are measured.

    Raises:
        OptionError: No attribute is protected.
    """
    schema = task.split.train.schema
    flipping = [name for metric in task.harms if isinstance(metric, FlipMetric) for name in metric.protected]
    names = tuple(dict.fromkeys([*schema.protected, *flipping]))
    if not names:
        raise OptionError("no attribute is protected", hint="name protected attributes: `protected=NAME`")
    return names


def average_protected(network: AdditiveNetwork, people: People, positions: Sequence[int]) -> AdditiveNetwork:
    """Replace the terms of some attributes of a network by their averages over people."""
    parts = list(network.parts)
    for i in positions:
        parts[i] = _constant_part(parts[i], parts[i].at(people.individuals[:, i]).mean(axis=0))
    return AdditiveNetwork(
        network.schema,
        tuple(parts),
        network.bias,
        network.layers,
        network.classes,
        network.favourable,
        f"{network.name}, blind",
    )


def _constant_part(part: AttributeTerm, mean: Floats) -> AttributeTerm:
    """Build a constant term of the same kind."""
    if isinstance(part, TableTerm):
        return TableTerm(np.tile(mean, (len(part.rows), 1)), part.first)
    if isinstance(part, StepTerm):
        return StepTerm(part.cuts, np.tile(mean, (len(part.rows), 1)))
    return LineTerm(np.zeros_like(mean), mean)


def fix_columns(individuals: Floats, columns: Sequence[int], entries: Floats) -> Floats:
    """Copy individuals with fixed entries in some columns."""
    fixed = individuals.copy()
    fixed[:, list(columns)] = entries
    return fixed


def fix_people(people: People, columns: Sequence[int], entries: Floats) -> People:
    """Copy people, and fix the entries of some columns in the copy and in its data frame."""
    frame = people.frame
    if frame is not None:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        row = nw.from_native(decode(people.schema, fix_columns(people.individuals[:1], columns, entries), like=frame))
        names = [people.schema.names[column] for column in columns]
        frame = table.with_columns(
            *(nw.lit(plain_value(row[name].to_list()[0])).cast(table.schema[name]).alias(name) for name in names)
        ).to_native()
    return dataclasses.replace(people, individuals=fix_columns(people.individuals, columns, entries), frame=frame)


def most_frequent_row(rows: Floats) -> Floats:
    """Find the most frequent row, the smallest if there are several."""
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()])
