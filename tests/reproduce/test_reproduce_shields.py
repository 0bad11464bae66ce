"""The shields paper run again, in small: what the guarantees promise holds, and the tables are counted right."""

import importlib.util
import math
import re
import sys
from fractions import Fraction

import numpy as np
import pytest

from evenhand import datasets, view
from evenhand.errors import LimitError, MissingExtraError, OptionError
from evenhand.reproduce import shields
from evenhand.reproduce.shields import classifiers, environments, published, tables
from evenhand.reproduce.shields.classifiers import CLASSIFIERS, describe_classifier
from evenhand.reproduce.shields.record import FINITE, PERIODIC, STATIC_BW
from support import shared

running = sys.modules["evenhand.reproduce.shields.run"]

SMALL = shields.ShieldExperimentSettings(
    kappas=("0.1", "0.2"),
    horizons={"demographic_parity": 30, "equal_opportunity": 18},
    runs=8,
    period=14,
    periods=3,
    periodic_runs=4,
    classifiers=("ERM",),
    layers=(8,),
)


@pytest.fixture(scope="module")
def found():
    return shields.reproduce_shields(SMALL, only=["german"], seed=3)


def test_every_setting_is_run(found):
    # Two environments, two properties, two thresholds, two conventions; FinHzn with two costs, five periodic shields.
    assert found.wanted == len(found.cells) == 2 * 2 * 2 * 2 * (2 + 5)
    assert not found.interrupted
    keys = {
        (cell.environment(), cell.property, cell.kappa, cell.empty_group, cell.shield, cell.costs)
        for cell in found.cells
    }
    assert len(keys) == found.wanted
    for cell in found.cells:
        runs = SMALL.runs if cell.shield == FINITE else SMALL.periodic_runs
        per_run = (cell.bias, cell.fair, cell.assumed, cell.interventions, cell.cost, cell.right, cell.right_unshielded)
        assert {len(values) for values in per_run} == {runs}
        assert len(cell.fair_at) == len(cell.fair_at_unshielded) == cell.periods


def test_every_run_of_the_bounded_shield_is_fair(found):
    cells = [cell for cell in found.cells if cell.shield == FINITE]
    assert len(cells) == 32
    for cell in cells:
        assert all(cell.fair)
        assert all(bias <= float(cell.kappa) + 1e-6 for bias in cell.bias)
    # And it was needed: without the shield some runs are not.
    assert not all(fair for cell in cells for fair in cell.fair_unshielded)


def test_periodic_shields_are_fair_wherever_their_assumption_holds(found):
    cells = [cell for cell in found.cells if cell.shield in PERIODIC]
    held = [fair for cell in cells for fair, assumed in zip(cell.fair, cell.assumed, strict=True) if assumed]
    assert len(held) > 20
    assert all(held)


def test_shields_of_one_setting_meet_the_same_people(found):
    alone = {}
    for cell in found.cells:
        key = (cell.environment(), cell.property, cell.kappa, cell.experiment)
        alone.setdefault(key, set()).add(cell.right_unshielded)
        if cell.empty_group == "zero":
            alone.setdefault((*key, "bias"), set()).add(cell.bias_unshielded)
    assert len(alone) == 32
    assert all(len(different) == 1 for different in alone.values())
    assert len({next(iter(values)) for key, values in alone.items() if len(key) == 4}) > 8


def test_what_a_run_costs_is_counted_once(found):
    for cell in found.cells:
        for interventions, cost, right, alone in zip(
            cell.interventions, cell.cost, cell.right, cell.right_unshielded, strict=True
        ):
            assert 0 <= interventions <= cell.horizon * cell.periods
            # An override makes one right decision wrong, or one wrong decision right.
            assert abs(right - alone) <= interventions
            assert (right - alone - interventions) % 2 == 0
            assert cost == interventions if cell.costs == "constant" else cost <= interventions / 2


