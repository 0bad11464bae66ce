"""Refutations: the least gap is that of an enumeration, what is proved holds, and what people see says it."""

import itertools
import json
import math
import os
import signal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from evenhand.checker import check_refutation
from evenhand.datasets import load_dataset
from evenhand.errors import DataError, OptionError
from evenhand.mitigation import RefutationResult, refute_alternatives
from evenhand.models import Subject
from evenhand.schema import encode
from evenhand.schema.people import ColumnRoles
from support import scaled, small_schema


def people_of(cells):
    """People with features f0, f1, ... by cell: (features, [(refused, favourable) of each group])."""
    rows = [
        (*bits, f"g{group}", label)
        for bits, counts in cells
        for group, pair in enumerate(counts)
        for label, n in enumerate(pair)
        for _ in range(n)
    ]
    width, groups = len(cells[0][0]), len(cells[0][1])
    names = [f"f{one}" for one in range(width)]
    group = " ".join(f"g{one}" for one in range(groups)) + " *"
    schema = small_schema([0, 1], target="good", **dict.fromkeys(names, (0, 1)), group=group)
    return encode(schema, pd.DataFrame(rows, columns=[*names, "group", "good"]))


def file_of(cells):
    width, groups = len(cells[0][0]), len(cells[0][1])
    return {
        "features": {f"f{one}": f"f{one} == 1" for one in range(width)},
        "groups": {f"g{one}": f"group == g{one}" for one in range(groups)},
    }


def measures(cells, decisions):
    counts = np.array([one for _, one in cells])
    z = np.asarray(decisions, dtype=float)
    right = (z * counts[:, :, 1].sum(axis=1) + (1 - z) * counts[:, :, 0].sum(axis=1)).sum()
    rates = (z[:, None] * counts.sum(axis=2)).sum(axis=0) / counts.sum(axis=(0, 2))
    return right / counts.sum(), rates.max() - rates.min()


def linear_dichotomies(features):
    """All decisions by a threshold on a weighted sum, by one small linear program for each way to part the cells."""
    for decisions in itertools.product((0, 1), repeat=len(features)):
        side = 2 * np.array(decisions) - 1
        rows = -side[:, None] * np.column_stack([features, np.ones(len(features))])
        bounds = [(None, None)] * (features.shape[1] + 1)
        if linprog(np.zeros(features.shape[1] + 1), A_ub=rows, b_ub=-np.ones(len(features)), bounds=bounds).success:
            yield decisions


def scorecard_dichotomies(features):
    points = np.array(list(itertools.product(range(-5, 6), repeat=features.shape[1])))
    scores = points @ features.T
    accepted = [scores >= threshold for threshold in range(scores.min(), scores.max() + 2)]
    codes = np.unique(np.concatenate(accepted) @ (1 << np.arange(len(features))))
    return (codes[:, None] >> np.arange(len(features))) & 1


def tree_dichotomies(features, depth):
    found = {(0,) * len(features), (1,) * len(features)}
    if depth:
        below = tree_dichotomies(features, depth - 1)
        for one in range(features.shape[1]):
            has = features[:, one] == 1
            found |= {tuple(np.where(has, a, b).tolist()) for a in below for b in below}
    return found


def least_gap(cells, dichotomies, accuracy):
    gaps = [gap for right, gap in (measures(cells, one) for one in dichotomies) if right >= accuracy - 1e-12]
    return min(gaps, default=None)


@st.composite
def tables(draw, width=3, groups=2, most=6):
    bits = draw(st.lists(st.tuples(*[st.integers(0, 1)] * width), min_size=3, max_size=most, unique=True))
    count = st.integers(0, 9)
    cells = [(one, [(draw(count), draw(count)) for _ in range(groups)]) for one in bits]
    cells[0] = (cells[0][0], [(no + 1, yes + 1) for no, yes in cells[0][1]])
    return [one for one in cells if np.sum(one[1])]


def floor_of(cells, share):
    """A floor between what deciding all alike reaches and what any decisions reach."""
    counts = np.array([one for _, one in cells]).sum(axis=1)
    low, high = counts.sum(axis=0).max() / counts.sum(), counts.max(axis=1).sum() / counts.sum()
    return float(np.round(low + share * (high - low), 4)) or 0.001


