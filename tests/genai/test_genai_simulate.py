"""Simulated streams: published counters miss deadlines that tight sets keep, whatever is in flight."""

from collections import Counter
from itertools import islice

import pytest
from genai_reference import run_policy

from evenhand.errors import OptionError
from evenhand.genai import GenerationSimulationResult, simulate_requests
from evenhand.genai.simulation.result import POLICIES
from evenhand.genai.simulation.stream import SimulatedGenerator, draw_requests

VALUES = ("child", "adult", "elderly", "other", "none")


def configured(deadlines, probabilities=None, **simulation):
    values = VALUES[: len(deadlines)]
    return {
        "conditions": [{"name": "leader", "share": simulation.pop("share", 0.8)}],
        "specifications": [
            {"condition": "leader", "group": "age", "values": list(values), "repeated": list(deadlines)}
        ],
        "simulation": {
            "generator": {"age": list(probabilities or [1 / len(values)] * len(values))},
            "retries": 0,
            **simulation,
        },
    }


UNEQUAL = [((5, 6, 6, 9), (0.1, 0.1, 0.1, 0.7)), ((6, 8, 10, 12, 16), None)]


@pytest.mark.parametrize(("deadlines", "probabilities"), UNEQUAL)
def test_tight_sets_keep_what_published_counters_miss(deadlines, probabilities):
    found = simulate_requests(configured(deadlines, probabilities), requests=8000)
    free, published, before, after = found.policies
    assert [one.policy for one in found.policies] == list(POLICIES)
    assert free.violations > published.violations > 0
    assert before.violations == after.violations == 0
    assert before.reported == after.reported == 0
    assert 0 < after.interventions < before.interventions < 8000
    assert before.generator_calls == free.generator_calls == 8000
    assert after.generator_calls == 8000 + after.interventions
    for one in (before, after):
        kept = one.specifications[0]
        assert list(kept.deadlines.values()) == list(deadlines)
        assert all(kept.longest_gap[value] <= deadline for value, deadline in kept.deadlines.items())


def test_published_counters_are_stale_when_requests_overlap():
    equal = configured((8, 8, 8, 8), (0.1, 0.1, 0.1, 0.7))
    alone, overlapping = (
        run_policy(equal, requests=5000, policy="published", in_flight=in_flight).violations for in_flight in (1, 8)
    )
    assert alone == 0
    assert overlapping > 0


def test_disobedience_is_met_by_retries_and_slack():
    described = {"obeys": 0.8, "unrecognised": 0.02}
    plain = configured((6, 8, 10, 12, 16), **described)
    again = configured((6, 8, 10, 12, 16), **described | {"retries": 2})
    reserve = configured((6, 8, 10, 12, 16), **described | {"retries": 2, "slack": 1})
    misses = [run_policy(one, requests=10_000).violations for one in (plain, again, reserve)]
    assert misses[0] > misses[1] > misses[2]
    found = run_policy(plain, requests=10_000)
    assert 150 < found.unrecognised < 250
    assert found.reported > 0


def test_several_conditions_and_groups_at_once():
    found = simulate_requests(
        {
            "conditions": [{"name": "leader", "share": 0.6}, {"name": "poor", "share": 0.5}],
            "specifications": [
                {"condition": "leader", "group": "age", "values": ["young", "old"], "repeated": 4},
                {"condition": "poor", "group": "age", "values": ["young", "old"], "repeated": [5, 7]},
                {"condition": "leader", "group": "gender", "values": ["female", "male"], "repeated": 3},
            ],
            "simulation": {"generator": {"age": [0.9, 0.1], "gender": [0.1, 0.9]}},
        },
        requests=3000,
        in_flight=5,
        policies=["free", "before", "after"],
    )
    free, before, after = found.policies
    assert [kept.name for kept in free.specifications] == ["leader: age", "poor: age", "leader: gender"]
    assert free.violations > 100
    assert before.violations == after.violations == 0
    assert set(before.longest_gap) == {"young", "old", "female", "male"}
    assert before.longest_gap["old"] == max(kept.longest_gap["old"] for kept in before.specifications[:2])


