"""Tests that ask a new model about texts that were decided differently."""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand.errors import OptionError
from evenhand.individual.text.result import TextResult
from evenhand.texts.model import load, read


def replay(model: Any, pairs: Sequence[Sequence[str]], *, trust: bool = False) -> list[tuple[str, str]]:
    """What a model decides about pairs of texts: the two labels of each.

    Args:
        model: see ``run``.
        pairs: texts that differ in identity terms alone.
        trust: allow model files that can run code when loaded.
    """
    asked = load(model, trust=trust)
    reply, classes, _ = read(asked.replies([text for pair in pairs for text in pair]), asked, None, None)
    labels = [str(classes[label]) for label in reply.labels]
    return list(zip(labels[::2], labels[1::2], strict=True))


def save_tests(result: TextResult, path: Path) -> int:
    """Write a pytest file that asks a new model about the examples; each pair that still differs fails.

    The model comes from the environment variable ``EVENHAND_MODEL`` or is the argument of the file run as a program.

    Returns:
        How many pairs became tests.

    Raises:
        OptionError: nothing was found, or the file cannot be written.
    """
    if not result.examples:
        raise OptionError("nothing was found, so there is nothing to test again", where="--save-tests")
    pairs = [(example.worse.text, example.better.text) for example in result.examples]
    program = _PROGRAM.format(version=result.evenhand, pairs=pprint.pformat(pairs, width=118))
    try:
        path.write_text(program, "utf-8")
    except OSError as error:
        raise OptionError(f"the tests cannot be written: {error.strerror or error}", where=str(path)) from None
    return len(pairs)


_PROGRAM = '''"""Texts that a model decided differently when nothing but identity terms changed: does it still?

Found by evenhand {version}. A test fails as long as the two texts are decided differently.

    EVENHAND_MODEL=package.module:function pytest THIS_FILE
    python THIS_FILE package.module:function

The model is whatever `evenhand search --text-column` takes. With EVENHAND_TRUST=1 files that can run code are loaded
too.
"""

import functools
import os
import sys

import pytest

from evenhand.individual.text import replay

PAIRS = {pairs}


@functools.cache
def decisions():
    model = os.environ.get("EVENHAND_MODEL")
    if not model:
        pytest.fail("say which model: EVENHAND_MODEL=FILE_OR_FUNCTION", pytrace=False)
    return replay(model, PAIRS, trust=os.environ.get("EVENHAND_TRUST") == "1")


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_the_decision_stays_the_same(number):
    one, other = decisions()[number]
    assert one == other, PAIRS[number]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["EVENHAND_MODEL"] = sys.argv[1]
    sys.exit(pytest.main([__file__, *sys.argv[2:]]))
'''
"""The file that ``save_tests`` writes."""
