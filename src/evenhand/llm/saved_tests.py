"""What stays of an audit of a language model: tests that ask about its confirmed pairs afresh."""

from __future__ import annotations

import pprint
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.core.files import write_atomically
from evenhand.errors import OptionError
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import Design, Interviewer
from evenhand.llm.findings import Suspect, confirm, template_trials
from evenhand.llm.interview import open_interview
from evenhand.llm.result import LanguageModelAudit

PROGRAM = '''"""Rows about which a language model answered differently for two groups: does it still?

Found by evenhand {version} in {model}. Each test asks {pairs} fresh pairs of people, and fails as long as the exact
sign test finds a difference between the groups, adjusted for all tests of this file.

    EVENHAND_MODEL={file} pytest THIS_FILE
    python THIS_FILE {file}

The model is the file of a language model, as `evenhand llm audit` takes it; its own list names the people. It is asked
{calls:,} questions. EVENHAND_ANSWERS=FILE keeps every answer, so that none is paid for twice.
"""

import functools
import os
import sys

import pytest

from evenhand.llm import replay_findings

PAIRS = {pairs}

CASES = {cases}


@functools.cache
def replayed():
    model = os.environ.get("EVENHAND_MODEL")
    if not model:
        pytest.fail("say which model: EVENHAND_MODEL={file}", pytrace=False)
    return replay_findings(model, CASES, PAIRS, answers=os.environ.get("EVENHAND_ANSWERS"))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_both_groups_are_answered_alike(number):
    found = replayed()[number]
    assert found.p > 0.05, found.sentence


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["EVENHAND_MODEL"] = sys.argv[1]
    sys.exit(pytest.main([__file__, *sys.argv[2:]]))
'''


def save_language_tests(result: LanguageModelAudit, path: Path) -> int:
    """Write a pytest file that asks a model about the confirmed templates afresh; each that still differs fails.

    It holds the rows of the data; the model's file names the people.

    Returns:
        How many templates became tests.

    Raises:
        OptionError: nothing was confirmed, or the file cannot be written.
    """
    found = result.template_findings
    if not found:
        raise OptionError("no template was confirmed, so there is nothing to test again", location="save_tests")
    cases = [{"row": one.row, "groups": (one.group_1, one.group_0)} for one in found]
    pairs = max(one.pairs for one in found)
    program = PROGRAM.format(
        version=result.evenhand,
        model=result.model,
        file=result.file or "screening.yaml",
        pairs=pairs,
        calls=2 * pairs * len(cases),
        cases=pprint.pformat(cases, width=118, sort_dicts=False),
    )
    try:
        write_atomically(path, program)
    except OSError as error:
        raise OptionError(f"the tests cannot be written: {error.strerror or error}", location=str(path)) from None
    return len(cases)


class ReplayedFinding(NamedTuple):
    """What fresh pairs about a row said.

    Attributes:
        row: its values.
        group_1, group_0: the groups compared.
        better_1, better_0: pairs in which each had the better answer, of so many pairs.
        p: of the exact sign test, adjusted for all rows that were asked about.
    """

    row: Mapping[str, Any]
    group_1: str
    group_0: str
    better_1: int
    better_0: int
    pairs: int
    p: float

    @property
    def sentence(self) -> str:
        """What was found, in a sentence."""
        return (
            f"of {self.pairs} fresh pairs {self.group_1} had the better answer in {self.better_1}, {self.group_0} in "
            f"{self.better_0} (adjusted p {self.p:.2g}): {dict(self.row)}"
        )


def replay_findings(
    model: Any, cases: Sequence[Mapping[str, Any]], pairs: int = 40, *, answers: Path | str | None = None, seed: int = 0
) -> list[ReplayedFinding]:
    """Ask a language model about rows that were found before, with fresh pairs of people from its own list.

    Args:
        model: the file of a language model, or its path.
        cases: one per finding: ``row``, its values, and ``groups``, group 1 and group 0.
        pairs: how many each is asked about.
        answers: a file that keeps every answer.
        seed: of the people's order and of the questions.

    Raises:
        OptionError: the model's file does not compare a group.
        EvenhandError: as for ``audit_language_model``.
    """
    # The same row may be there for several pairs of groups; a template is needed twice at least.
    rows = [dict(case["row"]) for case in cases]
    config = LanguageModelConfig(templates=len(rows) + 1, calls=2 * pairs * len(rows), seed=seed)
    interview = open_interview(model, [*rows, rows[0]], config, answers=answers)
    with interview.model:
        suspects = []
        for number, case in enumerate(cases):
            missing = [group for group in case["groups"] if group not in interview.groups]
            if missing:
                known = f"it compares: {', '.join(interview.groups)}"
                raise OptionError(f"the file does not compare {missing[0]!r}", location="people.compare", hint=known)
            one, other = (interview.groups.index(group) for group in case["groups"])
            suspects.append(Suspect((one, other), number))
        design = Design(interview.templates, interview.names, seed)
        interviewer = Interviewer(interview, excluded=interview.model.file.refused == "excluded")
        found = confirm(suspects, template_trials(suspects, design, pairs, 0, ranks=interview.ranks), interviewer)
    each = {one.suspect: one for one in found}
    return [
        ReplayedFinding(
            row,
            interview.groups[suspect.groups[0]],
            interview.groups[suspect.groups[1]],
            *each[suspect].better,
            pairs=pairs,
            p=each[suspect].p,
        )
        for row, suspect in zip(rows, suspects, strict=True)
    ]
