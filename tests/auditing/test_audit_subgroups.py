"""An audit looks for subgroups too: shows the worst one, lets a gate ask about it, and says so where it could not."""

import numpy as np
import pandas as pd
import pytest

from evenhand import audit_rankings as measure_rankings
from evenhand import auditing, view
from evenhand.core.document import Metric
from evenhand.groups.rankings.result import RankingResult
from evenhand.models import Subject
from evenhand.schema.people import ColumnRoles

QUICK = auditing.AuditConfig(time_limit=20, samples=300, searched=0)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame(
        {
            "grade": rng.integers(0, 40, n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    return frame.assign(hired=np.where(frame["grade"] + rng.normal(0, 3, n) > 20, "yes", "no"))


def western_women(frame):
    """Women in the west need ten points more."""
    return 1 / (1 + np.exp(20.5 - frame["grade"] + 10 * ((frame["sex"] == "f") & (frame["region"] == "west"))))


def blind(frame):
    return frame["grade"] > 20


def audited(people, model=western_women, config=QUICK):
    return auditing.audit(Subject(model, ColumnRoles("hired", ["sex", "region"]).read(people)), config)


@pytest.fixture(scope="module")
def result(people):
    return audited(people)


def test_the_worst_subgroup_is_found(people, result):
    worst = result.subgroups.widest
    assert worst.rules == {"sex": ("f",), "region": ("west",)}
    inside = (people["sex"] == "f") & (people["region"] == "west")
    assert worst.size == inside.sum()
    assert worst.rate == pytest.approx((western_women(people[inside]) > 0.5).mean())
    assert worst.found
    assert not [item for item in result.not_run if "subgroup" in item.what]
    assert auditing.AuditResult.from_json(result.to_json()) == result


def test_a_gate_asks_about_it(people, result):
    gap = -result.subgroups.widest.gap
    low, high = -result.subgroups.widest.high, -result.subgroups.widest.low
    for name, value in (
        ("worst_subgroup_gap", gap),
        ("worst_subgroup_gap.low", low),
        ("worst_subgroup_gap.high", high),
    ):
        assert auditing.parse_gate(f"{name} > {value - 1e-9}").holds(result)
        assert not auditing.parse_gate(f"{name} > {value + 1e-9}").holds(result)


def test_a_model_that_ignores_them_passes_the_gate_on_the_certain_end(people):
    result = audited(people, blind)
    assert result.subgroups.found == 0
    assert not auditing.parse_gate("worst_subgroup_gap.low > 0").holds(result)
    (line,) = [one for one in result.document().blocks if isinstance(one, Metric) and one.name == "worst subgroup"]
    assert "not significant" in line.next_step


def test_an_interrupt_ends_the_audit_with_what_was_found(people, monkeypatch):
    def stopped(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.subgroups.find_subgroups", stopped)
    result = audited(people)
    assert result.interrupted
    assert result.subgroups is None
    assert len(result.individual.rates) == 6


def test_nobody_large_enough(people):
    result = audited(people.head(50))
    assert result.subgroups.tested == 0
    (line,) = [one for one in result.document().blocks if isinstance(one, Metric) and one.name == "worst subgroup"]
    assert line.number.basis == "no subgroup is large enough"
    assert not auditing.parse_gate("worst_subgroup_gap > 0").holds(result)


class AuditWithRankings(auditing.AuditResult):
    """Audit with a further analysis."""

    rankings: RankingResult | None = None


def test_an_analysis_without_a_section_of_its_own_is_shown_and_gated_on(result):
    exposure = measure_rankings(rank_by=list(range(60)), sensitive_features={"sex": ["f", "m"] * 30}, min_group_size=1)
    whole = AuditWithRankings(**dict(result), rankings=exposure)
    assert "## Audit of rankings" in view.render_markdown(whole.document())
    assert {number.name for number in exposure.numbers()} <= {number.name for number in whole.numbers()}
    assert AuditWithRankings.from_json(whole.to_json()) == whole
