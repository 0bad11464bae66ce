"""The enforcer of deadlines and the game that decides what can be kept."""

import copy
import random
from itertools import combinations, product
from random import Random

import pytest
from genai_reference import read_config, winning

from evenhand.errors import DecisionError, OptionError
from evenhand.genai import Enforcer, GenerationConfig
from evenhand.genai.enforcement.component import OPEN_SLOT, VOID_ITEM, SpecificationState
from evenhand.genai.games.game import MAX_GAME_STATES, Game, WinningRegion, find_culprits, solve_game
from evenhand.genai.spec.specification import Requirement

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


@pytest.mark.parametrize("others", [(), ({"condition": "leader", "group": "age", "repeated": 9, "name": "loose"},)])
def test_a_promise_on_which_others_rely_is_not_given_up_though_the_value_comes_again(others):
    # "1" is promised every other time. Without one of them, the next would come too late; the first is not needed.
    tight = {"condition": "leader", "group": "age", "repeated": [2, 4, 4]}
    keeper = Enforcer(read_config({"age": ["1", "2", "3"]}, tight, *others), retries=1)
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
    nurses = {"condition": "nurse", "group": "gender", "values": ["woman", "man"], "repeated": 10, "name": "nurses"}
    keeper = Enforcer({"conditions": [{"name": "nurse"}], "specifications": [nurses]}, retries=0)
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
    with pytest.raises(DecisionError, match="different mode"):
        keeper.complete(enforcer(mode="after").admit({"leader"}), {"age": "1"})
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
    "change",
    [
        {"last": [1, 2]},
        {"last": [-1, 2, 0]},
        {"last": [1, 3, 0]},
        {"items": 3},
        {"items": -1, "last": [-1, -1, -1]},
        {"window": [6]},
        {"window": [-3]},
    ],
    ids=str,
)
def test_states_that_no_run_reaches_are_refused(change):
    keeper = enforcer((3, 4, 4))
    show(keeper, "1")
    show(keeper, "2")
    before = keeper.state()
    assert before["leader: age"] | {"counts": {}} == {
        "settled": 2,
        "items": 2,
        "last": [1, 2, 0],
        "window": [],
        "counts": {},
        "reasons": [],
    }
    with pytest.raises(DecisionError, match="belongs to a different") as caught:
        keeper.restore({"leader: age": {**before["leader: age"], **change}})
    assert caught.value.code == "state"
    assert keeper.state() == before


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
        keeper.random.seed(seed)
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


NAMES = "abcdef"
LOST = -1


def one(beta):
    return read_config({"g": list(NAMES[: len(beta)])}, {"condition": "x", "group": "g", "repeated": list(beta)})


def level(counters, value, beta, slack):
    """How many items early every deadline can be kept once ``value`` was shown; ``LOST``: not even in time."""
    then = [beta[other] if other == value else left - 1 for other, left in enumerate(counters)]
    for by in range(slack, -1, -1):
        if tuple(left - by for left in then) in winning(tuple(most - by for most in beta)):
            return by
    return LOST


CASES = [
    (beta, slack)
    for beta in [(5, 6, 7), (4, 5, 5, 8), (3, 5, 5), (3, 5, 9, 9)]
    for slack in (0, 1, 2)
    if tuple(most - slack for most in beta) in winning(tuple(most - slack for most in beta))
]
"""Deadlines of both kinds, those for which there is a bound and those for which the game is solved."""


