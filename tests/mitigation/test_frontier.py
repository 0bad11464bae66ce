"""The frontier: one point per strength, measured on people whom nobody learnt from."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra torch")

from evenhand import datasets
from evenhand.core import Table
from evenhand.errors import LimitError, OptionError
from evenhand.mitigation import FrontierPoint, FrontierResult, split_people, trace_frontier
from evenhand.mitigation.training.frontier import _mark_frontier
from evenhand.schema import encode
from evenhand.stats import Observed, Proved, Unknown, quantity_value

SMALL = {"hidden": (16,), "steps": 40, "batch_size": 256}


@pytest.fixture(scope="module")
def people():
    data = datasets.load_dataset("adult")
    everybody = encode(data.schema.with_protected(["sex"]), data.frame)
    return everybody.at(np.sort(np.random.default_rng(0).permutation(len(everybody))[:4000]))


@pytest.fixture(scope="module")
def found(people):
    return trace_frontier(people, "diffdp", strengths=(0.0, 0.5, 4.0), data_name="adult", **SMALL)


def observed(value):
    return Observed(value=value, n=100, low=max(0, value - 0.1), high=min(1, value + 0.1), confidence=0.95, method="m")


def point(accuracy, gap, strength=1.0):
    return FrontierPoint(
        strength=strength,
        accuracy=observed(accuracy),
        auc=observed(0.8),
        gap=observed(gap) if gap is not None else Unknown(reason="nobody"),
        flips=Proved(value=0.0, how="blind"),
        favoured=observed(0.3),
    )


def test_the_frontier_is_what_no_other_beats():
    points = [point(0.9, 0.3), point(0.8, 0.1), point(0.8, 0.2), point(0.7, 0.1), point(0.85, None), point(0.9, 0.3)]
    assert [one.on_frontier for one in _mark_frontier(points)] == [True, True, False, False, False, True]


def test_numbers_are_those_of_the_networks_on_the_test_people(people, found):
    from evenhand.mitigation import FairClassifier
    from evenhand.mitigation.training.candidates import true_labels

    parts = split_people(people, seed=0)
    model = FairClassifier("diffdp", strength=0.5, schema=people.schema, sees_protected=False, **SMALL)
    network = model.fit(parts.train.individuals, true_labels(parts.train)).network_
    rows = parts.test.individuals
    favoured = network.predict(rows) == 1
    women = rows[:, people.schema.position("sex")] == people.schema["sex"].values.index("Female")
    measured = found.points[1]
    assert measured.strength == 0.5
    assert quantity_value(measured.accuracy) == pytest.approx((favoured == parts.test.favourable).mean())
    assert quantity_value(measured.gap) == pytest.approx(abs(favoured[women].mean() - favoured[~women].mean()))
    assert measured.gap.low <= measured.gap.value <= measured.gap.high
    assert isinstance(measured.flips, Proved)
    assert (found.train, found.test) == (len(parts.train), len(parts.test))


def test_more_strength_means_a_smaller_gap(found):
    gaps = [quantity_value(one.gap) for one in found.points]
    assert gaps[2] < gaps[0] / 2
    assert not found.interrupted


def test_a_network_that_sees_the_group_has_its_flips_counted(people):
    result = trace_frontier(people, "erm", strengths=(0.0,), sees_protected=True, **SMALL)
    assert isinstance(result.points[0].flips, Observed)
    assert result.given is None


def test_a_given_model_stands_beside(people):
    from mitigate_cases import Decider

    given = Decider(people.schema, lambda rows: rows[:, people.schema.position("sex")] == 1, ("<=50K", ">50K"))
    result = trace_frontier(people, "diffdp", strengths=(1.0,), given=given, **SMALL)
    assert result.given.strength is None
    assert quantity_value(result.given.gap) == 1
    assert quantity_value(result.given.flips) == 1
    assert "given" in result.summary()
    assert result.to_frame()["strength"].isna().tolist() == [False, True]


def test_it_is_printed_tabulated_drawn_and_read_back(found):
    assert FrontierResult.from_json(found.to_json()) == found
    summary = found.summary()
    assert "diffdp" in summary
    table = next(block for block in found.document().blocks if isinstance(block, Table))
    assert [row.cells[1] for row in table.rows] == ["yes" if point.on_frontier else "" for point in found.points]
    table = found.to_frame()
    assert table["strength"].tolist() == [0.0, 0.5, 4.0]
    assert (table["gap_low"] <= table["gap"]).all()
    drawn = found.plot().to_dict()
    shown = [value for layer in drawn["layer"] for value in layer["data"]["values"]]
    assert {row["name"] for row in shown} == {"0", "0.5", "4"}
    assert "accuracy" in drawn["description"]


def test_stopped_early_it_shows_what_there_is(people):
    def progress(what, share):
        if share > 0.5:
            raise KeyboardInterrupt

    result = trace_frontier(people, "diffdp", strengths=(0.0, 1.0), progress=progress, **SMALL)
    assert result.interrupted
    assert [one.strength for one in result.points] == [0.0]
    assert "Stopped early" in result.summary()
    with pytest.raises(LimitError, match="no network was trained"):
        trace_frontier(people, "diffdp", time_limit=1e-9, **SMALL)


def test_the_same_seed_gives_the_same_result(people, found):
    again = trace_frontier(people, "diffdp", strengths=(0.0, 0.5, 4.0), data_name="adult", **SMALL)
    assert again.points == found.points


def test_errors_say_what_is_wrong(people):
    with pytest.raises(OptionError, match="no method 'fair'"):
        trace_frontier(people, "fair")
    with pytest.raises(OptionError, match="at least one strength"):
        trace_frontier(people, "diffdp", strengths=())
    nobody = people.schema.with_protected([])
    data = datasets.load_dataset("adult")
    with pytest.raises(OptionError, match="no attribute is protected"):
        trace_frontier(encode(nobody, data.frame.head(300)), "diffdp")
