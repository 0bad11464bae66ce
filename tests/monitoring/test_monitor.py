"""Monitors of decisions, and the bets that they are made of."""

import copy
import itertools
import json
import math
import random
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DataError, OptionError
from evenhand.monitoring import Monitor, MonitorResult, blocks, read_monitor_config, read_state, write_state
from evenhand.monitoring.blocks import BetPlan, bet_on_blocks, open_blocks
from evenhand.monitoring.events import OutcomeWordError
from evenhand.monitoring.lines import LineReader
from evenhand.monitoring.selection import BLOCK, SelectionTest
from evenhand.monitoring.state import monitor_to_dict, restore_monitor
from support import scaled

SEXES = {"by": ["sex"], "values": {"sex": ["female", "male"]}}
SELECTION = [{"gap": "selection_rate", "tolerance": 0.02}]


def people(n, *, women=0.3, rates=(0.3, 0.3), seed=0):
    """Decisions about women and men, with these rates."""
    rng = np.random.default_rng(seed)
    female = rng.random(n) < women
    made = rng.random(n) < np.where(female, *rates)
    return [
        {"id": i, "sex": "female" if f else "male", "decision": int(d)}
        for i, (f, d) in enumerate(zip(female.tolist(), made.tolist(), strict=True), start=1_000_000 * seed)
    ]


def monitor(watch=SELECTION, groups=SEXES, **more):
    return Monitor({"groups": groups, "watch": watch, "seed": 1, **more})


def test_a_gap_raises_one_alarm_and_its_interval_holds_the_truth():
    watching = monitor()
    update = watching.add(people(20_000, rates=(0.2, 0.35)))
    assert [(alarm.first, alarm.second, alarm.direction) for alarm in update.alarms] == [("female", "male", "below")]
    assert update.alarms[0].decision < 5000
    assert "selection rate of female is below that of male by more than 2 points" in update.alarms[0].sentence
    (gap,) = watching.intervals()
    assert gap.low < -0.15 < gap.high < 0
    assert gap.alarm == update.alarms[0].decision
    assert watching.add(people(2000, rates=(0.2, 0.35), seed=3)).alarms == ()


def test_a_change_is_found_after_a_long_time_without_one():
    watching = monitor(false_alarms={"horizon": 60_000, "period": 500})
    watching.add(people(40_000))
    assert watching.alarms == ()
    update = watching.add(people(8000, rates=(0.2, 0.3), seed=9))
    assert [alarm.direction for alarm in update.alarms] == ["below"]


def test_ratios():
    watching = monitor([{"ratio": "selection_rate", "tolerance": 0.8}])
    update = watching.add(people(20_000, rates=(0.15, 0.3)))
    assert [alarm.direction for alarm in update.alarms] == ["below"]
    (gap,) = watching.intervals()
    assert gap.low < 0.5 < gap.high < 0.8


def test_groups_are_learned_and_intersections_compared():
    rng = np.random.default_rng(2)
    events = [
        {"sex": rng.choice(["f", "m"]), "race": rng.choice(["a", "b", "c"], p=[0.5, 0.495, 0.005]), "decision": 1}
        for _ in range(600)
    ]
    watching = monitor(groups={"by": ["sex", "race"], "intersections": True, "learn": 500})
    watching.add(events[:100])
    assert [(gap.first, gap.second) for gap in watching.intervals()][:2] == [("f", "m"), ("a", "b")]
    watching.add(events[100:])
    assert [gap.first for gap in watching.intervals() if gap.by == "sex x race"] == ["f, a", "f, b", "m, a", "m, b"]


def test_one_group_alone_is_refused():
    watching = monitor(groups={"by": ["sex"], "learn": 10})
    with pytest.raises(DataError, match="expected at least two groups by 'sex' to compare, got only 'male'"):
        watching.add([{"sex": "male", "decision": 1}] * 10)


