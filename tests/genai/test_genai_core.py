"""The enforcer by hand: slots, promises, voids, retries, slack, both modes, several specifications, the baseline."""

import copy
import random

import pytest
from genai_reference import read_config

from evenhand.errors import DecisionError, OptionError
from evenhand.genai import Enforcer

AGES = ("1", "2", "3", "4")


def configuration(repeated=(5, 6, 6, 9), **more):
    values = [str(k) for k in range(1, len(repeated) + 1)]
    return read_config({"age": values}, {"condition": "leader", "group": "age", "repeated": list(repeated)}, **more)


def enforcer(repeated=(5, 6, 6, 9), **options):
    return Enforcer(configuration(repeated), **options)


def show(keeper, value):
    """One request after another: admit it and show a value, or what is asked for if there is None."""
    admission = keeper.admit({"leader"})
    outcome = keeper.complete(admission, {"age": value or admission.must["age"][0]})
    assert outcome.status == "ok"
    return admission


def left(keeper):
    return tuple(keeper.items_until_due()["leader: age"].values())


def test_the_same_generator_is_stopped_in_time():
    keeper = enforcer()
    asked = [show(keeper, "4").must for _ in range(3)]
    assert asked == [{}, {}, {}]
    assert left(keeper) == (2, 3, 3, 9)
    # Three values are due within three items, so one of them must be next, any of them; the earliest is chosen.
    admission = keeper.admit({"leader"})
    assert admission.allowed == {"age": ("1", "2", "3")}
    assert admission.must == {"age": ("1",)}
    assert "1, 2, 3" in admission.reason
    assert keeper.complete(admission, {"age": "1"}).status == "ok"
    assert {show(keeper, None).must["age"][0] for _ in range(2)} == {"2", "3"}
    assert keeper.broken_assumptions == ()


def test_an_unrecognised_item_counts_for_nothing():
    keeper = enforcer((9, 9, 9))
    show(keeper, "1")
    before = left(keeper)
    void = keeper.admit({"leader"})
    assert left(keeper) == tuple(d - 1 for d in before)
    assert keeper.complete(void, {"age": None}).slots == {}
    assert left(keeper) == before
    missing = keeper.admit({"leader"})
    assert keeper.complete(missing, None).status == "ok"
    assert left(keeper) == before


def test_a_promise_on_which_others_rely_is_not_given_up_though_the_value_comes_again():
    # "1" is promised every other time. Without one of them, the next would come too late; the first is not needed.
    keeper = enforcer((2, 4, 4), retries=1)
    admissions = [keeper.admit({"leader"}) for _ in range(6)]
    promised = [one.must["age"][0] for one in admissions]
    first, second, third = (slot for slot, value in enumerate(promised) if value == "1")
    assert (second - first, third - second) == (2, 2)
    outcome = keeper.complete(admissions[second], {"age": None})
    assert outcome.status == "retry"
    assert outcome.admission.must == {"age": ("1",)}
    assert keeper.complete(outcome.admission, {"age": "1"}).status == "ok"
    assert keeper.complete(admissions[first], {"age": None}).status == "ok"
    # A promise that is not needed any more was not obeyed.
    assert keeper.counts["leader: age"]["obeyed"] == 1


def test_a_broken_promise_is_retried_and_then_recorded():
    keeper = enforcer(retries=2)
    for _ in range(3):
        show(keeper, "4")
    admission = keeper.admit({"leader"})
    for attempt in (1, 2):
        outcome = keeper.complete(admission, {"age": "4"})
        assert (outcome.status, outcome.admission.attempt) == ("retry", attempt)
        assert outcome.admission.must == admission.must
        admission = outcome.admission
    outcome = keeper.complete(admission, {"age": "4"})
    assert outcome.status == "violation"
    assert [(one.what, one.specification) for one in keeper.broken_assumptions] == [("disobeyed", "leader: age")]
    assert "slot 4 did not show '1' in 3 attempts, but '4'" in keeper.broken_assumptions[0].reason
    # Now three values are due within two items. The rest is done in the best order, and what is missed is known.
    for _ in range(3):
        show(keeper, None)
    assert keeper.counts["leader: age"]["missed"] == 1
    said = keeper.guarantee()
    assert "1 item not showing the required values, after all retries" in said
    assert "1 deadline missed" in said
    assert "3 of 6 attempts at required values succeeded" in said


