"""The mitigation tables made again, in small: counted from whole numbers, beside the published figures."""

import importlib.util
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from evenhand import view
from evenhand.errors import LimitError, MissingExtraError, OptionError
from evenhand.mitigation import Candidate, TrainingSet
from evenhand.mitigation.methods import randomized
from evenhand.subgroups import Perturbation
from evenhand.workers import Workforce
from reproductions import mitigation
from reproductions.mitigation import record, subgroups, tables
from reproductions.mitigation.record import DecisionCounts, MitigatedModel, MitigationRun
from reproductions.mitigation.run import MitigationTables
from reproductions.mitigation.subgroups import GIVEN, count_decisions, count_perturbed
from reproductions.shields import published as shields
from support import shared

running = sys.modules["reproductions.mitigation.run"]

SMALL = mitigation.MitigationExperimentSettings(
    runs=2,
    methods=("retrain",),
    hidden=(8,),
    epochs=2,
    least_steps=120,
    permutations=60,
    samples=300,
    classifiers=("ERM",),
    layers=(8,),
)


@pytest.fixture(scope="module")
def found():
    return mitigation.reproduce_mitigation(SMALL, only=["german"], seed=1)


def test_every_entry_is_run(found):
    # One data set twice; two environments with one classifier twice.
    assert found.wanted == len(found.mended) + len(found.classifiers) == 2 + 4
    assert [one.run for one in found.mended] == [0, 1]
    assert not found.interrupted
    for one in found.mended:
        assert one.train + one.validation + one.test == 1000
        assert [model.method for model in one.models] == [GIVEN, "retrain"]
        for model in one.models:
            assert (model.held_out.people, model.training.people) == (one.test, one.train)
            assert (model.sampled.people, model.sampled.inside, model.sampled.right) == (600, 300, None)
        # Everybody is counted about the same people.
        assert len({(model.held_out.inside, model.training.inside) for model in one.models}) == 1


OF_THE_RUN = {"seconds", "work"}
"""What is of one run, here and in its parts."""


def without_times(given):
    """Plain data without what is of one run."""
    if isinstance(given, dict):
        return {name: without_times(one) for name, one in given.items() if name not in OF_THE_RUN}
    return [without_times(one) for one in given] if isinstance(given, list) else given


def test_workers_train_the_same_and_go_on_from_what_is_kept(found, tmp_path, monkeypatch):
    state = tmp_path / "state"
    with ThreadPoolExecutor(1) as threads:
        given = mitigation.reproduce_mitigation(SMALL, only=["german"], seed=1, workforce=Workforce(threads, state))
    assert without_times(given.plain()) == without_times(found.plain())
    kept = sorted(state.glob("unit-*"))
    assert len(kept) == found.wanted
    kept[2].unlink()
    trained = []

    def train(name, sample, **options):
        trained.append(name)
        return train_classifier(name, sample, **options)

    train_classifier = running.classifiers.train_classifier
    monkeypatch.setattr(running.classifiers, "train_classifier", train)
    with ThreadPoolExecutor(1) as threads:
        again = mitigation.reproduce_mitigation(SMALL, only=["german"], seed=1, workforce=Workforce(threads, state))
    assert trained == ["ERM"]
    assert without_times(again.plain()) == without_times(found.plain())


@pytest.mark.full
def test_processes_train_the_same(found):
    few = SMALL.model_copy(update={"runs": 1})
    given = mitigation.reproduce_mitigation(few, only=["german"], seed=1, workforce=Workforce(2))
    assert without_times(given.plain()["mended"][0]) == without_times(found.plain()["mended"][0])
    assert [one.accepted for one in given.classifiers] == [one.accepted for one in found.classifiers[::2]]


@pytest.mark.full
def test_the_same_seed_gives_the_same_tables(found):
    again = mitigation.reproduce_mitigation(SMALL, only=["german", "subgroups"], seed=1)
    drop = {"models": {"__all__": {"seconds"}}}
    assert [one.model_dump(exclude=drop) for one in again.mended] == [
        one.model_dump(exclude=drop) for one in found.mended
    ]
    other = mitigation.reproduce_mitigation(SMALL.model_copy(update={"runs": 1}), only=["german", "subgroups"], seed=2)
    # The second run of a seed is the first of the next.
    assert other.mended[0].original.held_out == found.mended[1].original.held_out