@settings(max_examples=scaled(20), deadline=None)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=6), st.booleans())
def test_the_same_bits_for_any_batches_and_after_any_restart(sizes, restart):
    events = _mixed_events()
    config = read_monitor_config(_MIXED)
    whole = Monitor(config)
    whole.add(events)
    pieces, place = Monitor(config), 0
    for size in [*sizes, len(events)]:
        pieces.add(events[place : place + size])
        place += size
        if restart:
            pieces, _ = read_state(write_state(pieces), config)
    assert write_state(pieces) == write_state(whole)


_MIXED = {
    "groups": {"by": ["sex"], "learn": 300},
    "watch": [
        *SELECTION,
        {"ratio": "selection_rate", "tolerance": 0.8},
        {"gap": "base_rate", "tolerance": 0.05},
        {"gap": "equal_opportunity", "tolerance": 0.05},
        {"gap": "calibration", "tolerance": 0.05},
    ],
    "labels": {"audited_with": 0.3},
    "seed": 7,
}


def _mixed_events():
    """Decisions and late labels in turn, enough for some points of the course."""
    rng = np.random.default_rng(4)
    events = []
    for event in people(900, rates=(0.2, 0.4)):
        events.append({**event, "score": rng.random()})
        if event["id"] >= 20:
            events.append({"id": event["id"] - 20 + int(rng.integers(0, 3)), "label": int(rng.random() < 0.4)})
    return events


def test_a_state_of_something_else_is_refused():
    watching = monitor()
    watching.add(people(100))
    written = write_state(watching)
    with pytest.raises(DataError, match="a different configuration: watch"):
        read_state(written, monitor([{"gap": "selection_rate", "tolerance": 0.03}]).config)
    with pytest.raises(DataError, match="changed after it was written"):
        read_state(written.replace(b'"decisions":100', b'"decisions":101'), watching.config)
    with pytest.raises(DataError, match="expected the state of a monitor"):
        read_state(written[:500], watching.config)
    with pytest.raises(DataError, match="expected a state of version"):
        read_state(re.sub(rb'"version":\d+', b'"version":1', written, count=1), watching.config)


@pytest.mark.parametrize("damage", [{"seed": None}, {"ids": 1}, {"measures": []}, {"points": ["x"]}, {"counts": 3}])
def test_a_damaged_state_is_one_clear_error(damage):
    watching = monitor()
    watching.add(people(100))
    with pytest.raises(DataError, match="damaged"):
        restore_monitor(monitor_to_dict(watching) | damage, watching.config)
    state = monitor_to_dict(watching)
    state["measures"][0]["wealth"] = None
    with pytest.raises(DataError, match="damaged"):
        restore_monitor(state, watching.config)


def test_the_course_stays_small():
    watching = monitor()
    watching.add(people(40_000))
    course = watching.result().histories[0]
    assert 64 <= len(course.decisions) <= 129
    assert list(np.diff(course.decisions[:-1])) == [watching.spacing] * (len(course.decisions) - 2)
    assert sum(one.nbytes for m in watching.measures for one in (m.state, m.wealth, m.history)) <= 8192


def labelled(n, *, accuracy=(0.9, 0.9), seed=0):
    """Decisions that are right with these probabilities, and their labels in random order after all decisions."""
    rng = np.random.default_rng(seed)
    events, labels = [], []
    for i in range(n):
        female, label = rng.random() < 0.4, int(rng.random() < 0.5)
        right = rng.random() < accuracy[0 if female else 1]
        events.append({"id": i, "sex": "female" if female else "male", "decision": label if right else 1 - label})
        labels.append({"id": i, "label": label})
    rng.shuffle(labels)
    return events, labels


EQUAL = [{"gap": "equal_opportunity", "tolerance": 0.02}]


def test_late_labels_count_when_they_come_in_any_order():
    watching = monitor(EQUAL)
    decisions, labels = labelled(6000, accuracy=(0.7, 0.95))
    assert watching.add(decisions).alarms == ()
    assert [alarm.direction for alarm in watching.add(labels).alarms] == ["below"]
    (gap,) = watching.intervals()
    assert gap.low < -0.25 < gap.high < 0
    watching.add(labels[:3])
    assert watching.unmatched == 3


