"""Rankings: the papers' examples by hand, small lists counted by loops, coverage, and what is left out."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand
from evenhand.errors import DataError, OptionError
from evenhand.groups import RankingRoles
from evenhand.groups.rankings.analysis import measure_rankings
from evenhand.groups.rankings.result import RankingResult
from evenhand.stats.quantity import quantity_value
from support import scaled

# Singh & Joachims 2018, figure 1: six job seekers by relevance, men first.
SEEKERS = {
    "rank": [1, 2, 3, 4, 5, 6],
    "relevance": [0.80, 0.79, 0.78, 0.77, 0.76, 0.75],
    "sensitive_features": {"sex": ["male"] * 3 + ["female"] * 3},
}


def audit(**given):
    return evenhand.audit_rankings(**({"min_group_size": 1, "draws": 199} | given))


def group(result, label, at=0):
    return next(one for one in result.breakdowns[at].groups if one.label == label)


def test_a_small_difference_in_relevance_becomes_a_large_one_in_exposure():
    result = audit(**SEEKERS, at=3)
    exposure = {sex: group(result, sex).metrics["exposure"].value for sex in ("male", "female")}
    assert {sex: round(value, 2) for sex, value in exposure.items()} == {"male": 0.71, "female": 0.39}  # the paper's
    weights = 1 / np.log2(1 + np.arange(1, 7))
    ratio = weights[3:].sum() / weights[:3].sum()
    found = result.breakdowns[0]
    assert found.gap("exposure_ratio").value.value == pytest.approx(ratio)
    assert found.gap("disparate_treatment_ratio").value.value == pytest.approx(ratio / (0.76 / 0.79))
    assert found.gap("selection_ratio", "3").value.value == 0
    assert found.gap("pairwise_parity_difference").value.value == 1
    # Of the 20 ways to deal out the groups, this one and its mirror are the furthest apart.
    assert found.gap("exposure_ratio").value.p == pytest.approx(0.1, abs=0.06)


def test_other_weights_of_places():
    result = audit(**SEEKERS, at=3, position_weights="reciprocal")
    expected = (1 / 4 + 1 / 5 + 1 / 6) / (1 + 1 / 2 + 1 / 3)
    assert result.breakdowns[0].gap("exposure_ratio").value.value == pytest.approx(expected)


LISTS = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from("abc"), st.integers(0, 2)), min_size=2, max_size=5),
    min_size=1,
    max_size=4,
)


def loops(lists, k):
    """Every number from its definition, by loops over lists, orders of ties and pairs."""
    sums = {}

    def add(key, above, below):
        total = sums.setdefault(key, np.zeros(2))
        total += (above, below)

    for one in lists:
        names = {sex for _, sex, _ in one}
        if len(names) < 2:
            continue
        scores = [score for score, _, _ in one]
        orders = [
            order
            for order in itertools.permutations(range(len(one)))
            if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
        ]
        weight, inside = np.zeros(len(one)), np.zeros(len(one))
        for order in orders:
            for place, row in enumerate(order, start=1):
                weight[row] += 1 / np.log2(1 + place) / len(orders)
                inside[row] += (place <= k) / len(orders)
        merit = sum(y for _, _, y in one)
        for name in names:
            own = [i for i, (_, sex, _) in enumerate(one) if sex == name]
            share = len(own) / len(one)
            add(("exposure", name), weight[own].sum(), share * weight.sum())
            add(("selection", name), inside[own].sum(), share * inside.sum())
            if merit:
                deserved = sum(one[i][2] for i in own) / merit
                add(("treatment", name), weight[own].sum(), deserved * weight.sum())
        for (s, sex, _), (other_s, other, _) in itertools.permutations(one, 2):
            if sex != other:
                add(("above", sex), (s > other_s) + 0.5 * (s == other_s), 1)
    return {key: above / below if below else None for key, (above, below) in sums.items()}


NAMES = {
    "exposure": "relative_exposure",
    "selection": "representation_ratio",
    "above": "above_rate",
    "treatment": "exposure_per_relevance",
}


@settings(max_examples=scaled(60), deadline=None)
@given(LISTS, st.integers(1, 3))
def test_agrees_with_loops_over_lists_orders_and_pairs(lists, k):
    rows = [(query, *row) for query, one in enumerate(lists) for row in one]
    expected = loops(lists, k)
    longest = max(map(len, lists))
    if not expected or longest <= k or not any(row[3] for row in rows):
        return
    query, score, sex, relevance = zip(*rows, strict=True)
    result = audit(rank_by=score, query=query, relevance=relevance, sensitive_features={"sex": sex}, at=k)
    for one in result.breakdowns[0].groups:
        numbers = one.metrics | one.rates[str(k)]
        found = {(kind, one.label): quantity_value(numbers[name]) for kind, name in NAMES.items()}
        for key, value in found.items():
            wanted = expected.get(key)
            assert value == (None if wanted is None else pytest.approx(wanted)), key


def ranked_lists(lists, size, *, effect, rng, rare=0.3):
    """Lists whose members are alike: of each list, one group's scores are raised by an effect of its own."""
    n = lists * size
    query = np.repeat(np.arange(lists), size)
    sex = np.where(rng.random(n) < rare, "f", "m")
    score = rng.normal(size=n) - (effect * rng.exponential(size=lists))[query] * (sex == "f")
    return {
        "rank_by": score,
        "query": query,
        "sensitive_features": {"sex": sex},
        "relevance": rng.random(n) < 0.3 + 0.1 * (sex == "m"),
    }


