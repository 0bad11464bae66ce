"""Less discriminatory alternatives beside fairlearn and aif360, tuned to the same loss of accuracy, on five data sets.

    python benchmarks/alternatives.py                   goes on where it was stopped; 10 minutes at most, then again
    python benchmarks/alternatives.py --minutes 60      longer
    python benchmarks/alternatives.py --only german     some data sets
    python benchmarks/alternatives.py --table           what is done by now, without measuring

In every split three quarters of the people, at most 12,000, are to learn from, and all others are kept aside. The given
model is a logistic regression that is not told the protected attribute, trained on those three quarters, from which
every method learns and chooses as well. A method makes a curve: loss of accuracy and gap of selection rates on the
people kept aside, one point for each setting, averaged over the splits. Ours has a point for each loss that is aimed
at: the candidate with the smallest gap among those that lose no more on cross-fitted scores, so that nothing is chosen
by looking at the people kept aside. The others' points are their settings: bounds, or the share of people for whom the
method decides in place of the given model, which any curve can be mixed with by lot. Read is the gap at an equal loss
on the lower hull of the mean curve; standard errors are those of the jackknife over splits. The exponentiated gradient
takes long: it has two bounds, so chosen that their losses are near those that are read.

Needs fairlearn and aif360. What was measured of each split stays in benchmarks/results/alternatives/.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evenhand import datasets
from evenhand.errors import FetchError
from evenhand.mitigation.alternatives.analysis import find_alternatives
from evenhand.mitigation.alternatives.result import AlternativesResult
from evenhand.models import Subject
from evenhand.schema import People, Schema, encode
from evenhand.view.drawing.theme import DASHES, LIGHT, SERIES, Spec, finish_chart, mark_layer, to_svg

SHARED = Path(os.environ.get("EVENHAND_SHARED", Path(__file__).resolve().parents[2] / "shared"))
FOLDER = Path(__file__).parent / "results" / "alternatives"
MOST = 12_000
"""People to learn from and choose on."""
KNOWN = 0.75
"""Their share where there are fewer."""
SPLITS = 20
ALLOWED = 0.003
AIMED = tuple(step / 1000 for step in range(-4, 31))
"""Losses of accuracy on cross-fitted scores that a point of our curve is for."""
MIXED = tuple(tenth / 10 for tenth in range(11))
BOUNDS = (0.6, 0.3, 0.05)
"""Bounds of the reject option's differences of rates, as shares of the given model's gap."""
GRADIENT_BOUNDS = (0.85, 0.5)
"""The same of the exponentiated gradient, which takes long: nearer to the losses that are read."""
LOSSES = {"german": (0.01, 0.02)}
USUAL_LOSSES = (0.003, 0.01)
BLIND, TOLD = "not told", "told"
METHODS = {
    "reweigh and tilt": BLIND,
    "aif360 reweighing": BLIND,
    "fairlearn exponentiated gradient": BLIND,
    "thresholds": TOLD,
    "fairlearn threshold optimizer": TOLD,
    "aif360 reject option": TOLD,
}
"""Each with whether it must be told the protected attribute when it decides."""


class Setting(NamedTuple):
    """A data set, the attribute that makes two groups, and the values of the first of them."""

    data: str
    attribute: str
    first: tuple[Any, ...]
    second: tuple[Any, ...] | None = None


SETTINGS = {
    "adult": Setting("adult", "sex", ("Female",)),
    "bank": Setting("bank", "marital", ("married",)),
    "compas": Setting("compas", "race", ("African-American",), ("Caucasian",)),
    "crime": Setting("communities-crime", "racepctblack", ()),
    "german": Setting("german", "sex", ("female",)),
}


def load(name: str) -> People | None:
    """People in two groups; None where the data is not here."""
    setting = SETTINGS[name]
    tables = SHARED / "data" / "tabular"
    try:
        data = datasets.load_dataset(setting.data, data_home=tables if tables.is_dir() else None, download=False)
    except FetchError:
        return None
    frame, described = data.frame, data.schema.model_dump()
    if setting.first:
        column = frame[setting.attribute]
        if setting.second is not None:
            frame = frame[column.isin([*setting.first, *setting.second])]
            column = frame[setting.attribute]
        frame = frame.assign(**{setting.attribute: np.where(column.isin(setting.first), "first", "second")})
        described["attributes"] = [
            {"name": one["name"], "kind": "categorical", "values": ["first", "second"], "protected": True}
            if one["name"] == setting.attribute
            else one
            for one in described["attributes"]
        ]
        described = {key: described[key] for key in ("target", "attributes")}
    described["attributes"] = [
        one | {"encoding": "code"} if one.get("values") is not None else one for one in described["attributes"]
    ]
    schema = Schema.parse(described).with_protected([setting.attribute])
    return encode(schema, frame.reset_index(drop=True))


class Half(NamedTuple):
    """Some people as a frame, with true labels (0, 1) and groups (0, 1)."""

    rows: Any
    label: Any
    group: Any

    @classmethod
    def of(cls, people: People) -> Half:
        """From people of two groups."""
        codes = people.individuals[:, people.schema.position(people.schema.protected[0])]
        frame = people.frame.iloc[people.rows][list(people.schema.names)].reset_index(drop=True)
        return cls(frame, people.favourable.astype(int), np.unique(codes, return_inverse=True)[1])


def untrained(people: People) -> Any:
    """A logistic regression over everything but the protected attribute: words one-hot, numbers standardised."""
    kept = [one.name for one in people.schema.attributes if not one.protected]
    numbers = [name for name in kept if pd.api.types.is_numeric_dtype(people.frame[name])]
    words = [name for name in kept if name not in numbers]
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(
        make_column_transformer((encoder, words), (StandardScaler(), numbers)), LogisticRegression(max_iter=500)
    )


def signed(chance: Any, half: Half) -> tuple[float, float]:
    """Accuracy and signed gap of decisions, or of chances of them."""
    right = np.where(half.label == 1, chance, 1 - chance).mean()
    return float(right), float(chance[half.group == 1].mean() - chance[half.group == 0].mean())


def measure(name: str, split: int) -> dict[str, Any]:
    """Curves of all methods on one split, and what our choice came to."""
    people = load(name)
    assert people is not None, "looked for before"
    order = np.random.default_rng([split, 5]).permutation(len(people))
    most = min(MOST, round(KNOWN * len(people)))
    known, test = (people.at(np.sort(rows)) for rows in (order[:most], order[most:]))
    schema = people.schema
    learn, aside = Half.of(known), Half.of(test)
    base = untrained(people)
    values = np.asarray(schema.target.values, dtype=object)
    model = clone(base).fit(learn.rows, list(values[known.labels]))
    given = (model.predict(aside.rows) == schema.target.favourable).astype(float)
    start = signed(given, aside)
    curves: dict[str, list[tuple[float, float]]] = {}
    seconds: dict[str, float] = {}

    def timed(method: str, points: Iterator[tuple[float, float]]) -> None:
        before = time.process_time()
        curves[method] = [(start[0] - right, gap) for right, gap in points]
        seconds[method] = time.process_time() - before

    chosen: dict[str, Any] = {}
    for method, families in (("reweigh and tilt", ("reweigh", "tilt")), ("thresholds", ("thresholds",))):
        before = time.process_time()
        without = schema.protected if method == "reweigh and tilt" else ()
        found = find_alternatives(
            Subject(model, known),
            test=test,
            methods=families,
            decide_without=without,
            accuracy_loss=ALLOWED,
            seed=split,
        ).result
        seconds[method] = time.process_time() - before
        curves[method] = [ours(found, aimed) for aimed in AIMED]
        chosen[method] = told(found)
    timed("aif360 reweighing", mixed(given, reweighed(base, learn, aside), aside))
    timed("fairlearn exponentiated gradient", gradient(base, learn, aside, abs(start[1])))
    timed("fairlearn threshold optimizer", mixed(given, optimised(base, learn, aside), aside))
    timed("aif360 reject option", rejected(base, learn, aside, abs(start[1])))
    return {
        "data": name,
        "split": split,
        "aside": len(test),
        "given": start,
        "curves": curves,
        "chosen": chosen,
        "seconds": seconds,
    }


def ours(found: AlternativesResult, aimed: float) -> tuple[float, float]:
    """Loss and gap on the people kept aside of the candidate with the smallest gap at a loss aimed at."""
    affordable = [one for one in found.candidates if one.number == 0 or one.loss <= aimed]
    best = min(affordable, key=lambda one: (one.validation.gap, one.loss))
    first, second = best.test.selection_rates.values()
    return found.candidates[0].test.accuracy - best.test.accuracy, second - first


def told(found: AlternativesResult) -> dict[str, Any]:
    """What the rule chose, and how it fared."""
    picked, given = found.candidates[found.picked], found.candidates[0]
    return {
        "number": picked.number,
        "loss": given.test.accuracy - picked.test.accuracy,
        "gap": picked.test.gap,
        "given_gap": given.test.gap,
        "written": found.chosen is not None,
        "candidates": len(found.candidates),
        "recipe": picked.recipe,
    }


def mixed(given: Any, chance: Any, aside: Half) -> Iterator[tuple[float, float]]:
    """Decisions by lot between the given model and another one."""
    for weight in MIXED:
        yield signed((1 - weight) * given + weight * chance, aside)


def as_dataset(half: Half, label: Any, scores: Any = None) -> Any:
    """The labels and groups as aif360 wants them."""
    from aif360.datasets import BinaryLabelDataset

    made = BinaryLabelDataset(
        df=pd.DataFrame({"group": half.group.astype(float), "label": np.asarray(label, dtype=float)}),
        label_names=["label"],
        protected_attribute_names=["group"],
    )
    if scores is not None:
        made.scores = np.asarray(scores, dtype=float).reshape(-1, 1)
    return made


GROUPS = {"unprivileged_groups": [{"group": 0.0}], "privileged_groups": [{"group": 1.0}]}


def reweighed(base: Any, learn: Half, aside: Half) -> Any:
    """Decisions of a model trained on aif360's weights."""
    from aif360.algorithms.preprocessing import Reweighing

    weights = Reweighing(**GROUPS).fit_transform(as_dataset(learn, learn.label)).instance_weights
    last = base.steps[-1][0]
    return clone(base).fit(learn.rows, learn.label, **{f"{last}__sample_weight": weights}).predict(aside.rows)


