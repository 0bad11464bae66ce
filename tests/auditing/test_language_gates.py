"""Conditions on language models: the largest size over all pairs of groups, its ends; refused before asking."""

import pytest

from evenhand.auditing import parse_gate
from evenhand.errors import OptionError
from evenhand.stats import Unknown
from language_audits import BLACK, MAN, WOMAN, audit, gap


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("llm.gap.low > 0.02", True),  # 0.062 - 0.041 = 0.021
        ("llm.gap.low > 0.022", False),
        ("llm.gap > 0.06 and llm.gap < 0.063", True),
        ("llm.gap.high > 0.1", True),
        ("llm.gap_here.low > 0.04", True),
        ("llm.identity_flips.low > 0", True),
        ("llm.noise.high < 0.35", True),
        ("llm.refusal_gap.low > 0.014", True),  # 0.03 the other way round
        ("llm.findings > 2", True),
        ("llm.findings > 4", False),
        ("llm.gap['white man against white woman'].low > 0", False),
        ("llm.gap['white man against black woman'].low > 0", True),
    ],
)
def test_conditions_hold_for_the_largest_size(condition, holds):
    assert parse_gate(condition).holds(audit()) is holds


def test_exchanged_groups_change_no_condition():
    result = audit(comparisons=(gap(BLACK, MAN, -0.062, 0.041),))
    assert parse_gate("llm.gap.low > 0.02 and llm.gap.high < 0.104").holds(result)
    assert not parse_gate("llm.gap < 0.06").holds(result)


def test_an_interval_that_holds_0_has_the_low_end_0():
    result = audit(comparisons=(gap(MAN, WOMAN, 0.012, 0.043),))
    assert parse_gate("llm.gap.low == 0 and llm.gap.high > 0.054").holds(result)


def test_an_unknown_gap_is_not_assessable():
    one = gap(MAN, WOMAN, 0, 1).model_copy(update={"gap": Unknown(reason="too few names")})
    gate = parse_gate("llm.gap > 0.02")
    assert not gate.holds(audit(comparisons=(one,)))
    assert gate.not_assessable(audit(comparisons=(one,)))[0].endswith("too few names")
    both = audit(comparisons=(gap(MAN, BLACK, 0.01, 0.041), one))
    (said,) = gate.not_assessable(both)
    assert said == "llm.gap.white man against white woman: too few names"
    assert parse_gate("llm.gap['white man against black woman'] > 0.02").not_assessable(both) == []


def test_many_missing_answers_are_not_assessable():
    groups = audit().groups
    result = audit(groups=(groups[0].model_copy(update={"failed": 60}), *groups[1:]))
    gate = parse_gate("llm.gap > 0.9")
    assert gate.not_assessable(result) == ["llm: 1.4 % of all questions were not answered"]
    assert gate.not_assessable(audit()) == []


@pytest.mark.parametrize("condition", ["llm > 1", "llm.gaps > 0.1", "llm.low > 0"])
def test_a_number_that_there_is_not_is_refused_when_it_is_read(condition):
    with pytest.raises(OptionError, match=r"there is no number called 'llm") as fault:
        parse_gate(condition)
    assert "llm.identity_flips" in fault.value.hint