def test_rates_add_up(found):
    for empty_group in SMALL.empty_groups:
        rows = tables.rate_rows(found, empty_group=empty_group)
        assert [row.shield for row in rows] == [tables.NONE, *PERIODIC] * 2
        for row in rows:
            own = [
                cell
                for cell in found.cells
                if cell.property == row.property
                and cell.empty_group == empty_group
                and cell.shield == (PERIODIC[-1] if row.shield == tables.NONE else row.shield)
            ]
            fair = [one for cell in own for one in (cell.fair_unshielded if row.shield == tables.NONE else cell.fair)]
            assert row.runs == len(fair) == 2 * 2 * SMALL.periodic_runs
            assert row.fair == sum(fair)
            assert row.fairness.value == pytest.approx(row.fair / row.runs)
            if row.shield == tables.NONE:
                assert (row.assumed, row.assumption, row.fair_when_assumed) == (None, None, None)
            else:
                assert row.assumed == sum(sum(cell.assumed) for cell in own)
                assert row.fair_when_assumed == row.assumed
            # A run that is fair at the end of every period is fair at the end of each.
            shares = tables.period_shares(found, row.property, row.shield, empty_group=empty_group)
            assert len(shares) == SMALL.periods
            assert min(shares) >= row.fair / row.runs
        assert any(row.published for row in rows) == (empty_group == "zero")


def test_biases_add_up(found):
    rows = {(row.property, row.shield): row for row in tables.bias_rows(found)}
    assert set(rows) == set(published.BIAS)
    for (name, shield), row in rows.items():
        cells = [
            cell
            for cell in found.cells
            if (cell.property, cell.shield, cell.costs, cell.empty_group) == (name, FINITE, "constant", "zero")
        ]
        pairs = [
            (value / float(cell.kappa), fair)
            for cell in cells
            for value, fair in zip(
                *((cell.bias, cell.fair) if shield == FINITE else (cell.bias_unshielded, cell.fair_unshielded)),
                strict=True,
            )
        ]
        values = np.array([value for value, _ in pairs])
        assert row.runs == len(values) == 2 * 2 * SMALL.runs
        assert row.above == sum(not fair for _, fair in pairs)
        assert row.median == pytest.approx(float(np.median(values)))
        assert row.mean == pytest.approx(float(values.mean()))
        assert row.lower <= row.median <= row.upper
        for value, fair in pairs:
            assert fair == (value <= 1) or math.isclose(value, 1, abs_tol=1e-4)
        assert row.published == published.BIAS[name, shield]


def test_losses_and_choices_add_up(found):
    losses = {(row.property, row.environment): row.losses for row in tables.finite_losses(found)}
    assert len(losses) == 4
    for cell in found.cells:
        if (cell.shield, cell.costs, cell.empty_group) == (FINITE, "constant", "zero"):
            column = SMALL.kappas.index(cell.kappa)
            expected = np.mean(
                [100 * (1 - right / alone) for right, alone in zip(cell.right, cell.right_unshielded, strict=True)]
            )
            assert losses[cell.property, cell.environment()][column] == pytest.approx(expected)
    choices = tables.choice_rows(found)
    assert sum(row.runs for row in choices) == sum(cell.runs() for cell in found.cells if cell.shield == FINITE)
    assert all(row.fair == row.runs for row in choices)
    paired = {(row.property, row.empty_group): row for row in choices if row.costs == "paired"}
    assert set(paired) == {(name, group) for name in tables.PROPERTIES for group in SMALL.empty_groups}
    periodic = tables.periodic_losses(found, "0.1")
    assert [len(row.losses) for row in periodic] == [len(PERIODIC)] * 4
    frame = found.to_frame()
    assert len(frame) == found.wanted
    assert (frame[frame["shield"] == FINITE]["fair_share"] == 1).all()