@pytest.mark.parametrize(("beta", "slack"), CASES)
@pytest.mark.parametrize("mode", ["before", "after"])
def test_decisions_after_failures_are_the_best_there_are(mode, beta, slack):
    """A generator that disobeys half of the time: what is asked for wins back most, and nothing is redone in vain."""
    everything, seen = set(range(len(beta))), set()
    for seed in range(12):
        rng = Random(seed)
        enforcer = Enforcer(one(beta), mode=mode, slack=slack, retries=0, in_flight=1, seed=seed)
        counters = beta
        for _ in range(40):
            levels = [level(counters, value, beta, slack) for value in range(len(beta))]
            best = max(levels)
            right = {value for value in everything if levels[value] == best}
            if best < slack:
                first = min(counters[value] for value in right)
                right = {value for value in right if counters[value] == first}
            elif right == everything:
                right = set()
            admission = enforcer.admit({"x"})
            shown = rng.randrange(len(beta))
            if mode == "after":
                outcome = enforcer.complete(admission, {"g": NAMES[shown]})
                fine = levels[shown] >= slack or LOST < levels[shown] == best
                if not fine and levels[shown] == best:
                    fine = outcome.status == "ok" and shown in right  # all is lost: only what is due first will do
                assert (outcome.status == "ok") == fine, (counters, shown)
                seen.add((best, outcome.status == "ok"))
                if outcome.status != "ok":
                    admission, shown = outcome.admission, rng.randrange(len(beta))
            if mode == "before" or outcome.status != "ok":
                assert {NAMES.index(value) for value in admission.must.get("g", ())} == right, (counters, slack)
                outcome = enforcer.complete(admission, {"g": NAMES[shown]})
                fine = not right or levels[shown] >= slack or LOST < levels[shown] == best
                if best > LOST:
                    assert outcome.status == ("ok" if fine else "violation"), (counters, shown)
                seen.add((best, outcome.status == "ok"))
            counters = tuple(beta[other] if other == shown else left - 1 for other, left in enumerate(counters))
    assert {best for best, _ in seen} == set(range(LOST, slack + 1))


@pytest.mark.parametrize("slack", [0, 1, 2])
def test_values_of_several_groups_win_back_as_much_slack_as_any_others(slack):
    described = {
        "conditions": [{"name": "x"}],
        "groups": {"g": ["a", "b"], "h": ["p", "q", "r"]},
        "specifications": [
            {"condition": "x", "group": "g", "repeated": [5, 7]},
            {"condition": "x", "paired": ["g", "h"], "repeated": [12, 13, 14, 15, 13, 12]},
        ],
    }
    levels = set()
    for seed in range(6):
        rng = Random(seed)
        enforcer = Enforcer(described, slack=slack, retries=0, in_flight=1, seed=seed)
        (solver,) = enforcer._components
        both = (0, 1)
        for _ in range(60):
            best = max(solver._known_level(both, item) for item in solver._component.assignments)
            choice = solver.choose(both, any_will_do=True)
            if choice is not None:
                assert solver._known_level(both, choice.values_to_ask) == best
            levels.add(best)
            admission = enforcer.admit({"x"})
            shown = {"g": rng.choice("ab"), "h": rng.choice("pqr")}
            if rng.random() < 0.7:
                shown |= {group: values[0] for group, values in admission.must.items()}
            enforcer.complete(admission, shown)
    assert levels >= set(range(slack + 1))


def test_slack_is_kept_in_pairs_of_three_groups():
    groups = {"g": ["a", "b"], "h": ["p", "q"], "k": ["y", "z"]}
    described = {
        "conditions": [{"name": "x"}],
        "groups": groups,
        "specifications": [{"condition": "x", "paired": list(groups), "repeated": 13}],
    }
    for seed in range(10):
        rng, asked = Random(seed), 0
        enforcer = Enforcer(GenerationConfig.read(described), slack=1, in_flight=1, seed=seed)
        for _ in range(60):
            admission = enforcer.admit({"x"})
            asked += bool(admission.must)
            shown = {group: rng.choice(admission.must.get(group, names)) for group, names in groups.items()}
            assert enforcer.complete(admission, shown).status == "ok"
            left = sorted(items for row in enforcer.items_until_due().values() for items in row.values())
            assert all(items - 1 > place for place, items in enumerate(left)), left
        assert asked > 10


def test_an_item_whose_prompt_fixes_one_of_several_groups_does_not_count_for_them_together():
    specifications = (
        {"condition": "x", "paired": ["g", "h"], "repeated": 9},
        {"condition": "x", "group": "h", "repeated": 9},
    )
    enforcer = Enforcer(read_config({"g": ["a", "b"], "h": ["p", "q"]}, *specifications))
    assert enforcer.admit({"x"}, fixed={"g"}).counts == ("x: h",)
    assert enforcer.admit({"x"}, fixed={"h"}).counts == ()


def test_when_more_are_in_flight_than_was_said_one_value_is_asked_for():
    enforcer = Enforcer(one((3, 3, 3)), in_flight=1)
    enforcer.admit({"x"})
    crowded = enforcer.admit({"x"})
    assert len(crowded.allowed["g"]) == 3
    assert len(crowded.must["g"]) == 1
    assert [broken.what for broken in enforcer.broken_assumptions] == ["in-flight"]