def check_families(cells, accuracy, wanted):
    """Every family finds the least gap, proves it, or proves that there is no such rule."""
    people = people_of(cells)
    bounds = []
    for family, gap in wanted.items():
        found = refute_alternatives(people, features=file_of(cells), family=family, accuracy=accuracy)
        if gap is None:
            assert found.verdict == "infeasible", family
            continue
        assert found.verdict == "exact", family
        assert gap - 1e-6 <= found.bound <= gap + 1e-9, family
        assert found.witness.gap == pytest.approx(gap, abs=1e-9), family
        as_found = [(tuple(map(int, one.features)), one.counts) for one in found.cells]
        right, own = measures(as_found, found.witness.decisions)
        assert right >= accuracy - 1e-12
        assert own == pytest.approx(gap, abs=1e-9)
        bounds.append(found.bound)
    anything = refute_alternatives(people, features=file_of(cells), family="any", accuracy=accuracy)
    assert anything.verdict == ("infeasible" if anything.witness is None else "exact")
    if bounds:
        assert anything.bound <= min(bounds) + 1e-9
    if anything.witness is not None:
        assert anything.witness.accuracy >= accuracy - 1e-9


@pytest.mark.parametrize("groups", [2, pytest.param(3, marks=pytest.mark.full)])
@settings(max_examples=scaled(20), deadline=None)
@given(st.data(), st.sampled_from([0.2, 0.7, 0.95, 1.0]))
def test_every_family_is_as_good_as_enumeration(groups, data, share):
    cells = data.draw(tables(groups=groups))
    accuracy = floor_of(cells, share)
    features = np.array([one for one, _ in cells])
    wanted = {
        "linear": least_gap(cells, linear_dichotomies(features), accuracy),
        "tree": least_gap(cells, tree_dichotomies(features, 2), accuracy),
    }
    check_families(cells, accuracy, wanted)


@pytest.mark.slow
@settings(max_examples=scaled(100), deadline=None)
@given(tables(width=4, most=12), st.sampled_from([0.2, 0.7, 0.95, 1.0]))
def test_twelve_cells_are_as_good_as_enumeration(cells, share):
    # Four features take whole weights up to 3 (Muroga, "Threshold Logic and its Applications", 1971).
    accuracy = floor_of(cells, share)
    features = np.array([one for one, _ in cells])
    rules = scorecard_dichotomies(features)
    gap = least_gap(cells, rules, accuracy)
    trees = least_gap(cells, tree_dichotomies(features, 2), accuracy)
    check_families(cells, accuracy, {"linear": gap, "tree": trees})


def test_an_example_by_hand():
    # Accepting whom f0 holds of decides 80 of 100 rightly, with selection rates 40/50 and 20/50. Refusing everybody
    # decides 60 rightly without a gap, and a lot between both has half the gap at 70.
    cells = [((1,), [(10, 30), (10, 10)]), ((0,), [(10, 0), (30, 0)])]
    people = people_of(cells)
    for accuracy, gaps in ((0.6, (0, 0)), (0.7, (0.2, 0.4)), (0.8, (0.4, 0.4))):
        lot, rule = (
            refute_alternatives(people, features=["f0 == 1"], family=family, accuracy=accuracy)
            for family in ("any", "linear")
        )
        assert (lot.bound, rule.bound) == pytest.approx(gaps, abs=1e-6)
        assert rule.witness.gap == pytest.approx(gaps[1])
    assert rule.witness.weights == (1.0,)
    assert rule.witness.threshold == 1.0
    assert rule.witness.selection_rates == {"g0": 0.8, "g1": 0.4}
    beyond = refute_alternatives(people, features=["f0 == 1"], family="any", accuracy=0.81)
    assert beyond.verdict == "infeasible"
    assert beyond.most_accurate == 0.8


GERMAN = ["status in {A11, A12}", "status == A14", "duration >= 24", "credit_history == A34"]
GERMAN += ["savings in {A64, A65}", "employment_since >= A74"]


@pytest.fixture(scope="module")
def german():
    data = load_dataset("german")
    return encode(data.schema.with_protected(["sex"]), data.frame)