class Encoded:
    """Rows of numbers, and the classifier that learns from them."""

    def __init__(self, base: Any, learn: Half, aside: Half) -> None:
        encoder = clone(base.steps[0][1]).fit(learn.rows)
        self.learn, self.aside = encoder.transform(learn.rows), encoder.transform(aside.rows)
        self.model = clone(base.steps[-1][1])


def gradient(base: Any, learn: Half, aside: Half, gap: float) -> Iterator[tuple[float, float]]:
    """Fairlearn's mixtures of models for several bounds."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    rows = Encoded(base, learn, aside)
    yield signed(clone(rows.model).fit(rows.learn, learn.label).predict(rows.aside), aside)
    for share in GRADIENT_BOUNDS:
        bound = max(share * gap / 2, 0.002)  # each group's rate is so far from everybody's
        made = ExponentiatedGradient(
            rows.model, DemographicParity(difference_bound=bound), eps=bound, max_iter=20, nu=1e-3
        )
        made.fit(rows.learn, learn.label, sensitive_features=learn.group)
        yield signed(made._pmf_predict(rows.aside)[:, 1], aside)


def optimised(base: Any, learn: Half, aside: Half) -> Any:
    """Chances of acceptance by fairlearn's thresholds for each group."""
    from fairlearn.postprocessing import ThresholdOptimizer

    rows = Encoded(base, learn, aside)
    made = ThresholdOptimizer(
        estimator=rows.model.fit(rows.learn, learn.label),
        constraints="demographic_parity",
        prefit=True,
        predict_method="predict_proba",
    )
    made.fit(rows.learn, learn.label, sensitive_features=learn.group)
    return made._pmf_predict(rows.aside, sensitive_features=aside.group)[:, 1]


