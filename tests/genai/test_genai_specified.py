"""Recorded items judged by a configuration: by hand, against the definitions, on real data, and as tables may look."""

import itertools
from collections import Counter

import pandas as pd
import pytest
from genai_reference import misses, read_config
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError, OptionError
from evenhand.genai import GenerationConfig
from evenhand.genai.assessment import evaluation
from evenhand.genai.assessment.evaluation import ItemColumns, evaluate_config, read_condition_sequences
from evenhand.genai.assessment.prompts import answers_by_prompt, estimate_prompt_bias
from evenhand.genai.assessment.wording import describe_left_out


def configuration(**more):
    return read_config(
        {"sex": ["f", "m"], "age": ["y", "o"], "hat": ["no", "yes"]},
        {"condition": "leader", "group": "sex", "repeated": {"f": 3, "m": 2}},
        {"condition": "leader", "group": "sex", "eventual": True, "name": "both"},
        {"condition": "poor", "paired": ["sex", "age"], "repeated": 4, "name": "pairs"},
        {"condition": "poor", "paired": ["sex", "age", "hat"], "ways": 3, "eventual": True},
        **more,
    )


TABLE = pd.DataFrame(
    {
        "condition": ["leader", "poor", "leader;poor", "leader", "poor", None, "leader", "poor"],
        "sex": ["m", "m", "f", "m", "f", "m", "m", "?"],
        "age": ["y", "o", "y", "y", "o", "y", None, "y"],
        "hat": ["no"] * 8,
        "prompt": ["a leader", "a pauper", "a poor lady", "a leader", "a pauper", "a cat", "a leader", "a pauper"],
    }
)


# By hand


def test_a_verdict_for_every_specification_by_hand():
    # Leaders: m f m m. The poor: m+o f+y f+o, and one whose sex is not recognised.
    leader, poor = evaluate_config(read_condition_sequences(TABLE, configuration()), configuration()).sequences
    assert (leader.name, leader.condition, leader.items, leader.prompts) == ("leader", "leader", 4, "all")
    assert [(v.name, v.kind, v.beta, v.verdict, v.at_fault) for v in leader.verdicts] == [
        ("leader: sex", "repeated", (3, 2), "holds", ()),
        ("both", "eventual", None, "holds", ()),
    ]
    assert leader.verdicts[0].specification == "every value of sex appears repeatedly: f within 3, m within 2 items"
    assert [group.groups for group in leader.groups] == [("sex",)]
    assert leader.coverage is None
    pairs, triples = poor.verdicts
    assert (pairs.name, pairs.kind, pairs.verdict) == ("pairs", "paired", "unknown")
    assert pairs.why == "no deadline was missed, but 3 items are not more than the largest deadline, 4"
    assert (triples.kind, triples.verdict) == ("k-way", "violated")
    assert triples.at_fault == ("f + y + yes", "f + o + yes", "m + y + no", "m + y + yes", "m + o + yes")
    several = [("sex", "age"), ("sex", "age", "hat")]
    assert [group.groups for group in poor.groups] == [("sex",), ("age",), ("hat",), *several]
    assert (poor.coverage.ways, poor.coverage.total) == (3, 8)
    assert (poor.groups[0].unrecognised, poor.groups[0].outside) == (0, {"?": 1})


def test_a_misspelt_value_is_refused_and_another_label_is_listed():
    with pytest.raises(DataError, match="is not the value 'f': did you mean 'f'"):
        read_condition_sequences(TABLE.assign(sex=["m", "m", "F", "m", "f", "m", "m", "m"]), configuration())
    answered = answers_by_prompt(read_condition_sequences(TABLE, configuration()))
    assert [item["sex"] for item in answered["a pauper"]] == ["m", "f", None]


def test_items_whose_prompt_fixes_the_value_are_a_category_of_their_own():
    table = pd.DataFrame(
        {
            "conditions": ["leader"] * 6,
            "fixed": ["", "sex", "sex;age", "age", "", "sex"],
            # The last one has a label although its prompt fixes it, as where a generator is asked with no guard.
            "sex": ["f", None, None, "m", None, "m"],
            "age": ["y"] * 6,
            "hat": ["no"] * 6,
        }
    )
    (leader, _) = evaluate_config(read_condition_sequences(table, configuration()), configuration()).sequences
    (sex,) = leader.groups
    assert (len(sex.items), sex.fixed, sex.unrecognised, sex.outside) == (3, 2, 1, {})
    assert describe_left_out(sex) == " (2 whose prompt fixes it; 1 not recognised)"


def test_inherent_fairness_leaves_out_what_prompts_fix():
    found = read_condition_sequences(TABLE, configuration())
    bias = estimate_prompt_bias(
        answers_by_prompt(found),
        configuration().values,
        fixed={"a leader": set(), "a pauper": set(), "a poor lady": {"sex"}},
    )
    leader, neutral, _, _ = evaluate_config(found, configuration(), prompts=bias).sequences
    assert [(v.name, v.verdict) for v in leader.verdicts] == [("leader: sex", "holds"), ("both", "holds")]
    assert (neutral.name, neutral.prompts) == ("leader, neutral prompts", "neutral")
    # Without the lady: m m m.
    assert [(v.verdict, v.at_fault) for v in neutral.verdicts] == [("violated", ("f",)), ("violated", ("f",))]
    assert (neutral.groups[0].items, neutral.groups[0].biased, neutral.groups[0].unrecognised) == ((1, 3, 4), 1, 0)


