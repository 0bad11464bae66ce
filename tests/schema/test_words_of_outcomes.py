"""Words that mean "no outcome"."""

import pytest

from evenhand.schema.table import means_no_outcome


@pytest.mark.parametrize("word", ["declined", "Refused", "decline", "denied", "no", "hired"])
def test_an_unfavourable_word_is_an_outcome(word):
    assert not means_no_outcome(word)


@pytest.mark.parametrize("word", ["N/A", "declined to answer", "unknown", "not stated", "?"])
def test_a_word_for_unknown_is_none(word):
    assert means_no_outcome(word)
