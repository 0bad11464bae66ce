"""Counterfactual flip rates between people who can exist, beside the published counting, on four data sets.

    python benchmarks/plausible.py                  adult, german, compas, bank; a minute
    python benchmarks/plausible.py --only adult

The model is that of ``evenhand audit --example``; networks AC-1 and AC-2 of FairQuant (Kim, Wang & Wang, ICSE 2025) are
asked too where the repository's shared data are there. A row says for how many people of the data the decision flips
when the protected attribute alone changes (published), and against plausible counterparts (counterfactual); how many
people have none or break a rule; how many of the published flips need somebody who breaks a rule; and how many of the
flips of either kind favour the value that is named. Where a data set's schema has no rules both rates are the same.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand import datasets
from evenhand.auditing import train_example
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual import FlipConfig, measure_flips
from evenhand.individual.flips import first_difference
from evenhand.models import Scorer, load_model, predict_labels
from evenhand.population import product_of_marginals
from evenhand.schema import People, Schema, counterparts_of, encode

RESULTS = Path(__file__).parent / "results" / "plausible.json"
SHARED = Path(os.environ.get("EVENHAND_SHARED", Path(__file__).parents[2] / "shared")) / "data"
NETWORKS, TABLES = SHARED / "certify", SHARED / "tabular"
DATASETS = ("adult", "german", "compas", "bank")


@dataclass(frozen=True)
class Row:
    """Flips of one model with one protected attribute, in people, and the value that most flips favour."""

    data: str
    model: str
    protected: str
    people: int
    published: int
    flips: int
    compared: int
    without: int
    breaking: int
    implausible: int
    favoured: str
    published_in_favour: int
    flips_in_favour: int


def example_cases(name: str) -> Iterator[tuple[str, Scorer, People]]:
    """Yield the example's model, and networks for Adult, each with the people it has not seen."""
    dataset = datasets.load_dataset(name, data_home=TABLES if TABLES.is_dir() else None)
    trained, held_out = train_example(dataset)
    people = encode(dataset.schema, held_out)
    yield "example", load_model(trained, people.schema), people
    if name != "adult" or not NETWORKS.exists():
        return
    schema = network_schema(dataset.schema)
    people = encode(schema, held_out)
    for network in ("AC-1", "AC-2"):
        yield network, load_model(NETWORKS / f"{network}.npz", people.schema), people


def network_schema(schema: Schema) -> Schema:
    """Return the domain of FairQuant's Adult networks, with the rules of a schema by its own names and values."""
    domain = json.loads((NETWORKS / "domains.json").read_text("utf-8"))["adult"]
    attributes: list[dict[str, Any]] = []
    for each in domain["attributes"]:
        entry: dict[str, Any] = {"name": each["name"].replace("-", "_")}
        if "equal-width" in each.get("note", ""):
            last = float(each["note"].rsplit("..", 1)[1])
            entry |= {"kind": "ordinal", "edges": np.linspace(0, last, each["upper"] + 2).tolist()}
        elif "codes" in each:
            entry |= {"kind": "categorical", "values": each["codes"], "encoding": "code", "missing": "drop"}
        else:
            entry |= {"kind": "integer", "lower": each["lower"], "upper": each["upper"]}
        entry |= {"protected": True, "missing": "refuse"} if each["name"] == "sex" else {}
        attributes.append(entry)
    plain = json.loads(schema.model_dump_json())
    rules = [rule for rule in schema.rules if '"?"' not in rule]  # these people are not in the networks' domain
    ties = {"rules": rules, "dependencies": plain["dependencies"], "links": plain["links"]}
    return Schema.parse({"target": plain["target"], "missing_markers": ["?"], "attributes": attributes} | ties)