def test_labels_of_accepted_decisions_alone_are_refused():
    watching = monitor(EQUAL)
    decisions, labels = labelled(1000)
    watching.add(decisions)
    accepted = {event["id"] for event in decisions if event["decision"]}
    with pytest.raises(DataError, match="labels all belong to accepted decisions"):
        watching.add(label for label in labels if label["id"] in accepted)
    with pytest.raises(DataError, match="labels all belong to accepted decisions"):
        watching.add(decisions)


def some_labels(n, *, accepted, rejected, seed=0):
    """Decisions, and late labels of some of them: with these probabilities."""
    rng = np.random.default_rng(seed)
    decisions, labels = labelled(n, accuracy=(0.9, 0.9), seed=seed)
    made = {event["id"]: event["decision"] for event in decisions}
    return decisions, [one for one in labels if rng.random() < (accepted if made[one["id"]] else rejected)]


def in_turns(watching, decisions, labels, *, piece=100):
    """Add decisions, and of each piece the labels after the next piece."""
    known = {label["id"]: label for label in labels}
    for start in range(0, len(decisions) + piece, piece):
        watching.add(decisions[start : start + piece])
        before = decisions[max(start - piece, 0) : start]
        watching.add(known[event["id"]] for event in before if event["id"] in known)


def test_labels_that_come_rarely_of_rejected_decisions_are_said_beside_the_numbers():
    watching = monitor([*EQUAL, *SELECTION])
    in_turns(watching, *some_labels(2000, accepted=0.6, rejected=0.1))
    result = watching.result()
    assert result.selection.shown < 600
    assert result.selection.accepted + result.selection.rejected == 2000
    assert 0.5 < result.selection.labelled_accepted / result.selection.accepted < 0.7
    page = [str(block) for block in result.document().blocks]
    beside = [i for i, block in enumerate(page) if "Only decisions with a label, mostly accepted ones" in block]
    assert len(beside) == 1  # of selection rates nothing is said
    assert "True positive rate" in page[beside[0] - 1]


def test_labels_that_come_as_often_of_rejected_decisions_are_not_spoken_of():
    shown = 0
    for seed in range(20):
        watching = monitor(EQUAL)
        in_turns(watching, *some_labels(1000, accepted=0.3, rejected=0.3, seed=seed))
        shown += watching.result().selection.shown is not None
        assert "whose label is known" not in watching.result().summary()
    assert shown == 0


@pytest.mark.parametrize("accepted", [2, 25, 48])
def test_the_bet_on_labels_is_fair_whatever_order_they_come_in(accepted):
    """With a rejected decision half as likely as an accepted one to be the next, no bet gains: by all orders."""
    expected = np.zeros(3)
    for order in itertools.product((0, 1), repeat=5):
        test, left, chance = SelectionTest(1e-9, 1000), [BLOCK - accepted, accepted], 1.0
        numbers = [test.decide(i < accepted, 0) for i in range(BLOCK)]
        for kind in order:
            weights = (0.5 * left[0], left[1])
            chance *= weights[kind] / sum(weights)
            if not chance:
                break
            left[kind] -= 1
            test.label(numbers[0], kind, 0)
        expected += chance * np.array(test.wealth)
    assert expected == pytest.approx(1 / 3)


def test_labels_before_their_block_is_complete_count_like_those_after():
    early, late = SelectionTest(0.05, 1000), SelectionTest(0.05, 1000)
    kinds = [i % 2 for i in range(BLOCK)]
    for kind in kinds:
        number = early.decide(kind, 0)
        if kind:
            early.label(number, kind, 0)
    numbers = [late.decide(kind, 0) for kind in kinds]
    for number, kind in zip(numbers, kinds, strict=True):
        if kind:
            late.label(number, kind, 0)
    assert early == late


