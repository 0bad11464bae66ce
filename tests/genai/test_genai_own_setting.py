"""The setting that the published rule is made for: one condition, one group, equal deadlines, one request at a time.

Evenhand changes no more prompts there. Three streams are run, each on a path of its own, with the same taste of the
generator request by request; where several values are equally due, the same one is taken.
"""

from random import Random

import pytest
from genai_reference import Published, misses
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.genai import Enforcer, GenerationConfig, simulate_requests
from evenhand.genai.simulation.simulate import PublishedCountdown
from support import scaled

NAMES = "abcdefgh"


def configuration(n, beta, weights=None):
    return GenerationConfig.read(
        {
            "conditions": [{"name": "x"}],
            "specifications": [{"condition": "x", "group": "g", "values": list(NAMES[:n]), "repeated": beta}],
            "simulation": {"generator": {"g": weights or [1 / n] * n}},
        }
    )


class Taste:
    """What the generator shows by itself, request by request, and in which order it likes values otherwise."""

    def __init__(self, weights, requests, seed):
        rng = Random(seed)
        values = range(len(weights))
        self.free = rng.choices(values, weights, k=requests)
        self.order = [rng.sample(values, len(weights)) for _ in range(requests)]

    def of(self, request, some):
        """What it shows if one of these values is asked for."""
        return self.free[request] if self.free[request] in some else next(k for k in self.order[request] if k in some)


def published(n, beta, taste):
    """What the published counters make of it, and at which requests how many values are asked for."""
    counters, rule = Published(n, beta), PublishedCountdown((beta,) * n)
    shown, asked = [], {}
    for request, free in enumerate(taste.free):
        due = counters.due()
        value = rule.value_to_ask()
        assert (value in due) if due else value is None
        if due:
            asked[request] = due
        shown.append(taste.of(request, due) if due else free)
        counters.show(shown[-1])
        rule.record_value(shown[-1])
    return shown, asked


def enforced(n, beta, taste, mode):
    """The same of the enforcer."""
    enforcer = Enforcer(configuration(n, beta), mode=mode, in_flight=1, retries=0)
    shown, asked = [], {}
    for request, free in enumerate(taste.free):
        admission = enforcer.admit({"x"})
        must, value = admission.must, free
        if mode == "after":
            outcome = enforcer.complete(admission, {"g": NAMES[free]})
            admission, must = outcome.admission, outcome.must
        if must:
            asked[request] = {NAMES.index(name) for name in must["g"]}
            value = taste.of(request, asked[request])
        if admission is not None:
            assert enforcer.complete(admission, {"g": NAMES[value]}).ok
        shown.append(value)
    return shown, asked


def compared(n, beta, weights, seed, requests=120):
    taste = Taste(weights, requests, seed)
    theirs, changed = published(n, beta, taste)
    before, asked = enforced(n, beta, taste, "before")
    after, redone = enforced(n, beta, taste, "after")
    assert before == after == theirs
    assert misses([value + 1 for value in theirs], (beta,) * n) == []
    # The same rule; except that where any value will do, nothing is asked for.
    assert asked == {request: due for request, due in changed.items() if len(due) < n}
    # What is looked at first is redone where a prompt would have been changed, and the item does not do by luck.
    assert redone == {request: due for request, due in asked.items() if taste.free[request] not in due}
    return len(changed), len(asked), len(redone)


@settings(max_examples=scaled(60), deadline=None)
@given(
    n=st.integers(2, 8),
    more=st.integers(0, 20),
    skew=st.floats(0, 8),
    seed=st.integers(0, 10**6),
)
def test_no_more_prompts_are_changed_than_by_the_published_rule(n, more, skew, seed):
    rng = Random(seed)
    theirs, before, after = compared(n, n + more, [rng.random() ** skew + 1e-9 for _ in range(n)], seed)
    assert after <= before <= theirs


@pytest.mark.full
def test_over_many_streams_fewer_are():
    totals = [0, 0, 0]
    for n in range(2, 7):
        for beta in (n, n + 1, 2 * n, 3 * n):
            for bias in (0, 1, 4):
                for seed in range(3):
                    weights = [(k + 1.0) ** bias for k in range(n)]
                    found = compared(n, beta, weights, seed)
                    totals = [total + one for total, one in zip(totals, found, strict=True)]
    theirs, before, after = totals
    assert 0 < after < 0.8 * before < 0.8 * theirs


@pytest.mark.parametrize("seed", range(6))
def test_simulations_differ_only_by_the_choice_among_values_that_never_appeared(seed):
    """There each policy chooses for itself; the generator's taste is the same for all, request by request."""
    uniform = simulate_requests(
        configuration(5, 10), requests=600, policies=["published", "before", "after"], seed=seed
    )
    theirs, before, after = uniform.policies
    assert theirs.violations == before.violations == after.violations == 0
    assert abs(before.interventions - theirs.interventions) <= 3
    assert after.interventions < theirs.interventions
