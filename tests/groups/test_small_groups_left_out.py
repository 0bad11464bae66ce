"""Where people are left out, nothing says what was decided about a group that is too small to be compared."""

from __future__ import annotations

import re

import numpy as np
import pytest

import evenhand
from evenhand import view
from evenhand.stats import Unknown

CANARY = "CANARYRACE"
LEFT_OUT = Unknown(reason="left out: fewer than 30 people")


def people(decided: bool) -> evenhand.AuditResult:
    """An audit in which one person is alone in a group, selected or not; all else is the same."""
    rng = np.random.default_rng(0)
    n = 400
    race = rng.choice(["a", "b"], n).astype(object)
    selected, deserving = rng.integers(0, 2, n), rng.integers(0, 2, n)
    race[7], selected[7], deserving[7] = CANARY, decided, decided
    # Somebody else has the other decision, so that the totals say nothing.
    race[8], selected[8], deserving[8] = "a", not decided, not decided
    sex = rng.choice(["f", "m"], n)
    sex[7] = sex[8] = "f"
    score = np.where(selected, 0.8, 0.2)
    return evenhand.audit_predictions(
        y_true=deserving, y_score=score, threshold=0.5, sensitive_features={"race": race, "sex": sex}
    )


@pytest.mark.parametrize("decided", [True, False])
def test_rates_of_a_small_group_are_unknown(decided):
    shared = people(decided).without_people()
    small = [group for one in shared.groups.breakdowns for group in one.groups if group.small]
    assert [group.label for group in small] == [CANARY, f"{CANARY}, f"]
    assert [group.size for group in small] == [1, 1]
    assert all(number == LEFT_OUT for group in small for number in group.metrics.values())
    assert not [group for one in shared.groups.calibration for group in one.groups if group.label == CANARY]
    others = [group for group in shared.groups.breakdowns[0].groups if not group.small]
    assert all(not isinstance(group.metrics["selection_rate"], Unknown) for group in others)


def about(text: str) -> set[str]:
    """Return what is said of the small group: in brackets, after its name, in the cells of its row."""
    return set(
        re.findall(rf"{CANARY}(?:, f)?(?:\s\([^)]*\)| [|u\d][^;\n]*|</[^\n]*)", text.replace("\N{NO-BREAK SPACE}", " "))
    )


def test_page_screen_and_json_say_the_same_of_it_whatever_was_decided():
    one, other = (people(decided).without_people() for decided in (True, False))
    assert about(one.summary()) == about(other.summary()) != set()
    assert about(one.to_markdown()) == about(other.to_markdown()) != set()
    assert about(view.render_page(one.document())) == about(view.render_page(other.document())) != set()
    first, second = (
        [
            (breakdown["by"], gap["name"], gap["not_assessable"].get(CANARY))
            for breakdown in found.groups.plain()["breakdowns"]
            for gap in breakdown["gaps"]
        ]
        for found in (one, other)
    )
    assert first == second


def test_labels_of_a_small_group_are_unknown():
    rng = np.random.default_rng(0)
    race = rng.choice(["a", "b"], 300).astype(object)
    race[7] = CANARY
    given, true = (rng.choice(["low", "middle", "high"], 300) for _ in range(2))
    options = {"sensitive_features": {"race": race}, "kind": "labels"}
    found = evenhand.audit_predictions(y_true=true, y_pred=given, **options).without_people()
    labels = found.groups.labels
    (small,) = [group for group in labels.breakdowns[0].groups if group.small]
    assert small.size == 1
    assert not small.confusion
    numbers = [number for rates in small.rates.values() for number in rates.values()] + list(small.metrics.values())
    assert len(numbers) > 10
    assert all(number == LEFT_OUT for number in numbers)
    assert not [gap for gap in labels.breakdowns[0].gaps if CANARY in gap.not_assessable and "precision" in gap.metric]
    view.render_page(found.document())