def test_calibration():
    rng = np.random.default_rng(6)
    events = []
    for i in range(8000):
        female, score = rng.random() < 0.5, rng.random()
        label = int(rng.random() < (0.7 * score if female else score))
        events.append({"sex": "female" if female else "male", "decision": i % 2, "score": score, "label": label})
    watching = monitor([{"gap": "calibration", "tolerance": 0.05, "bins": 4}])
    watching.add(events)
    assert {alarm.first for alarm in watching.alarms} == {"female"}
    assert {alarm.direction for alarm in watching.alarms} == {"below"}
    assert "scores 0.75 to 1" in {alarm.second for alarm in watching.alarms}


def audit(watching, *, gap, n=6000):
    """Add events one by one, and the requested labels, late."""
    rng = np.random.default_rng(3)
    awaited, labels = [], {}
    for i in range(n):
        female = rng.random() < 0.5
        labels[str(i)] = int(rng.random() < (0.4 - gap if female else 0.4))
        awaited += watching.add([{"id": i, "sex": "female" if female else "male"}]).audits
        if len(awaited) > 20 or i == n - 1:
            watching.add([{"id": id, "label": labels[id]} for id in reversed(awaited)])
            awaited = []


@pytest.mark.parametrize("gap", [0.25, 0.0])
def test_few_audits_find_a_gap_and_raise_no_false_alarm(gap):
    watching = monitor([{"gap": "base_rate", "tolerance": 0.0}], labels={"audited_with": 0.2})
    audit(watching, gap=gap)
    assert [alarm.direction for alarm in watching.alarms] == (["below"] if gap else [])
    (interval,) = watching.intervals()
    assert interval.low < -gap < interval.high
    assert 1000 < watching.labels < 1400
    assert watching.result().awaited == 0


def test_the_result_is_json_a_table_and_a_page():
    watching = monitor(groups={"by": ["sex"], "learn": 100})
    watching.add(people(3000, rates=(0.1, 0.5)))
    result = watching.result()
    assert MonitorResult.from_json(result.to_json()) == result
    assert list(result.to_frame()["first"]) == ["female"]
    assert "the selection rate of female is below that of male" in result.summary()
    assert json.loads(result.to_json())["kind"] == "monitor"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"sex": "male", "decision": 2}, "expected 1 or 0 in 'decision', got 2"),
        ({"sex": "male"}, "there is no 'decision'"),
        ({"sex": ["male"], "decision": 1}, "expected a value of 'sex'"),
        ({"sex": "male", "decision": math.nan}, "there is no 'decision'"),
        (["male", 1], "expected an object with fields"),
    ],
)
def test_events_that_make_no_sense_are_refused_and_none_is_taken(event, said):
    watching = monitor()
    with pytest.raises(DataError, match=said):
        watching.add([{"sex": "male", "decision": 1}, event])
    assert watching.decisions == 0