def rejected(base: Any, learn: Half, aside: Half, gap: float) -> Iterator[tuple[float, float]]:
    """Decisions of aif360's reject option for several bounds."""
    from aif360.algorithms.postprocessing import RejectOptionClassification

    rows = Encoded(base, learn, aside)
    rows.model.fit(rows.learn, learn.label)
    seen, new = (rows.model.predict_proba(one)[:, 1] for one in (rows.learn, rows.aside))
    yield signed((new > 0.5).astype(float), aside)
    for share in BOUNDS:
        made = RejectOptionClassification(
            **GROUPS,
            num_class_thresh=15,
            num_ROC_margin=15,
            low_class_thresh=0.3,
            high_class_thresh=0.7,
            metric_name="Statistical parity difference",
            metric_ub=share * gap,
            metric_lb=-share * gap,
        )
        made.fit(as_dataset(learn, learn.label), as_dataset(learn, seen > 0.5, seen))
        after = made.predict(as_dataset(aside, new > 0.5, new))
        yield signed(after.labels.ravel(), aside)


# What the splits come to.


def read_gap(curves: list[list[tuple[float, float]]], loss: float) -> float:
    """The gap at a loss on the lower hull of the mean curve; the smallest there is where it does not reach so far."""
    mean = np.mean(curves, axis=0)
    points = sorted({(0.0, float(np.abs(mean[0, 1]))), *((float(a), float(abs(b))) for a, b in mean)})
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and cross(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    falling = [one for i, one in enumerate(hull) if i == 0 or one[1] < min(two[1] for two in hull[:i])]
    return float(np.interp(loss, *zip(*falling, strict=True)))


def cross(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    """Positive where a, b, c turn to the left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def at_loss(cells: list[dict[str, Any]], method: str, loss: float) -> list[float]:
    """The gap at a loss from all splits, then from all but each in turn."""
    curves = [[(0.0, one["given"][1]), *map(tuple, one["curves"][method])] for one in cells]
    return [read_gap(curves, loss), *(read_gap(curves[:i] + curves[i + 1 :], loss) for i in range(len(curves)))]


def jackknife(values: list[float]) -> float:
    """The standard error from what is left out in turn."""
    left = np.array(values[1:])
    return float(np.sqrt((len(left) - 1) / len(left) * ((left - left.mean()) ** 2).sum()))


def cells_of(name: str) -> list[dict[str, Any]]:
    """What was measured of a data set."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob(f"{name}-*.json"))]


def summarise(name: str) -> Iterator[dict[str, Any]]:
    """One row for each loss: the gap of each method, and ours minus the best of the others."""
    cells = cells_of(name)
    if len(cells) < 2:
        return
    for loss in LOSSES.get(name, USUAL_LOSSES):
        gaps = {method: at_loss(cells, method, loss) for method in METHODS}
        row: dict[str, Any] = {
            "data": name,
            "splits": len(cells),
            "loss": loss,
            "given": abs(float(np.mean([one["given"][1] for one in cells]))),
            "gaps": {method: (found[0], jackknife(found)) for method, found in gaps.items()},
        }
        for way, own in ((BLIND, "reweigh and tilt"), (TOLD, "thresholds")):
            others = [one for one, asks in METHODS.items() if asks == way and one != own]
            best = min(others, key=lambda one: gaps[one][0])
            difference = [a - b for a, b in zip(gaps[own], gaps[best], strict=True)]
            row[way] = {"best": best, "difference": difference[0], "error": jackknife(difference)}
        yield row


MAKERS = {
    "reweigh and tilt": "Evenhand",
    "thresholds": "Evenhand",
    "aif360 reweighing": "aif360",
    "aif360 reject option": "aif360",
    "fairlearn exponentiated gradient": "fairlearn",
    "fairlearn threshold optimizer": "fairlearn",
}
TITLES = {BLIND: "not told the attribute when deciding", TOLD: "told the attribute when deciding"}


def drawing(names: list[str]) -> Spec:
    """The gap at equal losses of accuracy with one standard error, a row for each data set, a column for each way."""
    rows = []
    for name in names:
        cells, most = cells_of(name), LOSSES.get(name, USUAL_LOSSES)[-1]
        panels = []
        for way in (BLIND, TOLD):
            points = []
            for method in (one for one, asks in METHODS.items() if asks == way):
                for loss in np.linspace(0.0, 1.5 * most, 11).tolist():
                    found = at_loss(cells, method, loss)
                    error = jackknife(found)
                    points.append(
                        {
                            "by": MAKERS[method],
                            "loss": loss,
                            "gap": found[0],
                            "low": max(0.0, found[0] - error),
                            "high": found[0] + error,
                        }
                    )
            panels.append(_panel(points, f"{name} ({len(cells)} splits), {TITLES[way]}"))
        rows.append({"hconcat": panels, "spacing": 30})
    spec = finish_chart(
        {"vconcat": rows, "spacing": 24},
        "Gap of selection rates on people kept aside at equal losses of accuracy, with one standard error, by data.",
    )
    return spec | {"background": "#ffffff"}


def _panel(points: list[Spec], title: str) -> Spec:
    makers = list(dict.fromkeys(MAKERS.values()))
    colours = [LIGHT[role] for role in SERIES[: len(makers)]]
    below = {"title": "accuracy lost", "format": "~%", "tickCount": 4, "offset": 6}
    x = {"field": "loss", "type": "quantitative", "axis": below}
    y = {"field": "gap", "type": "quantitative", "axis": {"title": "gap", "format": "~g", "tickCount": 4}}
    legend = {"orient": "top", "title": None}
    color = {"field": "by", "type": "nominal", "scale": {"domain": makers, "range": colours}, "legend": legend}
    dash = {
        "field": "by",
        "type": "nominal",
        "legend": legend,
        "scale": {"domain": makers, "range": [list(one) for one in DASHES[: len(makers)]]},
    }
    return {
        "layer": [
            mark_layer(
                points, {"type": "rule", "opacity": 0.6}, x=x, y=y | {"field": "low"}, y2={"field": "high"}, color=color
            ),
            mark_layer(points, {"type": "line", "strokeWidth": 1.8}, x=x, y=y, color=color, strokeDash=dash),
        ],
        "width": 340,
        "height": 130,
        "title": title,
    }


def choices(name: str) -> Iterator[tuple[str, int, int, int]]:
    """Of each of our families: splits, those within the floor on people kept aside, and models written."""
    cells = cells_of(name)
    for method in ("reweigh and tilt", "thresholds"):
        made = [one["chosen"][method] for one in cells]
        within = sum(one["loss"] <= ALLOWED + 1e-12 for one in made)
        yield method, len(made), within, sum(one["written"] for one in made)


def show(console: Console) -> None:
    """Print the tables, and write them beside the cells, with a picture."""
    rows = [row for name in SETTINGS for row in summarise(name)]
    shown = Table("data", "splits", "loss", "given", *METHODS, "not told: ours - best", "told: ours - best")
    for row in rows:
        shown.add_row(
            row["data"],
            str(row["splits"]),
            f"{100 * row['loss']:.1f}",
            f"{row['given']:.3f}",
            *(f"{gap:.3f} ± {error:.3f}" for gap, error in row["gaps"].values()),
            *(f"{row[way]['difference']:+.3f} ± {row[way]['error']:.3f}" for way in (BLIND, TOLD)),
        )
    console.print(shown)
    floor = Table("data", "family", "splits", "hidden loss within .3 points", "written")
    for name in SETTINGS:
        for line in choices(name):
            floor.add_row(name, *map(str, line))
    console.print(floor)
    (FOLDER.parent / "alternatives.json").write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    measured = list(dict.fromkeys(row["data"] for row in rows))
    if measured:
        picture = to_svg(drawing(measured), name="alternatives")
        (FOLDER.parent / "alternatives.svg").write_text(picture + "\n", "utf-8")


def main() -> None:
    """Measure what is missing, then show all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", choices=SETTINGS, metavar="NAME", help="some data sets")
    parser.add_argument("--splits", type=int, default=SPLITS, metavar="N", help=f"default {SPLITS}")
    parser.add_argument("--minutes", type=float, default=10, help="no split is begun after these (default 10)")
    parser.add_argument("--table", action="store_true", help="show what is done, measure nothing")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    for split in range(0 if options.table else options.splits):
        for name in options.only or SETTINGS:
            place = FOLDER / f"{name}-{split:02d}.json"
            if place.exists():
                continue
            if time.monotonic() - started > 60 * options.minutes:
                print("Time is up: run it again to go on", file=sys.stderr)
                show(Console(width=220))
                return
            if load(name) is None:
                print(f"Skipped: the data of {name} is not here", file=sys.stderr)
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = measure(name, split)
            place.write_text(json.dumps(found) + "\n", "utf-8")
            spent = ", ".join(f"{method} {seconds:.0f} s" for method, seconds in found["seconds"].items())
            print(f"{name}, split {split + 1}: {spent}", file=sys.stderr, flush=True)
    show(Console(width=220))


if __name__ == "__main__":
    main()
