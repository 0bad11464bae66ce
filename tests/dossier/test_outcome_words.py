"""Outcome words of dossiers are closed: each is selected, rejected or unknown, or the error lists it."""

import datetime as dt
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.dossier import compile_dossier
from evenhand.errors import DossierError, OptionError

TODAY = dt.date(2026, 11, 23)
SPELLINGS = {
    "bool": (True, False),
    "whole": (1, 0),
    "float": (1.0, 0.0),
    "words": ("1", "0"),
    "decimals": ("1.0", "0.0"),
    "names": ("True", "False"),
    "capitals": ("TRUE", "FALSE"),
}


def compiled(sexes, outcomes, **settings):
    config = {
        "outcome": {"column": "outcome", **settings.pop("outcome", {})},
        "attributes": {"sex": {"column": "sex", "categories": settings.pop("categories", None)}},
        **settings,
    }
    return compile_dossier(pd.DataFrame({"sex": sexes, "outcome": outcomes}), config, today=TODAY)


def counts(result):
    """The people and selected people of each category."""
    (table,) = result.runs[0].ll144
    return {row.category[0]: (row.n, row.k) for row in table.rows}


def refused(code, *arguments, **settings):
    with pytest.raises(DossierError) as caught:
        compiled(*arguments, **settings)
    assert caught.value.code == code
    return caught.value


def listed(error):
    """The words that an error lists, with their counts and first rows."""
    found = re.findall(r"'([^']*)' \(([\d,]+) rows?, first in row ([\d,]+)\)", error.message)
    return {word: (int(n), int(row)) for word, n, row in found}


PEOPLE = st.lists(st.tuples(st.sampled_from("FM"), st.booleans()), min_size=8, max_size=20).map(
    lambda drawn: [("F", True), ("M", False), *drawn]
)


@given(PEOPLE, st.sampled_from([*SPELLINGS]), st.sampled_from([(), ("1",), (1,), (True,), ("True",), ("1.0",)]))
def test_spellings_of_true_and_false_are_one(people, spelling, selected):
    sexes, outcomes = [sex for sex, _ in people], [SPELLINGS[spelling][not chosen] for _, chosen in people]
    expected = {sex: (sexes.count(sex), people.count((sex, True))) for sex in "FM"}
    result = compiled(sexes, outcomes, outcome={"selected": selected})
    assert counts(result) == expected
    assert sum(result.outcome_words.selected.values()) == sum(k for _, k in expected.values())


WORDS = ["hired", "Hired", "hired ", "declined", "Declined", "offer", "N/A", "Unknown", "maybe", ""]


@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=12),
    st.lists(st.sampled_from(["hired", "offer"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["declined", "Declined"]), unique=True),
)
def test_every_word_has_a_meaning_or_is_listed(outcomes, selected, rejected):
    words = [word.strip() for word in outcomes]
    decided = {word for word in words if word not in ("", "Unknown")}
    others = decided - {*selected, *rejected}
    variants = {"Hired"} if "hired" in selected else set()
    closed = not others or (not rejected and len(others) == 1 and not others & {"N/A", *variants})
    closed = closed and {*selected, *rejected} <= decided
    arguments = (["F", "M"] * len(words), outcomes * 2)
    settings = {"outcome": {"selected": selected, "rejected": rejected}}
    if closed:
        result = compiled(*arguments, **settings)
        assert sum(k for _, k in counts(result).values()) == 2 * sum(word in selected for word in words)
        assert result.no_outcome == 2 * sum(word in ("", "Unknown") for word in words)
        read = result.outcome_words
        assert {**read.selected, **read.rejected} == {word: 2 * words.count(word) for word in decided}
        return
    with pytest.raises(DossierError) as caught:
        compiled(*arguments, **settings)
    if caught.value.code == "not-a-decision":
        assert listed(caught.value) == {word: (2 * words.count(word), words.index(word) + 1) for word in others}
    elif caught.value.code == "never-occurs":
        assert not {*selected, *rejected} <= decided
        assert set(listed(caught.value)) == decided
    else:
        assert (caught.value.code, decided) == ("no-outcomes", set())


@given(st.integers(0, 9), st.sampled_from(["yess", "YES", "no ?", "No", "2", "None", "Y es"]))
def test_no_word_can_be_exchanged_unnoticed(place, word):
    outcomes = ["yes", "no"] * 5
    outcomes[place] = word
    error = refused("not-a-decision", ["F", "M"] * 5, outcomes, outcome={"selected": ["yes"]})
    assert listed(error)[word] == (1, place + 1)