def test_missing_and_unknown_groups_take_no_part_in_a_comparison_of_two():
    watching = monitor()
    watching.add([{"sex": None, "decision": 1}, {"sex": "other", "decision": 1}] * 20 + people(100))
    (gap,) = watching.intervals()
    assert watching.decisions == 140
    assert gap.first_count + gap.second_count <= 100


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"watch": []}, "1 or more entries, got 0"),
        ({"watch": [{"gap": "selection_rate", "tolerance": 1.5}]}, "at least 0 and below 1"),
        ({"watch": [{"tolerance": 0.1}]}, "expected either `gap` or `ratio`"),
        ({"watch": [*SELECTION, *SELECTION]}, "selection_rate gap is listed twice under watch"),
        ({"labels": {"audited_with": 0.1}}, "no watched measure requires labels"),
        ({"groups": {"by": ["sex"], "intersections": True}}, "intersections need two fields"),
        ({"groups": {"by": ["sex"], "values": {"race": ["a", "b"]}}}, "values are given for race"),
        ({"false_alarms": {"horizon": 10, "period": 20}}, "longer than"),
        ({"false_alarm": {}}, "there is no entry 'false_alarm'"),
        ({"webhook": "ftp://somewhere"}, "expected an HTTP URL"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(changes, said):
    with pytest.raises(OptionError, match=said):
        Monitor({"groups": SEXES, "watch": SELECTION, **changes})


@pytest.mark.parametrize("learned", [False, True])
def test_states_are_values(learned):
    groups = {"by": ["sex"], "learn": 50} if learned else SEXES
    watch = [*SELECTION, {"gap": "base_rate", "tolerance": 0.05}]
    watching = monitor(watch, groups, labels={"audited_with": 0.5})
    events = people(300)
    labels = [{"id": id, "label": i % 2} for i, id in enumerate(watching.add(events[:200]).audits)]
    saved = monitor_to_dict(watching)
    original = copy.deepcopy(saved)
    one, other = restore_monitor(saved, watching.config), restore_monitor(saved, watching.config)
    for each in (watching, one):
        each.add([*events[200:], *labels])
        assert saved == original
    assert monitor_to_dict(other) == original
    saved["values"][0].append("neither")
    saved["pending"].clear()
    assert monitor_to_dict(other) == original
    assert monitor_to_dict(one) == monitor_to_dict(watching)


SPELLINGS = [(True, False), (1, 0), (1.0, 0.0), ("1", "0"), ("1.0", "0.0"), ("True", "False"), ("TRUE", "false")]


def words_monitor(measure="selection_rate", values=("female", "male"), **fields):
    groups = {"by": ["sex"], "values": {"sex": list(values)}}
    return Monitor({"groups": groups, "watch": [{"gap": measure, "tolerance": 0.02}], "fields": fields, "seed": 1})


def event(i, decision, sex=None):
    return {"id": i, "sex": sex or ["female", "male"][i % 2], "decision": decision}


def rates(watching):
    (gap,) = watching.intervals()
    return gap.first_rate, gap.second_rate


@given(st.lists(st.booleans(), min_size=16, max_size=40), st.sampled_from([True, 1, "1", "true", 1.0]), st.randoms())
def test_spellings_of_true_and_false_are_one(decisions, favourable, rng):
    watching, plain = words_monitor(favourable=favourable), words_monitor()
    watching.add(event(i, rng.choice(SPELLINGS)[not made]) for i, made in enumerate(decisions))
    plain.add(event(i, int(made)) for i, made in enumerate(decisions))
    assert rates(watching) == rates(plain)


@pytest.mark.parametrize(("words", "compared"), [(["F", "M", "Unknown"], 1), (["F", "M", "f"], None)])
def test_learnt_groups_are_neither_unknown_nor_spellings(words, compared):
    watching = Monitor(
        {"groups": {"by": ["sex"], "learn": 30}, "watch": [{"gap": "selection_rate", "tolerance": 0.02}]}
    )
    events = [event(i, i % 2, words[i % 3]) for i in range(60)]
    if compared is None:
        with pytest.raises(DataError, match="'F', 'f'"):
            watching.add(events)
        return
    watching.add(events)
    assert len(watching.intervals()) == compared


def test_a_table_may_have_nullable_numbers_and_needs_distinct_columns():
    frame = pd.DataFrame({"sex": ["female", "male"] * 8, "decision": pd.array([1, 0] * 8, dtype="Int64")})
    watching = words_monitor()
    watching.add(frame)
    assert (watching.decisions, watching.favourable) == (16, 8)
    with pytest.raises(DataError, match="'sex'"):
        watching.add(frame.set_axis(["sex", "sex"], axis=1))
    with pytest.raises(DataError, match="row 17 seems to total"):
        watching.add(pd.concat([frame, frame[:1].assign(sex="Total")]))
    with pytest.raises(DataError, match="got a lazy one"):
        watching.add(pl.LazyFrame({"sex": ["female"]}))
    with pytest.raises(DataError, match="line 1"):
        LineReader(watching.reader, table=True).read([b"sex,sex,decision", b"female,x,1"])


WORDS = ["offered", "Offered", "declined", "withdrawn", "unknown", "offered ", "1"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), st.sampled_from([["declined"], ["declined", "1"]]))
def test_every_word_has_a_meaning_or_is_refused(words, unfavourable):
    allowed = {"offered", *unfavourable}
    refused = next((number for number, word in enumerate(words) if word.strip() not in allowed), None)
    watching = words_monitor(favourable="offered", unfavourable=unfavourable)
    events = [event(i, word) for i, word in enumerate(words)]
    if refused is None:
        watching.add(events)
        assert watching.decisions == len(words)
        assert watching.favourable == sum(word.strip() == "offered" for word in words)
        return
    with pytest.raises(OutcomeWordError, match=re.escape(repr(words[refused]))) as caught:
        watching.add(events)
    assert caught.value.location == f"event {refused + 1}"
    assert watching.decisions == 0


