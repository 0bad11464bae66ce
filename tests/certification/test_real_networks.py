"""Published networks: against enumeration, sampling, and what the published tool reached in as many splits."""

from __future__ import annotations

import numpy as np
import pytest
from cases import expected, prove, real_network


@pytest.mark.parametrize("name", ["compas-1", "compas-2", "compas-3"])
@pytest.mark.parametrize(("query", "attribute"), [("race", "Race"), ("sex", "Female"), ("age", "Age")])
@pytest.mark.parametrize("enumeration", [True, False])
def test_small_domains_are_known_exactly(name: str, query: str, attribute: str, enumeration: bool) -> None:
    unfair = expected(name)["exact_unfair_of_624"][query]
    result = prove(real_network(name, attribute), enumeration=enumeration)
    assert result.falsified == pytest.approx(unfair / 624, abs=1e-11)
    assert result.certified == pytest.approx(1 - unfair / 624, abs=1e-11)
    assert result.undecided < 1e-11
    assert result.stopped_by == "done"
    assert result.method == ("enumeration" if enumeration else "interval")
    if enumeration:
        assert len(result.counterexamples) == min(unfair, 100)


@pytest.mark.parametrize(
    ("name", "domain", "attribute", "query"),
    [
        ("AC-1", "adult", "sex", "sex"),
        ("GC-4", "german", "age", "age"),
        ("GC-5", "german", "sex", "sex"),
        ("AC-10", "adult", "sex", "sex"),
        ("BM-3", "bank", "age", "bank/age"),
        ("BM-6", "bank", "age", "bank/age"),
    ],
)
def test_at_least_what_the_published_tool_reached(name: str, domain: str, attribute: str, query: str) -> None:
    """The same splits to the same depth, but a box is not given up for a counterexample: never less is certified."""
    known = expected(name)
    published = known["fairquant_measured"][query]
    sampled = known["sampled_truth"][attribute]["unfair_pct"] / 100
    result = prove(real_network(name, attribute, domain))
    error = 4 * np.sqrt(sampled * (1 - sampled) / 400_000) + 1e-5
    assert result.certified >= published["certified_pct"] / 100 - 1e-4
    assert result.certified <= published["certified_pct"] / 100 + 0.02
    assert result.certified <= 1 - sampled + error
    assert result.falsified <= sampled + error
    assert result.estimate.low - error <= sampled <= result.estimate.high + error
    assert result.stopped_by == "depth"


def test_stopped_early_it_is_still_true() -> None:
    """Depth first, a limit leaves whole parts of the domain untouched: they count as undecided and are sampled."""
    sampled = expected("GC-1")["sampled_truth"]["age"]["unfair_pct"] / 100
    result = prove(real_network("GC-1", "age"), max_boxes=20_000)
    assert result.stopped_by == "boxes"
    assert 0 < result.certified < 0.33
    assert result.falsified <= sampled
    assert result.estimate.low <= sampled <= result.estimate.high
