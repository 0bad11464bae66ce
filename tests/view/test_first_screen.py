"""Every page answers first: at most five sentences, before any table, drawing or heading."""

from __future__ import annotations

import itertools

import examples
import pytest
from pictured import PICTURED, document

from evenhand.core import Note, Text


def is_answered(found):
    blocks = itertools.dropwhile(lambda block: isinstance(block, Note), found.blocks)
    first = itertools.takewhile(lambda block: isinstance(block, Text) and block.role == "finding", blocks)
    sentences = [sentence for block in first for sentence in (block.text, *block.items) if sentence]
    assert 1 <= len(sentences) <= 5
    assert all(one.endswith(".") and len(one) < 300 for one in sentences), sentences


@pytest.mark.parametrize("name", PICTURED)
def test_a_page_begins_with_its_answers(name):
    is_answered(document(name))


def test_a_certificate_begins_with_what_is_proved():
    (first, *_) = examples.full().certificates
    found = first.document()
    is_answered(found)
    assert "it is proved that the decision stays the same" in found.blocks[0].text