def test_labels_are_closed_too():
    watching = words_monitor("equal_opportunity", positive="repaid", negative=["defaulted"])
    watching.add([event(0, 1) | {"label": "repaid"}, event(1, 1) | {"label": "defaulted"}])
    for label in ("Repaid", "late", "n/a"):
        with pytest.raises(OutcomeWordError):
            watching.add([{"id": 9, "label": label}])
    assert watching.labels == 2


@pytest.mark.parametrize("fields", [{"favourable": "yes", "unfavourable": ["yes"]}, {"negative": [True]}])
def test_a_word_has_one_meaning(fields):
    with pytest.raises(OptionError):
        words_monitor(**fields)


def test_values_that_are_not_compared_are_counted():
    values = ["female"] * 5 + ["male"] * 4 + ["Female"] * 3 + ["x"] * 2 + [None]
    random.Random(0).shuffle(values)
    watching = words_monitor(values=("female", "male", "other"))
    watching.add({"sex": sex, "decision": 1} for sex in values)
    result = watching.result()
    assert result.uncompared == {"sex": {"Female": 3, "x": 2}}
    assert result.missing == {"sex": 1}
    assert [entry.split(": ")[-1] for entry in result.absent] == ["other"]


def test_many_values_are_counted_together():
    watching = words_monitor()
    watching.add({"sex": f"s{i}", "decision": 1} for i in range(5000))
    counts = watching.result().uncompared["sex"]
    assert len(counts) < 500
    assert sum(counts.values()) == 5000


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_groups_may_be_truth_values(spelling):
    if not isinstance(spelling[0], str) or spelling[0].isalpha():
        configured = [True, False] if isinstance(spelling[0], bool | str) else [1, 0]
        watching = words_monitor(values=configured)
        watching.add({"sex": spelling[i % 2], "decision": i % 3 == 0} for i in range(40))
        assert watching.result().uncompared == {"sex": {}}


def stream(seed, n=400):
    """Decisions and their labels."""
    rng = random.Random(seed)
    made = [event(i, int(rng.random() < 0.5)) for i in range(n)]
    return made, [{"id": i, "label": int(rng.random() < 0.6)} for i in range(n)]


@given(st.integers(0, 10**6))
def test_repeated_ids_count_once_and_labels_come_in_any_order(seed):
    made, labels = stream(seed)
    rng = random.Random(seed)
    plain = words_monitor("equal_opportunity")
    plain.add([one | {"label": label["label"]} for one, label in zip(made, labels, strict=True)])
    copies = rng.sample(made, 30)
    watching = words_monitor("equal_opportunity")
    # Labels may come before or after; a decision comes before its copies.
    late = [label for label in labels if rng.random() < 0.5]
    early = [label for label in labels if label not in late]
    watching.add([*rng.sample(early, len(early)), *made, *rng.sample(late + copies, len(late) + 30)])
    result = watching.result()
    assert (result.decisions, result.labels, result.repeated, result.unmatched) == (400, 400, 30, 0)
    assert result.selection == plain.result().selection.model_copy(update={"shown": result.selection.shown})
    halves = words_monitor("equal_opportunity")
    events = [*early, *made, *late, *copies]
    halves.add(events[:300])
    halves, _ = read_state(write_state(halves), halves.config)
    halves.add(events[300:])
    whole = words_monitor("equal_opportunity")
    whole.add(events)
    assert write_state(halves) == write_state(whole)