@pytest.fixture(scope="module")
def refuted(german):
    return refute_alternatives(german, features=GERMAN, accuracy=0.75, data_name="german")


def write(result, folder, change=lambda held: None):
    held = json.loads(result.to_json())
    change(held)
    path = folder / "refutation.json"
    path.write_text(json.dumps(held), encoding="utf-8")
    return path


def test_what_is_proved_of_real_people_is_checked_and_said(german, refuted, tmp_path):
    assert refuted.verdict == "exact"
    assert refuted.bound >= refuted.any_bound
    checked = check_refutation(write(refuted, tmp_path), people=lambda held: german)
    assert checked.verdict == "confirmed"
    assert checked.data_checked
    assert refuted.bound <= checked.bound <= refuted.witness.gap + 1e-9
    assert checked.parts == len(refuted.proof.parts)
    assert refuted.need == checked.need == 750
    assert RefutationResult.from_json(refuted.to_json()) == refuted
    assert len(refuted.to_frame()) == len(refuted.cells)


def test_no_sampled_rule_is_below_the_bound(refuted):
    features = np.array([list(map(int, one.features)) for one in refuted.cells])
    cells = [(row, one.counts) for row, one in zip(features, refuted.cells, strict=True)]
    rng = np.random.default_rng(0)
    for _ in range(400):
        scores = features @ rng.normal(size=features.shape[1])
        right, gap = measures(cells, scores >= rng.choice(scores))
        assert right < refuted.accuracy or gap >= refuted.bound


def change_count(held):
    held["cells"][0]["counts"][0][0] += 1
    held["cells"][1]["counts"][0][0] -= 1


