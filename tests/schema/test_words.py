"""Cells as values: canonical numbers, truth values, words for unknown, spelling variants."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.schema.table import (
    find_variants,
    means_unknown,
    outcome_key,
    parse_word,
    unknown_codes,
)


@given(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)))
def test_every_number_is_parsed_from_the_word_python_writes(number):
    parsed = parse_word(str(number))
    assert parsed == number
    assert type(parsed) is type(number)
    assert math.copysign(1, parsed) == math.copysign(1, number)


@given(st.one_of(st.text(max_size=8), st.from_regex(r"[-+0-9.e_ ]{1,8}", fullmatch=True)))
def test_a_parsed_word_is_written_back_unchanged(word):
    assert str(parse_word(word)) in (word, word.strip())


@pytest.mark.parametrize(
    "word",
    ["02134", "3.10", "4.00", "+5", "1e3", "-0", "1_000", "1,5", ".5", "5.", "TRUE", "nan", "inf", "٣", ""],
)
def test_other_spellings_stay_words(word):
    assert parse_word(word) == word


@pytest.mark.parametrize("values", [[1, 1.0, True, "1", "1.0", "TRUE", " true"], [0, 0.0, False, "0", "false", "0.0"]])
def test_spellings_of_a_truth_value_are_one_outcome(values):
    assert len({outcome_key(value) for value in values}) == 1


def test_other_outcomes_keep_their_case():
    assert len({outcome_key(value) for value in ["Hired", "hired", "01", 1, 2, "2.0"]}) == 5


def test_variants_differ_in_case_or_blanks_alone():
    assert find_variants(["Hired", "hired", "hired ", "not hired", 1]) == [["Hired", "hired", "hired "]]


@pytest.mark.parametrize("other", ["M\u0430le", "\u039cale", "male", "Ma\u200ble"])  # Cyrillic a, Greek mu
def test_look_alike_characters_are_variants(other):
    assert find_variants(["Male", other, "Female", "\u043c\u0443\u0436"]) == [["Male", other]]
    assert find_variants(["18-24", "18\u201324", "O'Neil", "O\u2019Neil"]) == [
        ["18-24", "18\u201324"],
        ["O'Neil", "O\u2019Neil"],
    ]


@pytest.mark.parametrize(
    "word",
    [
        "NA",
        "n/a",
        "<NA>",
        "NULL",
        "nan",
        "None",
        "?",
        "",
        "Race Not Available",
        "Information not provided by applicant",
        "I do not wish to answer",
        "I choose not to self-identify",
        "Unspecified",
        "Prefer not to say",
        "Keine Angabe",
        "Gender unknown",
        "(blank)",
        "Declined to state",
        "I'd rather not say",
        "#REF!",
        "#DIV/0!",
        "\\N",
        "n/d",
        "Unk.",
    ],
)
def test_recognises_words_for_unknown(word):
    assert means_unknown(word)
    assert means_unknown(f"  {word.upper()} ")


@pytest.mark.parametrize(
    "word", ["No", "Other", "Not Hispanic or Latino", "Not Verified", "Not in labor force", "not hired", "0", "Namibia"]
)
def test_other_words_are_categories(word):
    assert not means_unknown(word)


def test_finds_codes_among_numbers():
    assert unknown_codes([0, 1, -1, 999, True, 0.5, "-1"]) == [-1, 999]


@pytest.mark.parametrize("word", ["declined", "Refused", "decline", "denied", "no", "hired"])
def test_unfavourable_words_are_outcomes(word):
    assert not means_unknown(word, outcome=True)


@pytest.mark.parametrize("word", ["N/A", "declined to answer", "unknown", "not stated", "?"])
def test_words_for_unknown_are_no_outcomes(word):
    assert means_unknown(word, outcome=True)