def test_rates_are_counted_one_by_one():
    people = record.load_people(record.CASES[2])
    network = subgroups.PublishedNetworkLearner(SMALL).fit(TrainingSet.plain(people), seed=0)
    inside = people.individuals[:, people.schema.position("age")] >= 40
    counted = count_decisions(network, people, inside)
    labels = people.frame["class"].tolist()
    rows = list(zip(network.predict(people.individuals).tolist(), inside.tolist(), labels, strict=True))
    given = [network.classes[label] for label, _, _ in rows]
    assert counted.right == sum(label == truth for label, (_, _, truth) in zip(given, rows, strict=True))
    assert counted.favourable == sum(label == 1 and here for label, (_, here, _) in zip(given, rows, strict=True))
    assert counted.rest_favourable == sum(
        label == 1 and not here for label, (_, here, _) in zip(given, rows, strict=True)
    )
    assert counted.gap == pytest.approx(
        abs(counted.favourable / inside.sum() - counted.rest_favourable / (~inside).sum())
    )
    drawn = count_perturbed(network, people, inside, Perturbation(people.schema, ("sex", "age")), 400, 3)
    assert (drawn.people, drawn.inside) == (800, 400)
    assert drawn.rate == pytest.approx(counted.rate, abs=0.1)
    # With nothing that may be nudged, and one person a side, samples are these people.
    two = people.at(np.array([np.argmax(inside), np.argmax(~inside)]))
    alike = count_perturbed(
        network, two, np.array([True, False]), Perturbation(people.schema, people.schema.names), 50, 3
    )
    alone = count_decisions(network, two, np.array([True, False]))
    assert (alike.rate, alike.rest_rate) == (alone.rate, alone.rest_rate)


def by_hand(rates, right, people=200):
    """Counts with 50 people inside, at these rates of favourable decisions in percent."""
    inside, rest = rates
    return DecisionCounts(
        people=people, right=right, inside=50, favourable=inside // 2, rest_favourable=rest * (people - 50) // 100
    )


def model(method, rates, right):
    return MitigatedModel(
        method=method, words=method, held_out=by_hand(rates, right), training=by_hand(rates, right),
        sampled=by_hand(rates, None), seconds=1.0,
    )  # fmt: skip


def tables_of(*mended, **settings):
    return MitigationTables(
        seed=0, seconds=1.0, settings=SMALL.model_copy(update=settings), mended=mended, classifiers=(), wanted=9
    )


def entry(case, run, *models, **more):
    return MitigationRun(
        case=case, dataset=case, run=run, train=600, validation=200, test=200, subgroup="age 40 or more",
        significant=True, models=models, **more,
    )  # fmt: skip


def test_tables_of_counts_written_by_hand():
    made = tables_of(
        entry(
            "german", 0, model(GIVEN, (20, 60), 160), model("retrain", (40, 60), 159), model("diffdp", (60, 60), 150)
        ),
        entry("german", 1, model(GIVEN, (30, 60), 170), model("retrain", (46, 60), 169), left_out={"diffdp": "why"}),
        entry("law", 0, model(GIVEN, (100, 100), 190), model("retrain", (100, 100), 190)),
        methods=("retrain", "diffdp"),
    )
    rows = {(row.case, row.method): row for row in tables.subgroup_rows(made)}
    given, retrained, diffdp = rows["german", GIVEN], rows["german", "retrain"], rows["german", "diffdp"]
    assert (given.runs, retrained.runs, diffdp.runs) == (2, 2, 1)
    assert (given.gap, retrained.gap, diffdp.gap) == pytest.approx((0.35, 0.17, 0))
    assert (given.accuracy, retrained.accuracy) == pytest.approx((0.825, 0.82))
    assert (given.low, given.high) == (None, None)
    assert diffdp.low < 0 < diffdp.high
    assert given.published == tables.RETRAINED["german"].before
    assert retrained.published == tables.RETRAINED["german"].after
    assert diffdp.published is None
    reached = {one.method: one for one in tables.count_halvings(made)}
    # A network without a gap is not mended; one that loses seven points is not either.
    assert (reached["retrain"].cases, reached["retrain"].of) == (("german",), 2)
    assert (reached["diffdp"].cases, reached["diffdp"].of) == ((), 1)
    assert tables.list_left_out(made) == [("german", "diffdp", "why")]
    assert tables.subgroups_found(made, "german") == [("age 40 or more", 2)]
    frame = made.to_frame()
    assert len(frame) == 3 * 7
    assert frame.loc[(frame["method"] == "diffdp") & (frame["counted_on"] == "held_out"), "gap"].item() == 0
    said = made.summary()
    assert "(21.9)" in said
    assert "on 1 of 2 data sets on people kept aside (german)" in " ".join(said.split())
    assert "german, diffdp: why" in said


def test_the_result_travels_as_json(found):
    text = found.to_json()
    assert MitigationTables.from_json(text) == found
    assert '"kind": "mitigation-tables"' in text


def test_the_page_stands_alone(found):
    page = view.render_page(found.document())
    assert page.count("<script") == 1
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*", page)
    assert view.render_page(found.document()) == page
    for figure in ("21.9", "7.3", "74.7", "13.8"):  # published
        assert f"({figure})" in page
    for row in tables.subgroup_rows(found):
        assert f"{100 * row.gap:.1f}" in page


def test_a_method_that_cannot_be_used_is_left_out_and_said(monkeypatch):
    pytest.importorskip("fairlearn", reason="needs the extra fairlearn")
    monkeypatch.setattr(randomized, "LEAST", 10_000)
    few = SMALL.model_copy(update={"runs": 1, "methods": ("threshold-optimizer",)})
    found = mitigation.reproduce_mitigation(few, only=["german", "subgroups"], seed=1)
    (one,) = found.mended
    assert [each.method for each in one.models] == [GIVEN]
    assert "fewer than two groups" in one.left_out["threshold-optimizer"]
    assert "What could not be used" in found.summary()
    assert "What could not be used" in view.render_page(found.document())