def measure(data: str, name: str, scorer: Scorer, people: People) -> Iterator[Row]:
    """Yield one row per protected attribute."""
    protected = people.schema.protected
    results = [
        measure_flips(
            scorer,
            people,
            product_of_marginals(people),
            FlipConfig(protected=protected, samples=1, examples=0, as_published=as_published),
        )
        for as_published in (True, False)
    ]
    for attribute in protected:
        published, rate = (result.rate((attribute,), "data") for result in results)
        assert published is not None
        assert rate is not None
        favoured, published_in_favour, flips_in_favour, implausible = count_favoured(scorer, people, attribute)
        yield Row(
            data=data,
            model=name,
            protected=attribute,
            people=published.n,
            published=published.flips,
            flips=rate.flips,
            compared=rate.n,
            without=rate.without,
            breaking=rate.breaking,
            implausible=implausible,
            favoured=favoured,
            published_in_favour=published_in_favour,
            flips_in_favour=flips_in_favour,
        )


def count_favoured(scorer: Scorer, people: People, attribute: str) -> tuple[str, int, int, int]:
    """Find the value that most published flips favour.

    Returns:
        The value, the flips of either kind that favour it, and the published flips that need a person who breaks a
        rule.
    """
    counterparts = counterparts_of(people.schema, [attribute])
    variants, plausible = counterparts.of(people.individuals)
    published = np.repeat(people.individuals[:, None, :], variants.shape[1], axis=1)
    published[:, :, people.schema.position(attribute)] = counterparts.assignments[:, 0]
    possible = people.schema.obeys_rules(published.reshape(-1, published.shape[2])).reshape(plausible.shape)
    labels = predict_labels(scorer, published.reshape(-1, published.shape[2])).reshape(plausible.shape)
    implausible = flips_among(labels, np.ones_like(possible)) & ~flips_among(labels, possible)
    sides = [decide(scorer, published, np.ones_like(plausible)), decide(scorer, variants, plausible)]
    best = int(np.argmax(sides[0].sum(axis=0)))
    value = people.schema[attribute].text(counterparts.assignments[best, 0])
    return value, int(sides[0][:, best].sum()), int(sides[1][:, best].sum()), int(implausible.sum())


def flips_among(labels: Integers, compared: Booleans) -> Booleans:
    """Return who has different labels under the compared assignments, shape (n,)."""
    first, other = first_difference(labels, compared).T
    return np.asarray(first != other)


def decide(scorer: Scorer, variants: Floats, compared: Booleans) -> Booleans:
    """Return who flips and has the favourable label under each assignment, shape (n, assignments)."""
    labels = predict_labels(scorer, variants.reshape(-1, variants.shape[2])).reshape(compared.shape)
    flips = flips_among(labels, compared) & (compared.sum(axis=1) > 1)
    return np.asarray(flips[:, None] & compared & (labels == scorer.favourable))


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table(title="Counterfactual flip rates of people in the data")
    for column in (
        "data",
        "model",
        "protected",
        "published",
        "counterfactual",
        "no counterpart",
        "break a rule",
        "need a rule broken",
        "favour, published",
        "favour, counterfactual",
    ):
        table.add_column(column, justify="left" if column in ("data", "model", "protected") else "right")
    for row in rows:
        table.add_row(
            row.data,
            row.model,
            row.protected,
            f"{share(row.published, row.people)} ({row.published:,} of {row.people:,})",
            f"{share(row.flips, row.compared)} ({row.flips:,} of {row.compared:,})",
            share(row.without, row.people),
            f"{row.breaking:,}",
            share(row.implausible, row.published),
            f"{row.favoured} {share(row.published_in_favour, row.published)}",
            f"{row.favoured} {share(row.flips_in_favour, row.flips)}",
        )
    Console(width=200).print(table)


def share(count: int, of: int) -> str:
    """Return a share in percent."""
    return f"{100 * count / of:.2f} %" if of else "-"


def main() -> None:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=DATASETS, help="one data set")
    only = parser.parse_args().only
    rows = [
        row
        for data in DATASETS
        if only in (None, data)
        for name, scorer, people in example_cases(data)
        for row in measure(data, name, scorer, people)
    ]
    show(rows)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")


if __name__ == "__main__":
    main()
