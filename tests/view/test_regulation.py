"""Tables for regulations, against their rules by hand."""

from __future__ import annotations

import examples
import pytest

from evenhand.auditing import regulation
from evenhand.groups import Breakdown
from evenhand.stats import Unknown, quantity_value


def audit_of(groups, by=("sex",), protected=("sex",)):
    audit = examples.full()
    metrics = audit.groups.model_copy(update={"breakdowns": (Breakdown(by=by, groups=tuple(groups), gaps=()),)})
    return audit.model_copy(update={"groups": metrics, "protected": protected})


def test_impact_ratios_by_hand():
    # 100 of 500 women and 400 of 1,000 men: rates 0.2 and 0.4, ratio 0.5. Of 25 others, 20: too few to compare.
    groups = [
        examples.group({"sex": "women"}, 500, 0.2),
        examples.group({"sex": "men"}, 1000, 0.4),
        examples.group({"sex": "others"}, 25, 0.8),
    ]
    (table,) = regulation.impact_tables(audit_of(groups))
    women, men, others = table.rows
    assert (women.people, women.selected, women.ratio) == (500, 100, pytest.approx(0.5))
    assert (men.people, men.selected, men.ratio) == (1000, 400, 1.0)
    assert (others.people, others.selected, others.ratio) == (25, 20, None)
    assert others.note == "fewer than 30 people: no ratio; below 2 % of the people"
    assert women.note == men.note == ""


def test_a_category_below_two_percent_keeps_its_ratio_and_is_marked():
    groups = [examples.group({"sex": "a"}, 10_000, 0.5), examples.group({"sex": "b"}, 150, 0.4)]
    (table,) = regulation.impact_tables(audit_of(groups))
    assert table.rows[1].ratio == pytest.approx(0.8)
    assert table.rows[1].note == "below 2 % of the people"


def test_nobody_selected_gives_no_ratio():
    groups = [examples.group({"sex": "a"}, 100, 0.0), examples.group({"sex": "b"}, 100, 0.0)]
    (table,) = regulation.impact_tables(audit_of(groups))
    assert [row.ratio for row in table.rows] == [None, None]
    assert all("no group has anyone selected" in row.note for row in table.rows)


def test_an_empty_category_has_no_rate():
    groups = [examples.group({"sex": "a"}, 100, 0.5), examples.group({"sex": "b"}, 0, 0.0)]
    (table,) = regulation.impact_tables(audit_of(groups))
    assert isinstance(table.rows[1].rate, Unknown)
    assert (table.rows[1].selected, table.rows[1].ratio) == (None, None)


def test_the_lowest_impact_ratio_is_the_four_fifths_ratio():
    audit = examples.full()
    rules = regulation.four_fifths(audit)
    tables = regulation.impact_tables(audit)
    assert [rule.by for rule in rules] == [table.by for table in tables] == ["race", "sex", "race x sex"]
    for rule, table in zip(rules, tables, strict=True):
        assert quantity_value(rule.ratio) == pytest.approx(
            min(row.ratio for row in table.rows if row.ratio is not None)
        )
        assert max(row.ratio for row in table.rows if row.ratio is not None) == 1.0
        assert rule.finding.startswith("not met")
    assert [table.is_intersection for table in tables] == [False, False, True]


def test_four_fifths_without_a_ratio():
    assert regulation.four_fifths(examples.minimal()) == []


def test_local_law_144_knows_what_it_has():
    both, sex = (regulation.local_law_144(one) for one in (examples.full(), examples.minimal()))
    assert [item.here for item in both[:3]] == ["filled below"] * 3
    assert [item.here for item in sex[:3]] == ["filled below", "", ""]
    assert "audit again with it" in sex[1].yours
    assert "race or ethnicity" in sex[2].yours


def test_dropped_rows_are_counted_as_possibly_unknown():
    (item,) = [item for item in regulation.local_law_144(examples.full()) if "unknown category" in item.asks]
    assert "412 rows" in item.here


@pytest.mark.parametrize("audit", [examples.full(), examples.minimal()], ids=["full", "minimal"])
def test_each_item_says_what_is_here_and_what_the_user_must_add(audit):
    for item in (*regulation.local_law_144(audit), *regulation.annex_iv(audit)):
        assert item.place
        assert item.asks
        assert item.here or item.yours


@pytest.mark.parametrize(
    ("trained", "said"), [(True, "is known to have been trained"), (False, "was not trained"), (None, "is not known")]
)
def test_annex_iv_says_whether_these_were_training_data(trained, said):
    audit = examples.full()
    audit = audit.model_copy(update={"data": audit.data.model_copy(update={"training_rows": trained})})
    assert any(said in item.here for item in regulation.annex_iv(audit))