def test_the_tables_of_runs_written_by_hand():
    cell = shields.SettingRuns(
        experiment="bounded", dataset="german", attribute="sex", classifier="ERM", property="demographic_parity",
        kappa="0.2", empty_group="zero", shield=FINITE, costs="constant", horizon=10, periods=1,
        bias=(0.1, 0.2, 0.0, 0.1), bias_unshielded=(0.1, 0.4, 0.2, 0.6),
        fair=(True, True, True, True), fair_unshielded=(True, False, True, False), assumed=(True, True, True, True),
        interventions=(0, 2, 1, 3), cost=(0.0, 2.0, 1.0, 3.0), right=(8, 6, 5, 7), right_unshielded=(8, 8, 4, 10),
        fair_at=(4,), fair_at_unshielded=(2,), seconds=0.1,
    )  # fmt: skip
    found = shields.Reproduction(
        seed=0,
        seconds=1.0,
        settings=SMALL.model_copy(update={"kappas": ("0.2",)}),
        environments=("german, sex",),
        classifiers=(),
        cells=(cell,),
        wanted=1,
    )
    alone, shielded = tables.bias_rows(found)
    assert (alone.lower, alone.median, alone.upper, alone.mean) == pytest.approx((0.875, 1.5, 2.25, 1.625))
    assert (alone.above, shielded.above, shielded.runs) == (2, 0, 4)
    assert (shielded.lower, shielded.median, shielded.upper) == pytest.approx((0.375, 0.5, 0.625))
    assert cell.losses() == pytest.approx([0, 25, -25, 30])
    (row,) = tables.finite_losses(found)
    assert row.losses == pytest.approx((7.5,))
    (choice,) = tables.choice_rows(found)
    assert (choice.interventions, choice.fair, choice.fair_unshielded) == (1.5, 4, 2)
    assert "german, sex" in found.summary()


@pytest.mark.full
def test_the_same_seed_gives_the_same_runs(found):
    again = shields.reproduce_shields(SMALL, only=["german:age"], seed=3)
    own = [cell for cell in found.cells if cell.attribute == "age"]
    assert [cell.model_dump(exclude={"seconds"}) for cell in again.cells] == [
        cell.model_dump(exclude={"seconds"}) for cell in own
    ]
    fewer = SMALL.model_copy(update={"kappas": ("0.1",), "empty_groups": ("zero",)})
    other = shields.reproduce_shields(fewer, only=["german:age"], seed=4)
    assert {cell.right_unshielded for cell in other.cells} != {
        cell.right_unshielded for cell in own if cell.kappa == "0.1"
    }


def test_the_result_travels_as_json(found):
    text = found.to_json()
    assert shields.Reproduction.from_json(text) == found
    assert '"kind": "reproduction"' in text


def test_the_page_stands_alone(found):
    page = view.render_page(found.document())
    assert page.count("<svg") == 6
    assert "<script" not in page
    assert not re.findall(r"(?:src|href)=\"(?!#)[^\"]*", page)
    assert not re.findall(r"url\((?!#)", page)
    for rows in (tables.bias_rows(found), tables.rate_rows(found)):
        for row in rows:
            if row.published is not None:
                figure = (
                    row.published.above
                    if isinstance(row.published, published.PublishedBias)
                    else row.published.fairness
                )
                assert f"{figure:.2f}\N{NO-BREAK SPACE}%" in page
    assert view.render_page(found.document()) == page
    spec = found.plot().to_dict()
    assert len(spec["vconcat"]) == 3


def test_an_interruption_keeps_what_was_complete(monkeypatch):
    whole = running.simulate_runs
    calls = []

    def stop(*arguments, **options):
        calls.append(1)
        if len(calls) == 4:
            raise LimitError("the simulation was stopped before any run was complete")
        return whole(*arguments, **options)

    monkeypatch.setattr(running, "simulate_runs", stop)
    found = shields.reproduce_shields(SMALL, only=["german:sex"])
    assert found.interrupted
    assert len(found.cells) == 3
    assert "CAUTION: Interrupted" in found.summary()
    assert "Interrupted" in view.render_page(found.document())