def state_of(repeated):
    values = tuple(NAMES[: len(repeated)])
    return SpecificationState(Requirement("x: g", "x", ("g",), (values,), tuple(repeated)))


def reckoned(repeated, slots):
    """``due`` and the number of items by the definition; a slot is what it shows or promises, ``OPEN`` or ``VOID``."""
    due, items = list(repeated), 0
    for value in slots:
        if value != VOID_ITEM:
            items += 1
            if value != OPEN_SLOT:
                due[value] = items + repeated[value]
    return due, items


@pytest.mark.parametrize("seed", range(20))
def test_deadlines_are_those_of_all_slots_whatever_the_order_in_which_they_are_known(seed):
    rng = Random(seed)
    repeated = [rng.randint(2, 9) for _ in range(rng.randint(2, 4))]
    values = range(len(repeated))
    deadlines, slots, under_way = state_of(repeated), [], []
    for _ in range(150):
        if not under_way or (rng.random() < 0.5 and len(under_way) < 8):
            promise = rng.choice([OPEN_SLOT, OPEN_SLOT, *values])
            under_way.append(deadlines.admit(promise))
            slots.append(promise)
        else:
            slot = under_way.pop(rng.randrange(len(under_way)))
            slots[slot - 1] = rng.choice([VOID_ITEM, slots[slot - 1] if slots[slot - 1] >= 0 else 0, *values])
            deadlines.complete(slot, slots[slot - 1])
        assert (deadlines.due, deadlines.items) == reckoned(repeated, slots)


@pytest.mark.parametrize(
    ("groups", "ways", "simulation", "complaint"),
    [
        (30, 15, {}, "more than 10,000 combinations of 15"),
        (12, 12, {}, "more than 10,000 combinations of values"),
        (2, 2, {"slack": 100_000_000}, "got 100000000"),
    ],
)
def test_configurations_that_would_take_for_ever_are_refused(groups, ways, simulation, complaint):
    names = [f"g{i}" for i in range(groups)]
    with pytest.raises(OptionError, match=complaint):
        read_config(
            {name: ["a", "b", "c"] for name in names},
            {"condition": "x", "paired": names, "ways": ways, "repeated": 9},
            simulation=simulation,
        )


def test_only_what_was_not_shown_is_blamed():
    groups = {"g": ["a", "b"], "h": ["p", "q"]}
    specifications = [
        {"condition": "x", "paired": ["g", "h"], "repeated": 6},
        {"condition": "x", "group": "h", "repeated": 6},
    ]
    blamed = 0
    for seed in range(30):
        enforcer = Enforcer(read_config(groups, *specifications), retries=0, seed=seed)
        for _ in range(12):
            admission = enforcer.admit({"x"})
            asked = enforcer.counts["x: h"]["asked"]
            shown = {group: admission.must.get(group, names)[0] for group, names in groups.items()}
            if admission.must.keys() == groups.keys() and asked:
                shown["g"] = "b" if shown["g"] == "a" else "a"
            enforcer.complete(admission, shown)
            blamed += enforcer.counts["x: g + h"]["disobeyed"]
            assert enforcer.counts["x: h"]["disobeyed"] == 0
    assert blamed > 0


def test_large_games_are_solved_exactly_or_with_shorter_deadlines():
    large = solve_game(Game.single((4, 4, 40, 90, 90)))
    assert large.method == "exact"
    assert large.feasible
    assert 4_000_000 < large.states <= MAX_GAME_STATES
    cut = solve_game(Game.single((2, 4, 10, 61, 1000)))
    assert cut.feasible
    assert cut.verdict != "undecided"
    assert cut.states <= MAX_GAME_STATES
    assert cut.holds((2, 4, 10, 61, 1000))


def test_values_at_fault():
    assert find_culprits((5, 6, 6, 9)) == ()
    assert find_culprits((9, 9, 1, 7)) == (2, 3)
    assert find_culprits((9, 2, 3, 50)) == (0, 1, 2)
    assert find_culprits((2, 2, 2)) == (0, 1, 2)
    # Among many values too; to try all sets of four of them would take for ever.
    assert find_culprits((299,) * 300) == tuple(range(300))
    assert solve_game(Game.single((10**30,) * 3000)).feasible


def joint(conditions, values, deadline):
    """The game of several conditions on one group, any of which may hold for an item."""
    return Game(
        ((deadline,) * values,) * conditions,
        tuple((k,) * conditions for k in range(values)),
        tuple(move for size in range(1, conditions + 1) for move in combinations(range(conditions), size)),
    )


