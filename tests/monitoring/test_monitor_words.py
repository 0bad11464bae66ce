"""Words, repeated ids and the order of labels: a monitor's counts are those of a plain count over all events."""

import random
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError, OptionError
from evenhand.monitoring import Monitor, read_state, write_state
from evenhand.monitoring.events import OutcomeWordError
from evenhand.monitoring.lines import LineReader

SPELLINGS = [(True, False), (1, 0), (1.0, 0.0), ("1", "0"), ("1.0", "0.0"), ("True", "False"), ("TRUE", "false")]


def monitor(measure="selection_rate", values=("female", "male"), **fields):
    return Monitor(
        {
            "groups": {"by": ["sex"], "values": {"sex": list(values)}},
            "watch": [{"gap": measure, "tolerance": 0.02}],
            "fields": fields,
            "seed": 1,
        }
    )


def event(i, decision, sex=None):
    return {"id": i, "sex": sex or ["female", "male"][i % 2], "decision": decision}


def rates(watching):
    (gap,) = watching.intervals()
    return gap.first_rate, gap.second_rate


@given(st.lists(st.booleans(), min_size=16, max_size=40), st.sampled_from([True, 1, "1", "true", 1.0]), st.randoms())
def test_spellings_of_true_and_false_are_one(decisions, favourable, rng):
    watching, plain = monitor(favourable=favourable), monitor()
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
    watching = monitor()
    watching.add(frame)
    assert (watching.decisions, watching.favourable) == (16, 8)
    with pytest.raises(DataError, match="'sex'"):
        watching.add(frame.set_axis(["sex", "sex"], axis=1))
    with pytest.raises(DataError, match="line 1"):
        LineReader(watching.reader, table=True).read([b"sex,sex,decision", b"female,x,1"])


WORDS = ["offered", "Offered", "declined", "withdrawn", "unknown", "offered ", "1"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), st.sampled_from([["declined"], ["declined", "1"]]))
def test_every_word_has_a_meaning_or_is_refused(words, unfavourable):
    allowed = {"offered", *unfavourable}
    refused = next((number for number, word in enumerate(words) if word.strip() not in allowed), None)
    watching = monitor(favourable="offered", unfavourable=unfavourable)
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
    watching = monitor("equal_opportunity", positive="repaid", negative=["defaulted"])
    watching.add([event(0, 1) | {"label": "repaid"}, event(1, 1) | {"label": "defaulted"}])
    for label in ("Repaid", "late", "n/a"):
        with pytest.raises(OutcomeWordError):
            watching.add([{"id": 9, "label": label}])
    assert watching.labels == 2


@pytest.mark.parametrize("fields", [{"favourable": "yes", "unfavourable": ["yes"]}, {"negative": [True]}])
def test_a_word_has_one_meaning(fields):
    with pytest.raises(OptionError):
        monitor(**fields)


def test_values_that_are_not_compared_are_counted():
    values = ["female"] * 5 + ["male"] * 4 + ["Female"] * 3 + ["x"] * 2 + [None]
    random.Random(0).shuffle(values)
    watching = monitor(values=("female", "male", "other"))
    watching.add({"sex": sex, "decision": 1} for sex in values)
    result = watching.result()
    assert result.uncompared == {"sex": {"Female": 3, "x": 2}}
    assert result.missing == {"sex": 1}
    assert [entry.split(": ")[-1] for entry in result.absent] == ["other"]


def test_many_values_are_counted_together():
    watching = monitor()
    watching.add({"sex": f"s{i}", "decision": 1} for i in range(5000))
    counts = watching.result().uncompared["sex"]
    assert len(counts) < 500
    assert sum(counts.values()) == 5000


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_groups_may_be_truth_values(spelling):
    if not isinstance(spelling[0], str) or spelling[0].isalpha():
        configured = [True, False] if isinstance(spelling[0], bool | str) else [1, 0]
        watching = monitor(values=configured)
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
    plain = monitor("equal_opportunity")
    plain.add([one | {"label": label["label"]} for one, label in zip(made, labels, strict=True)])
    copies = rng.sample(made, 30)
    watching = monitor("equal_opportunity")
    # Labels may come before or after; a decision comes before its copies.
    late = [label for label in labels if rng.random() < 0.5]
    early = [label for label in labels if label not in late]
    watching.add([*rng.sample(early, len(early)), *made, *rng.sample(late + copies, len(late) + 30)])
    result = watching.result()
    assert (result.decisions, result.labels, result.repeated, result.unmatched) == (400, 400, 30, 0)
    assert result.selection == plain.result().selection.model_copy(update={"shown": result.selection.shown})
    halves = monitor("equal_opportunity")
    events = [*early, *made, *late, *copies]
    halves.add(events[:300])
    halves, _ = read_state(write_state(halves), halves.config)
    halves.add(events[300:])
    whole = monitor("equal_opportunity")
    whole.add(events)
    assert write_state(halves) == write_state(whole)


def test_labels_without_a_decision_are_named():
    watching = monitor("equal_opportunity")
    watching.add(
        [event(0, 1), {"id": 7, "label": 1}, {"id": 7, "label": 0}, {"id": 0, "label": 1}, {"id": 0, "label": 1}]
    )
    result = watching.result()
    assert (result.labels, result.unmatched, result.repeated) == (1, 2, 1)