def test_conditions_without_items_are_unknown():
    only = TABLE[TABLE["condition"] == "leader"]
    _, poor = evaluate_config(read_condition_sequences(only, configuration()), configuration()).sequences
    assert (poor.items, poor.coverage) == (0, None)
    assert {v.verdict for v in poor.verdicts} == {"unknown"}


# Against the definitions


@given(
    st.lists(st.tuples(st.sampled_from("fm?"), st.sampled_from("yo?")), min_size=1, max_size=30),
    st.tuples(st.integers(2, 8), st.integers(2, 8)),
    st.integers(4, 9),
)
def test_counts_missed_deadlines_by_the_definition(rows, betas, together):
    asked = {"conditions": [{"name": "c"}], "groups": {"sex": ["f", "m"], "age": ["y", "o"]}}
    asked["specifications"] = [
        {"condition": "c", "group": "sex", "repeated": list(betas)},
        {"condition": "c", "paired": ["age", "sex"], "repeated": together},
    ]
    read = GenerationConfig.read(asked)
    table = pd.DataFrame(rows, columns=["sex", "age"])
    if not ({"f", "m"} & set(table["sex"]) and {"y", "o"} & set(table["age"])):
        return
    (found,) = evaluate_config(read_condition_sequences(table, read), read).sequences
    names = list(itertools.product("yo", "fm"))
    numbers = {
        ("sex",): (["?fm".index(sex) for sex, _ in rows], betas),
        ("age", "sex"): (
            [names.index((age, sex)) + 1 if (age, sex) in names else 0 for sex, age in rows],
            (together,) * 4,
        ),
    }
    for verdict in found.verdicts:
        items, deadlines = numbers[verdict.groups]
        broken = Counter(miss.value for miss in misses(items, deadlines))
        group = next(group for group in found.groups if group.groups == verdict.groups)
        assert [len(value.missed) for value in group.values] == [broken[k] for k in range(1, len(deadlines) + 1)]
        length = sum(item > 0 for item in items)
        assert (length == 0) == (verdict.why == "no item is recognised")
        expected = "violated" if broken else "holds" if length > max(deadlines) else "unknown"
        assert verdict.verdict == expected


# Tables as they may look


def test_other_names_of_columns():
    table = TABLE.rename(columns={"condition": "asked", "sex": "label_sex"}).assign(run=["1", "2"] * 4, picture="x.png")
    columns = ItemColumns(
        conditions="asked", groups={"sex": "label_sex"}, sequence="run", image="picture", only={"hat": "no"}
    )
    found = read_condition_sequences(table, configuration(), columns)
    leaders, paupers = (
        [("leader", "1, leader", 3), ("leader", "2, leader", 1)],
        [("poor", "2, poor", 2), ("poor", "1, poor", 2)],
    )
    assert [(one.condition, one.name, len(one)) for one in found] == leaders + paupers
    assert found[0].files == ("x.png",) * 3
    (one, two) = read_condition_sequences(
        table, configuration(), ItemColumns("asked", {"sex": "label_sex"}, only={"run": "1"}, sequence="run")
    )
    assert (one.name, two.name) == ("1, leader", "1, poor")


def test_of_one_condition_all_items_count():
    one = configuration(
        conditions=[{"name": "leader"}], specifications=[{"condition": "leader", "group": "sex", "repeated": 3}]
    )
    assert len(read_condition_sequences(TABLE.drop(columns="condition"), one)[0]) == 8


def test_what_a_table_says_of_prompts():
    assert evaluation.read_fixed_groups(TABLE) is None
    assert evaluation.read_fixed_groups(TABLE.assign(fixed=["sex; age", *[None] * 7])[:2]) == {
        "a leader": {"sex", "age", "sex; age"},
        "a pauper": frozenset(),
    }


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        (TABLE.drop(columns="condition"), ItemColumns(), "conditions of the items are missing"),
        (TABLE.drop(columns="age"), ItemColumns(), "there is no column 'age'"),
        (TABLE, ItemColumns(groups={"colour": "x"}), "no group 'colour'"),
        (
            TABLE.assign(sex="female"),
            ItemColumns(),
            "no label in the column 'sex' is a value: female",
        ),
        (TABLE.assign(condition="rich"), ItemColumns(), "no item was requested for 'leader' or 'poor'"),
        (TABLE.assign(run="1"), ItemColumns(only={"run": "2"}), "no item was requested"),
        (TABLE, ItemColumns(conditions="nowhere"), "there is no column 'nowhere'"),
    ],
)
def test_tables_that_do_not_fit_are_refused(table, columns, said):
    with pytest.raises((DataError, OptionError)) as error:
        read_condition_sequences(table, configuration(), columns)
    assert said in str(error.value)


# Real answers