FORGERIES = {
    "a higher bound": lambda held: held.update(bound=held["bound"] + 1e-4),
    "a higher bound of any decisions": lambda held: held.update(any_bound=held["any_bound"] + 1e-4),
    "no rule at all": lambda held: held.update(bound=None, verdict="infeasible"),
    "a cell left out": lambda held: held["cells"].pop(),
    "a cell twice": lambda held: held["cells"].append(held["cells"][0]),
    "fewer right decisions": lambda held: held.update(need=held["need"] - 1),
    "another floor": lambda held: held.update(accuracy=0.76),
    "a part left out": lambda held: held["proof"]["parts"].pop(),
    "a part too many": lambda held: held["proof"]["parts"].append("bound 0; 0 0;"),
    "no proof": lambda held: held["proof"].update(parts=[]),
    "a cut that rules break": lambda held: held["proof"]["cuts"].__setitem__(0, "0:1 1:-1 2:1 3:-1"),
    "factors that do not cancel": lambda held: held["proof"]["cuts"].__setitem__(0, "0:1 1:-2"),
    "multipliers above 1": lambda held: held["proof"].update(parts=["bound 0; 1000000000000 1;"]),
    "a negative multiplier": lambda held: held["proof"].update(parts=["bound -1; 0 0;"]),
    "a split that leaves weights out": lambda held: held["proof"].update(
        parts=["weight 0 1", "bound 0; 0 0;", "bound 0; 0 0;"]
    ),
    "no words": lambda held: held["proof"].update(parts=["trust me"]),
    "a better witness": lambda held: held["witness"].update(gap=0.0),
    "another rule": lambda held: held["witness"]["weights"].reverse(),
    "another decision": lambda held: held["witness"]["decisions"].__setitem__(0, 0.5),
    "another family": lambda held: held.update(family="scorecard"),
    "a tree": lambda held: held.update(family="tree", depth=2),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_are_refused(refuted, tmp_path, name):
    checked = check_refutation(write(refuted, tmp_path, FORGERIES[name]))
    assert checked.verdict == "rejected"
    assert checked.fault


def test_a_certificate_requires_as_many_correct_decisions_as_its_accuracy_says(tmp_path):
    """With one more than that, the audited model itself, a rule of the family, is left out."""
    cells = [((0, 0), [(20, 8), (12, 3)]), ((0, 1), [(2, 3), (1, 0)]), ((1, 1), [(5, 9), (6, 8)])]
    people, n = people_of(cells), 77
    assert len(people) == n
    for correct in range(40, 60):
        for accuracy in (correct / n, float(np.nextafter(correct / n, 0))):
            found = refute_alternatives(people, features=file_of(cells), family="tree", accuracy=accuracy)
            assert found.need == correct
            assert check_refutation(write(found, tmp_path)).verdict == "confirmed"
            for need in (correct - 1, correct + 1, correct + 0.5, str(correct)):
                changed = write(found, tmp_path, lambda held, need=need: held.update(need=need))
                assert check_refutation(changed).verdict == "rejected"


@pytest.mark.parametrize("family", ["any", "linear", "tree"])
def test_the_audited_model_reaches_its_own_floor(family):
    rows = []
    for i in range(77):
        x = i % 2
        rows.append((x, i % 3 == 0, f"g{i % 4 // 2}", x if i < 55 else 1 - x))
    schema = people_of([((0, 0), [(1, 1), (1, 1)])]).schema
    people = encode(schema, pd.DataFrame(rows, columns=["f0", "f1", "group", "good"]).astype({"f1": int}))
    features = {"features": {"f0": "f0 == 1", "f1": "f1 == 1"}, "groups": {"g0": "group == g0", "g1": "group == g1"}}
    found = refute_alternatives(
        Subject(lambda frame: [float(value) for value in frame["f0"]], people), features=features, family=family
    )
    assert found.need == 55
    assert found.accuracy == found.given.accuracy == 55 / 77
    assert found.verdict in ("exact", "bounded")
    assert found.bound <= found.given.gap + 1e-9


MALFORMED = [None, "x", -1, 3, 0.5, 1e308, 10**400, math.nan, math.inf, [], {}, [None], "1:2 3:4", "bound 1; 2; 3"]


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    """A refutation of each family about the same people."""
    cells = [((0, 0), [(3, 1), (2, 2)]), ((0, 1), [(1, 4), (2, 3)]), ((1, 1), [(1, 9), (3, 5)])]
    found = [
        json.loads(
            refute_alternatives(people_of(cells), features=file_of(cells), family=family, accuracy=0.7).to_json()
        )
        for family in ("any", "linear", "tree")
    ]
    return people_of(cells), found, tmp_path_factory.mktemp("refutations") / "changed.json"


@settings(max_examples=scaled(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_replaced_value_gets_a_verdict(small_files, data):
    people, files, path = small_files
    held = json.loads(json.dumps(data.draw(st.sampled_from(files))))
    holder = held
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(holder[key], dict | list) or not holder[key] or data.draw(st.booleans()):
            break
        holder = holder[key]
    if data.draw(st.booleans()):
        holder[key] = data.draw(st.sampled_from(MALFORMED))
    else:
        del holder[key]
    path.write_text(json.dumps(held))
    if held.get("kind") != "refutation":
        with pytest.raises(DataError):
            check_refutation(path)
        return
    assert check_refutation(path, people=lambda held: people).verdict in ("confirmed", "rejected")


def test_counts_that_are_not_those_of_the_data_are_refused(german, refuted, tmp_path):
    checked = check_refutation(write(refuted, tmp_path, change_count), people=lambda held: german)
    assert checked.verdict == "rejected"
    fewer = german.at(np.arange(900))
    assert check_refutation(write(refuted, tmp_path), people=lambda held: fewer).verdict == "rejected"


def test_a_lower_multiplier_proves_less(refuted, tmp_path):
    def weaken(held):
        parts = held["proof"]["parts"]
        at = next(i for i, one in enumerate(parts) if one.startswith("bound") and not one.startswith("bound 0;"))
        parts[at] = "bound 0;" + parts[at].split(";", 1)[1]

    assert check_refutation(write(refuted, tmp_path, weaken)).verdict == "rejected"


@pytest.mark.parametrize(("family", "depth"), [("any", 2), ("tree", 1), ("tree", 3)])
def test_other_families_are_checked_too(german, tmp_path, family, depth):
    found = refute_alternatives(german, features=GERMAN[:4], accuracy=0.72, family=family, depth=depth)
    assert check_refutation(write(found, tmp_path), people=lambda held: german).verdict == "confirmed"
    if found.bound is None:
        return
    higher = check_refutation(write(found, tmp_path, lambda held: held.update(bound=held["bound"] + 1e-4)))
    assert higher.verdict == "rejected"


def test_what_is_proved_when_time_is_up_or_somebody_interrupts_holds(german, tmp_path, interruptible):
    def interrupt(what, share):
        os.kill(os.getpid(), signal.SIGINT)

    about = {"features": [*GERMAN, "credit_amount >= 5000"], "accuracy": 0.745}
    stopped = refute_alternatives(german, time_limit=1e-9, **about)
    assert stopped.stopped
    interrupted = refute_alternatives(german, family="tree", progress=Ones(interrupt), **about)
    assert interrupted.interrupted
    for one in (stopped, interrupted):
        assert one.verdict in ("bounded", "open")
        assert one.bound >= one.any_bound
        assert check_refutation(write(one, tmp_path)).verdict == "confirmed"


class Ones:
    """Progress that interrupts once, at the first tree."""

    def __init__(self, act):
        self.act, self.done = act, False

    def __call__(self, what, share):
        if "trees" in what and not self.done:
            self.done = True
            self.act(what, share)


def test_several_groups_are_compared_by_the_largest_gap(german):
    file = {
        "features": GERMAN[:4],
        "groups": {"young": "age < 30", "middle": "age >= 30 and age < 50", "old": "age >= 50"},
    }
    found = refute_alternatives(german, features=file, accuracy=0.73)
    rates = found.witness.selection_rates.values()
    assert found.witness.gap == pytest.approx(max(rates) - min(rates))
    assert found.verdict == "exact"
    assert list(found.groups) == ["young", "middle", "old"]


def test_whose_values_are_missing_is_said():
    frame = pd.DataFrame({"sex": ["m", "f"] * 60, "age": [20, 40, np.nan] * 40, "good": [0, 1, 1, 0] * 30})
    people = ColumnRoles(target="good", protected=["sex"]).read(frame)
    found = refute_alternatives(people, features=["age > 30"], accuracy=0.4)
    assert "For 40 of 120 people, a value that a feature uses is missing" in found.notes[0]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([], "expected 1 to 30 conditions"),
        (["agee > 3"], "agee"),
        ({"conditions": []}, "no entry 'conditions'"),
        ({"features": "age > 3"}, "got 'age > 3'"),
        ({"features": [3]}, "expected a condition, got 3"),
        (["age > 3", "age > 3"], "occurs twice"),
        ({"features": ["age > 30"], "groups": {"young": "age < 30", "old": "age > 30"}}, "in none of"),
        ({"features": ["age > 30"], "groups": {"all": "age > 0"}}, "expected at least two groups"),
    ],
)
def test_features_that_make_no_sense_are_refused(german, features, message):
    with pytest.raises((OptionError, DataError), match=message):
        refute_alternatives(german, features=features, accuracy=0.7)


def test_a_missing_floor_and_missing_labels_are_refused(german):
    with pytest.raises(OptionError, match="accuracy that a rule must reach"):
        refute_alternatives(german, features=GERMAN)
    unlabelled = encode(german.schema, german.frame.drop(columns="class"))
    with pytest.raises(DataError, match="true labels"):
        refute_alternatives(unlabelled, features=GERMAN, accuracy=0.7)


def test_the_same_seed_gives_the_same_result(german):
    one, two = (refute_alternatives(german, features=GERMAN[:5], accuracy=0.74, seed=3) for _ in range(2))
    assert one.model_copy(update={"seconds": 0}) == two.model_copy(update={"seconds": 0})


@pytest.mark.full
def test_four_hundred_cells_are_solved_within_a_hundredth():
    data = load_dataset("adult")
    people = encode(data.schema.with_protected(["sex"]), data.frame)
    found = refute_alternatives(people, features=ADULT, accuracy=0.845, time_limit=60)
    assert len(found.cells) > 270
    assert found.witness.gap - found.bound < 0.01


ADULT = [
    "education_num >= 10",
    "education_num >= 13",
    "age >= 28",
    "age >= 35",
    "age >= 60",
    "hours_per_week >= 45",
    "marital_status == Married-civ-spouse",
    "capital_gain > 5000",
    "occupation in {Exec-managerial, Prof-specialty}",
    "capital_loss > 1500",
]