def test_an_interruption_before_anything_is_a_limit():
    def stop(what, share):
        raise KeyboardInterrupt

    with pytest.raises(LimitError, match="before any setting"):
        shields.reproduce_shields(SMALL, only=["german"], progress=stop)


def test_progress_goes_on():
    seen = []
    few = SMALL.model_copy(update={"kappas": ("0.2",), "empty_groups": ("zero",)})
    shields.reproduce_shields(few, only=["german:sex"], progress=lambda what, share: seen.append((what, share)))
    shares = [share for _, share in seen]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] < 1
    assert any("training ERM" in what for what, _ in seen)


def test_a_classifier_takes_part_once_it_is_listed(monkeypatch):
    def nobody(sample, layers, seed):
        return np.zeros(len(sample.label))

    monkeypatch.setitem(CLASSIFIERS, "nobody", nobody)
    few = SMALL.model_copy(update={"kappas": ("0.2",), "empty_groups": ("zero",), "classifiers": ("ERM", "nobody")})
    found = shields.reproduce_shields(few, only=["german:sex"])
    assert [one.classifier for one in found.classifiers] == ["ERM", "nobody"]
    rejecting = [cell for cell in found.cells if cell.classifier == "nobody"]
    # FinHzn alone: periodic shields are for the first classifier.
    assert len(rejecting) == 2 * 2
    assert found.wanted == len(found.cells) == 2 * (2 + 5) + 2 * 2
    assert {cell.experiment for cell in rejecting} == {"bounded"}
    # Whoever rejects everybody is even-handed: there is nothing to override.
    assert all(cell.fair_unshielded == cell.fair for cell in rejecting if cell.shield == FINITE)
    assert all(sum(cell.interventions) == 0 for cell in rejecting if cell.shield == FINITE and cell.costs == "constant")
    assert tables.published_classifier(found.classifiers[1]) is None


@pytest.mark.parametrize("name", classifiers.FAIR)
def test_a_classifier_trained_to_be_fair_is_fairer(name):
    pytest.importorskip("torch", reason="needs the extra torch")
    people = environments.sample_environment(shields.ENVIRONMENTS[-1], datasets.load_dataset("german"), seed=0)
    alone, fair = (
        describe_classifier(classifiers.train_classifier(each, people, layers=(32, 16), seed=0), 0.0)
        for each in ("ERM", name)
    )
    assert fair.demographic_parity < alone.demographic_parity
    assert fair.accuracy > 0.68
    again = classifiers.train_classifier(name, people, layers=(32, 16), seed=0)
    assert describe_classifier(again, 0.0) == fair
    assert tables.published_classifier(fair) == published.CLASSIFIED["german", "age", name]
    assert tables.published_classifier(fair).accuracy in (71.7, 73.7, 73.0, 75.0)


