"""The states from which deadlines can be kept, against a plain solution of the game."""

from itertools import combinations, product

import pytest

from evenhand.genai.games.game import MAX_GAME_STATES, Game, find_culprits, solve_game


def all_states(deadlines):
    return product(*(range(1, d + 1) for d in deadlines))


def test_the_counterexample_to_counting_is_inside_and_then_outside():
    region = solve_game(Game.single((5, 6, 6, 9)))
    assert region.method == "hall"
    assert region.holds((5, 6, 6, 9))
    assert region.holds((2, 3, 3, 9))
    # Three values due within two items: lost, though each alone has time.
    assert not region.holds((1, 2, 2, 9))


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


# ---- several specifications whose game is too large to be solved


def of_conditions(*deadlines):
    """The game of several conditions on one group, each with its own deadlines."""
    moves = (move for size in range(1, len(deadlines) + 1) for move in combinations(range(len(deadlines)), size))
    return Game(deadlines, tuple((k,) * len(deadlines) for k in range(len(deadlines[0]))), tuple(moves))


@pytest.mark.parametrize(
    "deadlines",
    [
        ((3, 3), (3, 3)),
        ((3, 4), (5, 3)),
        ((4, 4), (3, 3)),
        ((4, 4), (4, 4), (4, 4)),
        ((5, 4), (4, 4), (4, 5)),
        ((5, 5, 5), (5, 6, 5)),
        ((4, 4), (4, 4, 5)),
    ],
)
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
    inside = {state for state in all_states(game.flat) if region.holds(state)}
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


def test_conditions_that_are_too_many_to_be_tried_are_not_called_feasible():
    game = Game(((5, 5),) * 9, ((0,) * 9, (1,) * 9), ())
    region = solve_game(game)
    assert region.verdict == "undecided"


def test_a_cut_game_that_is_lost_is_not_decided():
    # With 5,000,000 states and more, deadlines are cut down; that loses, and says nothing of the deadlines as they are.
    region = solve_game(of_conditions((4, 6, 8), (5, 7, 8), (6, 7, 3)))
    assert region.verdict == "undecided"