def test_labels_without_a_decision_are_named():
    watching = words_monitor("equal_opportunity")
    watching.add(
        [event(0, 1), {"id": 7, "label": 1}, {"id": 7, "label": 0}, {"id": 0, "label": 1}, {"id": 0, "label": 1}]
    )
    result = watching.result()
    assert (result.labels, result.unmatched, result.repeated) == (1, 2, 1)


def plan(**changed):
    usual = {"ratio": False, "paired": False, "smallest": 2, "bound": 0.1, "least": 1.1, "threshold": math.inf}
    usual |= {"start": 0.8, "further": 0.05, "payments": 4, "period": 2, "half_life": 100.0}
    return BetPlan(**(usual | changed))


def bet(plan, sides, outcomes, clock=None):
    """State and wealth after all events of one comparison."""
    state, wealth = open_blocks(1, plan)
    sides = np.array(sides, dtype=np.int64).reshape(-1, 1)
    outcomes = np.array(outcomes, dtype=float).reshape(-1, 1)
    clock = np.arange(1, len(sides) + 1) if clock is None else np.array(clock)
    done = 0
    while done < len(sides):
        done = bet_on_blocks(state, wealth, sides, outcomes, clock, plan, done)
    return state[0], wealth[0]


def reference(plan, sides, outcomes):
    """The formulas of the module, one event at a time, in plain Python."""
    start = [plan.start * float(part) for part in blocks.PARTS]
    ways, paid, first, second = [list(start), list(start)], 0, [], []
    for now, (side, outcome) in enumerate(zip(sides, outcomes, strict=True), start=1):
        if side == 0:
            first.append(outcome)
        elif side == 1:
            second.append(outcome)
        if side < 0 or min(len(first), len(second)) < plan.smallest:
            continue
        means = (sum(first) / len(first), sum(second) / len(second))
        size = 2 / (1 / len(first) + 1 / len(second))
        due = min(now // plan.period, plan.payments)
        for way, (a, b) in enumerate((means, means[::-1])):
            x = plan.bound * b - a if plan.ratio else a - b - plan.bound
            for i, stake in enumerate(blocks.STAKES):
                capital = ways[way][i] + (due - paid) * plan.further * blocks.PARTS[i]
                ways[way][i] = max(capital * (1 + min(1 / plan.least, stake * size) * x), 0)
        paid, first, second = due, [], []
    return ways


def test_a_block_by_hand():
    # Means 1 and 1/2, sizes 2 and 2: x = 0.5 - 0.1 = 0.4; the harmonic mean is 2, two periods are over.
    state, wealth = bet(plan(), [0, 1, 0, 1], [1, 0, 1, 1])
    capital = 0.8 + 2 * 0.05
    expected = sum(
        capital * p * (1 + min(1 / 1.1, 2 * s) * 0.4) for p, s in zip(blocks.PARTS, blocks.STAKES, strict=True)
    )
    assert wealth[0].sum() == pytest.approx(expected)
    assert state[blocks.BLOCKS] == 1
    assert state[blocks.FIRST_SUM] == 2


@given(
    st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.integers(0, 1)), max_size=40), st.booleans(), st.integers(1, 4)
)
def test_bets_are_those_of_the_plain_formulas(events, ratio, smallest):
    one = plan(ratio=ratio, smallest=smallest, bound=0.8 if ratio else 0.1, least=1.0 if ratio else 1.1)
    sides, outcomes = [side for side, _ in events], [outcome for _, outcome in events]
    _, wealth = bet(one, sides, outcomes)
    assert wealth == pytest.approx(np.array(reference(one, sides, outcomes)))


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("smallest", [1, 2])
def test_wealth_is_a_supermartingale_for_all_outcomes_of_six_events(ratio, smallest):
    # At the edge of the hypothesis the expected wealth is the capital paid in so far, whoever comes in which order.
    bound = 0.5 if ratio else 0.2
    one = plan(ratio=ratio, smallest=smallest, bound=bound, least=1.0 if ratio else 1.2)
    rates = (0.3, 0.6) if ratio else (0.6, 0.4)
    for sides in itertools.product((0, 1), repeat=6):
        expected, capital = np.zeros(2), 0.0
        for outcomes in itertools.product((0, 1), repeat=6):
            chance = math.prod(rates[s] if y else 1 - rates[s] for s, y in zip(sides, outcomes, strict=True))
            state, wealth = bet(one, sides, outcomes)
            expected += chance * wealth.sum(axis=1)
            capital = 0.8 + 0.05 * state[blocks.PAID]
        # The first direction bets against the hypothesis that holds with equality, the second against one that is far.
        assert expected[0] == pytest.approx(capital)
        assert expected[1] <= capital + 1e-12