def test_words_for_unknown_are_no_outcome_only_where_they_are_listed():
    outcomes = ["yes", "no", "N/A", ""] * 2
    sexes = ["F"] * 4 + ["M"] * 4
    error = refused("not-a-decision", sexes, ["yes", "N/A", "yes", "N/A"] * 2, outcome={"selected": ["yes"]})
    assert listed(error) == {"N/A": (4, 2)}
    result = compiled(sexes, outcomes, outcome={"selected": ["yes"]}, unknown=["N/A"])
    assert counts(result) == {"F": (2, 1), "M": (2, 1)}
    assert (result.outcome_words.unknown, result.outcome_words.empty, result.no_outcome) == ({"N/A": 2}, 2, 4)
    stated = compiled(sexes, outcomes, outcome={"selected": ["yes"], "rejected": ["no", "N/A"]}, unknown=["N/A"])
    assert counts(stated) == {"F": (3, 1), "M": (3, 1)}


def test_scores_may_have_words_for_unknown():
    sexes, scores = ["F", "M"] * 4, ["1", "2", "3", "4", "5", "Unknown", "7", ""]
    result = compiled(sexes, scores, outcome={"kind": "score"})
    assert (result.assessed, result.outcome_words.unknown, result.outcome_words.empty) == (6, {"Unknown": 1}, 1)
    error = refused("not-a-number", sexes, [*scores[:6], "n/a", "-"], outcome={"kind": "score"})
    assert listed(error) == {"n/a": (1, 7), "-": (1, 8)}


def test_classes_are_closed_too():
    sexes, words = ["F", "M"] * 3, ["lead", "support", "Lead", "analyst", "not stated", "lead"]
    error = refused("unlisted-class", sexes, words, outcome={"kind": "classes", "classes": ["lead", "support"]})
    assert listed(error) == {"Lead": (1, 3), "analyst": (1, 4), "not stated": (1, 5)}
    error = refused("unlisted-class", sexes, words, outcome={"kind": "classes"})
    assert listed(error) == {"lead": (2, 1), "Lead": (1, 3), "not stated": (1, 5)}
    classes = ["lead", "Lead", "support", "analyst", "Unknown"]
    absent = refused("never-occurs", sexes, words, outcome={"kind": "classes", "classes": [*classes, "not stated"]})
    assert absent.place["value"] == "lead"
    result = compiled(sexes, words, outcome={"kind": "classes", "classes": classes[:-1]}, unknown=["not stated"])
    assert [run.of for run in result.runs] == classes[:-1]


def test_categories_name_all_unlisted_words_and_spelling_variants():
    outcomes, sexes = [1, 0] * 4, ["F", "M", "female", "Non-binary", "x", "F", "x", "M"]
    error = refused("unlisted-category", sexes, outcomes, categories={"F": "Female", "M": "Male"})
    assert listed(error) == {"female": (1, 3), "Non-binary": (1, 4), "x": (2, 5)}
    variants = refused("spelling-variants", ["F", "f"] * 4, outcomes)
    assert variants.place["values"] == ("F", "f")
    forms = refused("unlisted-category", ["F", "prefer not to say"] * 4, outcomes)
    assert listed(forms) == {"prefer not to say": (4, 2)}
    merged = compiled(["F", "f", "M", "f"], [1, 0, 1, 0], categories={"F": "F", "f": "F", "M": "M"})
    assert set(counts(merged)) == {"F", "M"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_category_may_be_a_truth_value(spelling):
    yes, no = SPELLINGS[spelling]
    result = compiled([yes, no, no], [1, 0, 1], categories={True: "veteran", False: "other"})
    assert counts(result) == {"veteran": (1, 1), "other": (2, 1)}


@pytest.mark.parametrize(
    "outcome",
    [
        {"column": "s", "selected": ["yes", "1"], "rejected": ["True"]},
        {"column": "s", "kind": "classes", "classes": ["1", "2", True]},
    ],
)
def test_a_word_has_one_meaning(outcome):
    with pytest.raises(OptionError):
        compile_dossier(pd.DataFrame({"s": ["1"]}), {"outcome": outcome, "attributes": {"s": {"column": "s"}}})


def test_a_category_key_has_one_category():
    with pytest.raises(OptionError):
        compiled(["1", "2"], [1, 0], categories={1: "Female", "1.0": "Male"})