def test_without_pytorch_erm_is_shielded_and_the_others_are_said(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    few = SMALL.model_copy(
        update={
            "kappas": ("0.2",),
            "empty_groups": ("zero",),
            "classifiers": shields.ShieldExperimentSettings().classifiers,
        }
    )
    found = shields.reproduce_shields(few, only=["german:sex"])
    assert [one.classifier for one in found.classifiers] == ["ERM"]
    assert tuple(found.left_out) == ("DiffDP", "HSIC", "LAFTR", "PR")
    assert found.wanted == len(found.cells) == 14
    for shown in (found.summary(), view.render_page(found.document())):
        assert "Left out: DiffDP, HSIC, LAFTR, PR: torch is needed" in shown
        assert ".[torch]" in shown
    with pytest.raises(MissingExtraError, match="torch"):
        shields.reproduce_shields(few.model_copy(update={"classifiers": ("HSIC",)}), only=["german:sex"])


def test_unknown_names_are_refused():
    with pytest.raises(OptionError, match="no environment 'meps'") as told:
        shields.reproduce_shields(SMALL, only=["meps"])
    assert "adult:race" in str(told.value)
    with pytest.raises(OptionError, match="expected 1 run or more, got 0"):
        shields.ShieldExperimentSettings.of(runs=0)
    with pytest.raises(OptionError, match="no classifier"):
        shields.reproduce_shields(SMALL.model_copy(update={"classifiers": ("HSIC 2",)}), only=["german:sex"])


def test_the_settings_are_those_of_the_paper():
    paper = shields.ShieldExperimentSettings()
    assert [Fraction(kappa) for kappa in paper.kappas] == [Fraction(i, 20) for i in (1, 2, 3, 4)]
    assert paper.horizons == {"demographic_parity": 100, "equal_opportunity": 75}
    assert (paper.runs, paper.period, paper.periods, paper.periodic_runs) == (50, 50, 10, 10)
    assert paper.classifiers == tuple(CLASSIFIERS) == ("ERM", "DiffDP", "HSIC", "LAFTR", "PR")
    assert [one.name for one in shields.ENVIRONMENTS] == [
        "adult, race", "adult, sex", "bank, age", "compas, sex", "compas, race", "german, sex", "german, age",
    ]  # fmt: skip
    assert shields.ShieldExperimentSettings.of(runs=20).periodic_runs == 4
    assert shields.ShieldExperimentSettings.of(quick=True, runs=2).periodic_runs == 1


@pytest.mark.parametrize("environment", shields.ENVIRONMENTS, ids=lambda one: one.name)
def test_the_people_are_those_of_the_paper(environment):
    home = None if environment.dataset in ("adult", "german") else shared("data", "tabular")
    data = datasets.load_dataset(environment.dataset, data_home=home, download=False)
    people = environments.sample_environment(environment, data, seed=0)
    said = published.PEOPLE[environment.dataset, environment.attribute]
    gap = abs(people.label[people.group == 0].mean() - people.label[people.group == 1].mean())
    if environment.dataset == "bank":
        # Another edition of the same campaigns, which the page says.
        assert len(people.label) == 45_211
        assert "41,188" in environment.note
        return
    assert len(people.label) == said.people
    assert 100 * people.label.mean() == pytest.approx(said.label, abs=0.006)
    assert 100 * people.rates[0] == pytest.approx(said.group_a, abs=0.006)
    assert gap == pytest.approx(said.gap, abs=0.0051)
    assert set(people.train) & set(people.arriving) == set()
    assert len(people.train) + len(people.arriving) == said.people
    assert len(people.train) / said.people == pytest.approx(0.4, abs=0.001)
    assert environment.attribute not in people.features.columns
    assert people.schema.names == tuple(people.features.columns)
    assert (people.schema.target.favourable, people.schema.protected) == (environment.accepted, ())
    assert data.schema.target.name not in people.features.columns


def test_the_published_figures_are_spelled_as_in_the_paper():
    paper = shared("papers", "003_4551a52f1efa785e.txt").read_text("utf-8")
    lines = [[cell.strip(" %") for cell in line.strip("| \n").split("|")] for line in paper.splitlines() if "|" in line]
    tails = {tuple(line[-6:]) for line in lines if len(line) >= 7}
    for row in published.BIAS.values():
        figures = (row.lower, row.median, row.upper, row.mean, row.deviation, row.above)
        assert tuple(f"{figure:.2f}" for figure in figures) in tails
    names = {"sex": "gender"}
    counted = {(line[0].lower(), line[2]): line for line in lines if len(line) == 11}
    for (dataset, attribute), people in published.PEOPLE.items():
        line = counted[dataset, names.get(attribute, attribute)]
        assert line[3] == str(people.people)
        # The share of label 1 stands second, those of the groups follow.
        shares = [f"{share:.2f}" for share in (people.label, people.group_a, people.group_b, people.gap)]
        assert line[7:] == shares
    rows = [line for line in lines if len(line) in (6, 12) and re.fullmatch(r"\d+\.\d", line[0])]
    measured = {(line[start], line[start + 4], line[start + 5]) for line in rows for start in range(0, len(line), 6)}
    for one in published.CLASSIFIED.values():
        figures = (one.accuracy, one.demographic_parity, one.equal_opportunity)
        assert tuple(f"{figure:.1f}" for figure in figures) in measured


@pytest.fixture(scope="module")
def confident():
    """Scores written by hand for the people of one environment."""
    people = environments.sample_environment(shields.ENVIRONMENTS[-2], datasets.load_dataset("german"), seed=0)
    scores = np.random.default_rng(0).beta(2 + people.label, 2, len(people.label))
    return classifiers.TrainedClassifier("by hand", people, scores)


def setting(shield, costs="constant", kept="demographic_parity"):
    return running.ExperimentSetting(kept, "0.1", shield, costs, "zero")


def test_constant_costs_expect_any_recommendation_equally(confident):
    plan = running._shield_plan(confident, setting(FINITE), SMALL)
    women = float((confident.sample.group == 0).mean())
    # theta(g, r) = p_g / 2, as published.
    assert plan.inputs.joint()[:, :, 0] == pytest.approx(np.array([[women, women], [1 - women, 1 - women]]) / 2)
    assert plan.inputs.costs == (1.0,)
    assert (plan.horizon, plan.kind) == (30, "finite")
    source = running._draw_arrivals(confident, "constant", 10)
    assert set(source.cost) == {1.0}
    assert len(source.group) == len(confident.sample.arriving)


def test_paired_costs_expect_what_the_classifier_says(confident):
    inputs = running._shield_plan(confident, setting(FINITE, "paired"), SMALL).inputs
    joint = inputs.joint()
    assert inputs.costs == pytest.approx([0.025 + 0.05 * i for i in range(10)])
    for g in (0, 1):
        for r in (0, 1):
            for i, cost in enumerate(inputs.costs):
                here = [
                    abs(abs(score - 0.5) - cost) <= 0.025 and (score > 0.5) == r and group == g
                    for score, group in zip(confident.scores, confident.sample.group, strict=True)
                ]
                assert joint[g, r, i] == pytest.approx(np.mean(here), abs=1e-9)
    source = running._draw_arrivals(confident, "paired", 10)
    scores = confident.scores[confident.sample.arriving]
    assert np.abs(source.cost - np.abs(scores - 0.5)).max() <= 0.025 + 1e-12
    assert np.array_equal(source.recommendation, scores > 0.5)
    assert np.array_equal(source.label, confident.sample.label[confident.sample.arriving])


def test_welfare_bounds_lie_around_the_labels(confident):
    plan = running._shield_plan(confident, setting(STATIC_BW), SMALL)
    assert plan.bounds == (Fraction("0.65"), Fraction("0.75"))  # 700 of 1,000 are good risks
    assert (plan.horizon, plan.kind) == (SMALL.period, "static-bw")
    ends = {
        name: running._shield_plan(confident, setting(name), SMALL).terminal for name in PERIODIC if "Dynamic" in name
    }
    assert list(ends.values()) == ["exempt", "strict", "soft"]


def test_the_classifier_learns():
    data = datasets.load_dataset("german")
    people = environments.sample_environment(shields.ENVIRONMENTS[-1], data, seed=0)
    scores = CLASSIFIERS["ERM"](people, (32,), 0)
    assert np.array_equal(scores, CLASSIFIERS["ERM"](people, (32,), 0))
    assert ((scores >= 0) & (scores <= 1)).all()
    right = (scores > 0.5) == people.label
    assert right[people.arriving].mean() > 0.7  # as many are good risks
    assert scores[people.label == 1].mean() > scores[people.label == 0].mean() + 0.1