def test_the_bound_of_an_interval_is_a_supermartingale_for_all_outcomes_of_six_events():
    # exp(L (S - E S) - psi(L) V) with the guesses that the kernel makes, whose rates drift from event to event.
    rates = {0: (0.2, 0.5, 0.9, 0.4, 0.6, 0.8), 1: (0.7, 0.1, 0.3, 0.9, 0.2, 0.5)}
    one, width = plan(smallest=1), 1 + blocks.APART
    for sides in ((0, 1, 0, 1, 0, 1), (0, 0, 1, 1, 1, 0), (1, 0, 1, 1, 0, 0)):
        for rate in (0.1, 0.5, 0.9):
            psi, expected = -math.log1p(-rate) - rate, 0.0
            for outcomes in itertools.product((0, 1), repeat=6):
                chance, open_means, drift = 1.0, ([], []), 0.0
                for i, (side, outcome) in enumerate(zip(sides, outcomes, strict=True)):
                    p = rates[side][i]
                    chance *= p if outcome else 1 - p
                    open_means[side].append(p)
                    if min(map(len, open_means)):
                        drift += float(np.mean(open_means[0]) - np.mean(open_means[1]))
                        open_means = ([], [])
                state, _ = bet(one, sides, outcomes)
                surprise = state[blocks.SUM_FIRST] - state[blocks.SUM_SECOND] - drift
                squares = state[blocks.SQUARES_FIRST] - 2 * state[blocks.PRODUCTS] + state[blocks.SQUARES_SECOND]
                expected += chance * math.exp(rate * surprise / width - psi * squares / width**2)
            assert expected <= 1 + 1e-12


def test_an_alarm_stops_at_its_event_and_is_raised_once():
    one = plan(smallest=1, threshold=3.0)
    state, wealth = open_blocks(1, one)
    sides = np.array([[0], [1]] * 20)
    outcomes = np.array([[1.0], [0.0]] * 20)
    first = bet_on_blocks(state, wealth, sides, outcomes, np.arange(1, 41), one, 0)
    assert 0 < first < 40
    assert state[0, blocks.ALARM] == first
    assert bet_on_blocks(state, wealth, sides, outcomes, np.arange(1, 41), one, first) == 40
    assert state[0, blocks.ALARM] == first
    assert state[0, blocks.OTHER_ALARM] == 0


def test_wealth_stays_finite():
    _, wealth = bet(plan(smallest=1), [0, 1] * 5000, [1, 0] * 5000)
    assert np.isfinite(wealth).all()
    assert wealth[0].sum() >= 1e200


def test_over_whole_runs_alarms_are_false_no_more_often_than_is_said_and_real_gaps_are_found():
    one = plan(smallest=4, bound=0.0, least=1.0, threshold=2 / 0.05, period=100, payments=40, further=0.2 / 40)
    rng = np.random.default_rng(8)
    n, runs = 4000, 400

    def alarms(rates):
        found = 0
        for _ in range(runs):
            sides = (rng.random(n) >= 0.3).astype(int)
            state, _ = bet(one, sides, rng.random(n) < np.where(sides == 0, *rates))
            found += bool(state[blocks.ALARM] or state[blocks.OTHER_ALARM])
        return found / runs

    assert alarms((0.3, 0.3)) <= 0.05
    assert alarms((0.4, 0.3)) >= 0.95