def of_conditions(*deadlines):
    """The game of several conditions on one group, each with its own deadlines."""
    moves = (move for size in range(1, len(deadlines) + 1) for move in combinations(range(len(deadlines)), size))
    return Game(deadlines, tuple((k,) * len(deadlines) for k in range(len(deadlines[0]))), tuple(moves))


PAIRED = [((3, 3), (3, 3)), ((3, 4), (5, 3)), ((4, 4), (3, 3)), ((4, 4), (4, 4), (4, 4)), ((5, 4), (4, 4), (4, 5))]


@pytest.mark.parametrize("deadlines", [*PAIRED, ((5, 5, 5), (5, 6, 5)), ((4, 4), (4, 4, 5))])
def test_long_deadlines_are_kept_whatever_the_size_of_the_game(deadlines, monkeypatch):
    if len(set(map(len, deadlines))) == 1:
        game = of_conditions(*deadlines)
    else:  # two groups, so that any values go together
        game = Game(deadlines, tuple(product(*(range(len(one)) for one in deadlines))), ((0,), (1,), (0, 1)))
    assert min(game.flat) >= game.enough
    expected = solve_game(game)
    assert expected.feasible
    monkeypatch.setattr("evenhand.genai.games.game.MAX_GAME_STATES", 2 ** len(game.flat))
    region = solve_game(game)
    assert region.method == "hall"
    assert region.holds(game.flat)
    inside = {state for state in product(*(range(1, d + 1) for d in game.flat)) if region.holds(state)}
    assert all(expected.holds(state) for state in inside)
    # It can be kept: from every state in it, whatever counts for the next item, something leads to another one.
    for state in inside:
        for move in game.moves:
            assert any(after(game, state, move, action) in inside for action in game.actions), (state, move)


def after(game, state, move, action):
    """The state after an item, or one that is in no region."""
    found, at = [], 0
    for i, deadlines in enumerate(game.deadlines):
        for k, deadline in enumerate(deadlines):
            left = state[at + k]
            found.append(left if i not in move else deadline if action[i] == k else left - 1)
        at += len(deadlines)
    return tuple(found)


def test_one_item_less_is_not_enough():
    for conditions, values in ((2, 2), (3, 2), (2, 3), (4, 2)):
        game = joint(conditions, values, conditions * (values - 1))
        assert min(game.flat) == game.enough - 1
        assert not solve_game(game).feasible


@pytest.mark.parametrize("deadlines", [((30,) * 12, (23,) * 12), ((13, 14, 15, 16),) * 4, ((10, 10),) * 9])
def test_large_games_with_long_deadlines_are_feasible_without_being_solved(deadlines):
    game = of_conditions(*deadlines)
    region = solve_game(game)
    assert (region.method, region.verdict, region.states) == ("hall", "feasible", 0)
    assert region.holds(game.flat)


def test_large_games_are_refused_if_some_of_their_specifications_cannot_be_kept_together():
    region = solve_game(of_conditions(*[(4, 4)] * 7))
    assert region.verdict == "infeasible"
    assert solve_game(of_conditions(*[(4, 4)] * 3)).feasible


def test_a_game_that_takes_too_long_is_given_up(monkeypatch):
    game = of_conditions((2, 40), (40, 40))
    assert solve_game(game).verdict != "undecided"
    monkeypatch.setattr("evenhand.genai.games.game.MAX_GAME_STEPS", 10_000_000)
    region = solve_game(game)
    assert region.verdict == "undecided"


def test_an_undecided_part_does_not_make_a_game_infeasible(monkeypatch):
    monkeypatch.setattr("evenhand.genai.games.game.solve_game", lambda part: WinningRegion("undecided"))
    assert solve_game(Game.single((2, 4, 4))).feasible


def test_conditions_that_are_too_many_to_be_tried_are_not_called_feasible():
    game = Game(((5, 5),) * 9, ((0,) * 9, (1,) * 9), ())
    region = solve_game(game)
    assert region.verdict == "undecided"


def test_a_cut_game_that_is_lost_is_not_decided():
    # With 5,000,000 states and more, deadlines are cut down; that loses, and says nothing of the deadlines as they are.
    region = solve_game(of_conditions((4, 6, 8), (5, 7, 8), (6, 7, 3)))
    assert region.verdict == "undecided"