def test_every_deadline_that_passes_is_counted_and_what_is_overdue_is_said():
    keeper = Enforcer(
        {
            "conditions": [{"name": "nurse"}],
            "specifications": [
                {"condition": "nurse", "group": "gender", "values": ["woman", "man"], "repeated": 10, "name": "nurses"}
            ],
        },
        retries=0,
    )
    for _ in range(200):
        keeper.complete(keeper.admit({"nurse"}), {"gender": "man"})
    assert keeper.counts["nurses"]["missed"] == 20
    assert keeper.overdue() == {"nurses": {"woman": 10}}
    assert keeper.broken_assumptions[-1].reason == "'woman' did not appear by item 200, and was due by item 10"
    assert "20 deadlines missed\n  overdue: woman, which was due by item 10\n" in keeper.guarantee()
    keeper.complete(keeper.admit({"nurse"}), {"gender": "woman"})
    assert keeper.overdue() == {"nurses": {}}
    assert keeper.counts["nurses"]["missed"] == 20


def test_what_cannot_be_taken_leaves_the_state_as_it_is():
    keeper = enforcer()
    admission = keeper.admit({"leader"})
    before = keeper.state()
    with pytest.raises(DecisionError, match="no value 'old'") as caught:
        keeper.complete(admission, {"age": "old"})
    assert caught.value.code == "label"
    with pytest.raises(DecisionError, match="no group 'gender'"):
        keeper.complete(admission, {"gender": "male"})
    with pytest.raises(OptionError, match="no condition 'boss'"):
        keeper.admit({"boss"})
    with pytest.raises(OptionError, match="no group 'gender'"):
        keeper.admit({"leader"}, fixed={"gender"})
    assert keeper.state() == before
    keeper.complete(admission, {"age": "1"})
    with pytest.raises(DecisionError, match="not pending"):
        keeper.complete(admission, {"age": "1"})
    with pytest.raises(DecisionError, match="belongs to a different"):
        enforcer((3, 3, 3)).restore(keeper.state())
    with pytest.raises(DecisionError, match="expected the state"):
        keeper.restore({"leader: age": {}})
    with pytest.raises(DecisionError, match="no specification 'x'"):
        keeper.restore({"x": {}})


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"mode": "during"}, "no mode 'during'"),
        ({"retries": -1}, "retries must be nonnegative"),
        ({"slack": 2}, "slack of 2"),
    ],
)
def test_options_that_make_no_sense(options, what):
    with pytest.raises(OptionError, match=what):
        enforcer((5, 5, 5, 5), **options)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_states_are_values(mode):
    first = enforcer((3, 4, 4), mode=mode, retries=1)

    def run(keeper, seed):
        rng, outcomes = random.Random(seed), []
        keeper.set_seed(seed)
        for _ in range(50):
            admission = keeper.admit(["leader"])
            described = admission.to_dict()
            outcome = keeper.complete(admission, {"age": rng.choice(["1", "2", "3", None])})
            assert admission.to_dict() == described
            outcomes.append(outcome)
        return outcomes

    run(first, 1)
    saved = first.state()
    original = copy.deepcopy(saved)
    shields = [enforcer((3, 4, 4), mode=mode, retries=1) for _ in range(2)]
    for keeper in shields:
        keeper.restore(saved)
    outcomes = run(shields[0], 2)
    assert saved == original
    assert shields[1].state() == original
    assert run(shields[1], 2) == run(first, 2) == outcomes
    for row in saved.values():
        row["window"].append(0)
        row["last"].clear()
        row["counts"].clear()
    assert shields[1].state() == shields[0].state() == first.state()