def test_eventual_counts_values_that_never_appeared():
    described = configured((3, 3, 3), (0.5, 0.5, 0.0))
    del described["specifications"][0]["repeated"]
    described["specifications"][0]["eventual"] = True
    found = run_policy(described, requests=500, policy="free")
    (kept,) = found.specifications
    assert (found.violations, kept.missed, kept.deadlines) == (1, {"child": 0, "adult": 0, "elderly": 1}, None)
    assert kept.longest_gap["elderly"] == kept.items + 1


def test_the_same_seed_gives_the_same_result():
    described = configured((5, 6, 6, 9))
    first, again, other = (run_policy(described, requests=500, in_flight=3, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_what_a_result_can_do():
    found = simulate_requests(configured((5, 6, 6, 9)), requests=500, policies=["free", "before"])
    assert GenerationSimulationResult.from_json(found.to_json()) == found
    assert list(found.to_frame()["policy"]) == ["free"] * 4 + ["before"] * 4
    assert list(found.to_frame()["deadline"]) == [5, 6, 6, 9] * 2
    assert "500 requests, 1 in flight at once" in found.summary()
    assert "deadlines missed" in found.plot().to_json()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"requests": 0}, "expected 1 to 100,000,000 requests, got 0"),
        ({"in_flight": 0}, "expected at least 1 request in flight, got 0"),
        ({"policy": "sometimes"}, "there is no policy 'sometimes'"),
    ],
)
def test_options_that_make_no_sense(options, complaint):
    with pytest.raises(OptionError, match=complaint):
        run_policy(configured((5, 6, 6, 9)), **options)


def test_a_generator_must_be_described():
    described = configured((5, 6, 6, 9))
    del described["simulation"]
    with pytest.raises(OptionError, match="the probabilities of the values of 'age' are missing") as raised:
        run_policy(described)
    assert "age: [0.25, 0.25, 0.25, 0.25]" in raised.value.hint


def test_the_generator_is_as_described():
    generator = SimulatedGenerator({"age": {"young": 0.9, "old": 0.1}}, obeys=0.75, unrecognised=0.1, seed=1)
    left_alone = Counter(generator.make()["age"] for _ in range(10_000))
    assert left_alone[None] == pytest.approx(1000, abs=120)
    assert left_alone["young"] == pytest.approx(8100, abs=160)
    told = Counter(generator.make({"age": ("old",)})["age"] for _ in range(10_000))
    assert told[None] == pytest.approx(1000, abs=120)
    assert told["old"] == pytest.approx(9000 * (0.75 + 0.25 * 0.1), abs=180)
    either = Counter(generator.make({"age": ("old", "young")})["age"] for _ in range(10_000))
    assert either["young"] == pytest.approx(8100, abs=160)


def test_a_value_that_never_appears_by_itself_appears_when_asked_for():
    generator = SimulatedGenerator({"age": {"young": 1.0, "old": 0.0, "other": 0.0}}, seed=1)
    assert {generator.make()["age"] for _ in range(100)} == {"young"}
    assert {generator.make({"age": ("old", "other")})["age"] for _ in range(100)} == {"old", "other"}


def test_requests_meet_conditions_independently():
    drawn = Counter(islice(draw_requests({"leader": 0.8, "poor": 0.3}, seed=1), 10_000))
    assert drawn[frozenset({"leader", "poor"})] == pytest.approx(2400, abs=180)
    assert drawn[frozenset()] == pytest.approx(1400, abs=150)


def test_stopping_keeps_what_was_answered():
    calls = []

    def progress(what, share):
        calls.append((what, share))
        if len(calls) == 2:
            raise KeyboardInterrupt

    found = simulate_requests(
        configured((5, 6, 6, 9)), requests=10_000, in_flight=9, policies=["free", "after"], progress=progress
    )
    assert calls == [("simulating free", 0.2), ("simulating free", 0.4)]
    assert [one.policy for one in found.policies] == ["free"]
    assert found.interrupted
    assert found.policies[0].requests == 4000
    assert "CAUTION: Interrupted" in found.summary()