def numbers(result):
    """The numbers whose intervals are looked at."""
    found = result.breakdowns[0]
    own = group(result, "f")
    return {
        **{gap.name: gap.value for gap in found.gaps},
        "rate": own.rates["2"]["selection_rate"],
        "above": own.metrics["above_rate"],
    }


@pytest.mark.parametrize(
    ("runs", "least"),
    [(60, 0.88), pytest.param(400, 0.91, marks=pytest.mark.slow), pytest.param(1500, 0.92, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("lists", [25, pytest.param(150, marks=pytest.mark.slow)])
def test_intervals_hold_what_they_say_where_lists_are_sampled(runs, least, lists):
    rng = np.random.default_rng(lists)
    settings_ = {"at": 2, "min_group_size": 5}
    truth = {
        name: one.value
        for name, one in numbers(audit(**ranked_lists(20_000, 12, effect=0.8, rng=rng), **settings_)).items()
    }
    held = dict.fromkeys(truth, 0)
    for _ in range(runs):
        for name, one in numbers(audit(**ranked_lists(lists, 12, effect=0.8, rng=rng), **settings_)).items():
            held[name] += one.low <= truth[name] <= one.high
    assert {name: hits / runs for name, hits in held.items() if hits / runs < least} == {}


def test_even_orders_of_one_list_are_rarely_called_uneven():
    rng = np.random.default_rng(1)
    p = []
    for _ in range(40):
        score, sex = rng.normal(size=40), rng.permutation(["f"] * 15 + ["m"] * 25)
        result = audit(rank_by=score, sensitive_features={"sex": sex}, at=10)
        p.append(result.breakdowns[0].gap("exposure_ratio").value.p)
        one = group(result, "f").metrics["relative_exposure"]
        assert (one.random_low + one.random_high) / 2 == pytest.approx(1, abs=0.05)
        assert (one.p <= 0.05) == (not one.random_low <= one.value <= one.random_high)
    assert np.mean(np.array(p) <= 0.05) <= 0.12
    assert np.mean(p) == pytest.approx(0.5, abs=0.14)


def test_long_and_short_lists_make_no_gap_where_every_order_is_even():
    """Women are mostly on long lists, where few are selected: pooled over lists they would seem to be left behind."""
    rng = np.random.default_rng(2)
    sizes = np.where(np.arange(400) % 2, 60, 12)
    query = np.repeat(np.arange(400), sizes)
    sex = np.where(rng.random(len(query)) < np.where(sizes == 60, 0.8, 0.2)[query], "f", "m")
    result = audit(rank_by=rng.normal(size=len(query)), query=query, sensitive_features={"sex": sex}, at=5)
    frame = pd.DataFrame({"sex": sex, "query": query, "score": rng.normal(size=len(query))})
    top = frame.groupby("query")["score"].rank(ascending=False) <= 5
    pooled = top.groupby(frame["sex"]).mean()
    assert pooled["f"] / pooled["m"] < 0.6
    gap = result.breakdowns[0].gap("selection_ratio").value
    assert gap.value > 0.9
    assert gap.high == 1


# What is counted and said, and what is refused.


def test_ties_gaps_and_rows_that_say_nothing_are_counted():
    frame = pd.DataFrame(
        {
            "search": [*"aaaaaabbbb", "c", "c "],
            "place": [1, 2, 2, 4, 9, None, 1, 2, 3, 4, 1, 2],
            "sex": ["f", "m", "f", "m", "m", "f", "m", "f", "m", "f", "m", "m"],
        }
    )
    recorded = RankingRoles(rank="place", query="search", protected=["sex"]).read(frame)
    assert recorded.positions.tolist() == [1, 2, 3, 4, 9, 1, 2, 3, 4, 1, 2]
    assert recorded.ties.tolist() == [0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    result = measure_rankings(recorded, min_group_size=1, at=2)
    assert (result.unranked, result.tied, result.gapped, result.lists) == (1, 2, 1, 3)
    found = result.breakdowns[0]
    assert (found.lists, found.left_out, found.left_out_candidates) == (2, 1, 2)
    # First two places: in a one woman for certain and one of a man and a woman; in b one woman. Random: 4/5 and 1.
    assert group(result, "f").rates["2"]["representation_ratio"].value == pytest.approx(2.5 / (4 / 5 + 1))
    text = result.summary().replace("\n", " ")
    for said in ("1 row without a rank", "1 of 3 lists with 2 candidates", "Ranks have gaps in 1 of 3 lists"):
        assert said in " ".join(text.split())
    assert RankingResult.from_json(result.to_json()) == result
    assert {"low", "high", "random_low", "random_high", "p"} < set(result.to_frame())  # whatever the inference


def test_who_lacks_a_value_keeps_the_place():
    frame = pd.DataFrame({"score": [5, 4, 3, 2, 1], "sex": ["f", None, "m", "f", "m"]})
    result = audit(rank_by=frame["score"], sensitive_features=frame[["sex"]], at=2)
    assert {one.label: one.size for one in result.breakdowns[0].groups} == {"f": 2, "m": 2}
    assert result.breakdowns[0].unknown == 1
    assert group(result, "f").rates["2"]["representation_ratio"].value == pytest.approx(1 / (2 * 2 / 5))


BASE = {
    "place": [1, 2, 3, 4],
    "score": [4.0, 3.0, 2.0, 1.0],
    "sex": list("fmfm"),
    "search": list("aaaa"),
    "clicked": [1, 0, 0, 1],
}


@pytest.mark.parametrize(
    ("changed", "roles", "message"),
    [
        ({"place": [0, 1, 2, 3]}, {"rank": "place"}, "row 1: .* got 0 "),
        ({"place": [1, 2.5, 2.5, 4]}, {"rank": "place"}, "row 2: .* got 2.5 "),
        (
            {"place": ["first", "2", "3", "4"]},
            {"rank": "place"},
            "row 1: .* got 'first' ",
        ),
        ({"score": [1, np.inf, 2, 3]}, {"rank_by": "score"}, "row 2: .* got inf "),
        ({"score": [None] * 4}, {"rank_by": "score"}, "no row has a score"),
        ({"search": ["a", None, "a", "a"]}, {"rank": "place", "query": "search"}, "'search', row 2: "),
        ({"clicked": [1, 0, None, 1]}, {"rank": "place", "relevance": "clicked"}, "'clicked', row 3: "),
        ({"clicked": [1, -1, 0, 1]}, {"rank": "place", "relevance": "clicked"}, "row 2: .* got -1 "),
        ({"clicked": [0] * 4}, {"rank": "place", "relevance": "clicked"}, "'clicked'"),
        ({"search": list("abcd")}, {"rank": "place", "query": "search"}, "4 of one group each"),
        ({}, {"rank": "place", "query": "nobody"}, "as `query=`, got 'nobody'"),
    ],
)
def test_rankings_that_make_no_sense_are_refused(changed, roles, message):
    with pytest.raises(DataError, match=message):
        measure_rankings(RankingRoles(**roles, protected=["sex"]).read(pd.DataFrame(BASE | changed)))


def test_an_order_is_named_once_and_leaves_some_unselected():
    with pytest.raises(OptionError, match="a column of ranks or a column of scores, got both"):
        audit(rank=[1, 2], rank_by=[2, 1], sensitive_features={"sex": ["f", "m"]})
    with pytest.raises(OptionError, match="fewer places than the 2 in the longest list, got 2"):
        audit(rank=[1, 2], sensitive_features={"sex": ["f", "m"]}, at=2)
    with pytest.raises(OptionError, match="expected different columns as `rank=` and `protected=`"):
        RankingRoles(rank="place", protected=["place"]).read(pd.DataFrame(BASE))