def test_an_interruption_keeps_what_was_complete(monkeypatch):
    whole, calls = subgroups.mitigate_widest, []

    def stop(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr(subgroups, "mitigate_widest", stop)
    found = mitigation.reproduce_mitigation(SMALL, only=["german"])
    assert (found.interrupted, len(found.mended), len(found.classifiers)) == (True, 1, 0)
    assert "CAUTION: Interrupted" in found.summary()
    assert "Interrupted" in view.render_page(found.document())


def test_a_method_that_was_stopped_stops_everything(monkeypatch):
    def half(situation):
        return Candidate("retrain", "half done", situation.given, lambda path: (path,), interrupted=True)

    monkeypatch.setattr(subgroups, "load_methods", lambda names: dict.fromkeys(names, half))
    with pytest.raises(LimitError, match="before anything was complete"):
        mitigation.reproduce_mitigation(SMALL, only=["german"])


@pytest.mark.full
def test_progress_goes_on():
    seen = []
    mitigation.reproduce_mitigation(SMALL, only=["german"], progress=lambda what, share: seen.append((what, share)))
    shares = [share for _, share in seen]
    assert shares == sorted(shares)
    assert 0 == shares[0] < shares[-1] < 1
    assert any("german, retrain" in what for what, _ in seen)
    assert any("training ERM" in what for what, _ in seen)


def test_without_pytorch_the_rest_is_run_and_said(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    few = SMALL.model_copy(update={"runs": 1, "classifiers": ("ERM", "LAFTR")})
    found = mitigation.reproduce_mitigation(few, only=["german:sex", "classifiers"])
    assert [one.classifier for one in found.classifiers] == ["ERM"]
    assert "Left out: LAFTR: torch is needed" in found.summary()
    assert "Left out: LAFTR: torch is needed" in view.render_page(found.document())
    with pytest.raises(MissingExtraError, match="torch"):
        mitigation.reproduce_mitigation(few.model_copy(update={"classifiers": ("LAFTR",)}), only=["german:sex"])


def test_names_choose_tables_data_sets_and_environments():
    def names(*only):
        what = record.choose_experiments(only)
        return [one.name for one in what.cases], [one.name for one in what.environments]

    every = ["census", "bank", "german", "compas", "law", "crime"]
    assert names()[0] == every
    assert len(names()[1]) == 7
    assert names("subgroups") == (every, [])
    assert names("adult") == (["census"], ["adult, race", "adult, sex"])
    assert names("adult:race") == ([], ["adult, race"])
    assert names("classifiers", "german") == ([], ["german, sex", "german, age"])
    with pytest.raises(OptionError, match="nothing called 'adlut'"):
        names("adlut")
    with pytest.raises(OptionError, match="nothing is left") as told:
        names("law-school", "classifiers")
    assert "adult" in str(told.value)
    with pytest.raises(OptionError, match="expected 1 run or more, got 0"):
        mitigation.MitigationExperimentSettings.of(runs=0)


@pytest.mark.parametrize("case", mitigation.CASES, ids=lambda one: one.name)
def test_sensitive_attributes_are_those_of_the_paper(case):
    home = None if case.dataset in ("adult", "german") else shared("data", "tabular")
    people = record.load_people(case, data_home=home)
    assert set(case.sensitive) <= set(people.schema.names)
    assert people.schema.protected == (
        () if case.shares else tuple(name for name in people.schema.names if name in case.sensitive)
    )
    assert len(people) == {
        "census": 48_842, "bank": 45_211, "german": 1_000, "compas": 6_172, "law": 21_985, "crime": 1_994,
    }[case.name]  # fmt: skip
    assert (people.favourable.mean() > 0.5) == (case.name not in ("census", "bank"))


def test_the_published_figures_are_spelled_as_in_the_paper():
    paper = shared("papers", "004_46831b6abc41d21e.txt").read_text("utf-8")
    table = paper[paper.index("Table 7. Discrimination Mitigation") :].split("RQ3:")[0]
    for known in tables.RETRAINED.values():
        for state in (known.before, known.after):
            assert f"{state.accuracy:.1f}% {state.gap:.1f}%" in table
            assert f"({state.inside:.1f}%, {state.rest:.1f}%)" in table
    assert len(tables.RETRAINED) == len(record.CASES)
    other = shared("papers", "003_4551a52f1efa785e.txt").read_text("utf-8")
    lines = [[cell.strip(" %") for cell in line.strip("| \n").split("|")] for line in other.splitlines() if "|" in line]
    rows = [line for line in lines if len(line) in (6, 12) and re.fullmatch(r"\d+\.\d", line[0])]
    assert len(rows) == 4 * 5
    measured = [(line[i], line[i + 4], line[i + 5]) for line in rows for i in range(0, len(line), 6)]
    ours = [
        tuple(f"{figure:.1f}" for figure in (one.accuracy, one.demographic_parity, one.equal_opportunity))
        for one in shields.CLASSIFIED.values()
    ]
    assert sorted(measured) == sorted(ours)
    assert len(ours) == 7 * 5
