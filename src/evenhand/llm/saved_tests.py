"""Save confirmed findings of a language-model audit as tests."""

from __future__ import annotations

import pprint
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.core.files import write_atomically
from evenhand.errors import OptionError
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import Design, Interviewer
from evenhand.llm.findings import Suspect, confirm
from evenhand.llm.interview import open_interview
from evenhand.llm.result import LanguageModelAudit

PROGRAM = '''"""Tests of a language model with rows for which its answers differed between two groups.

Found by evenhand {version} in {model}. Each test asks about {pairs} fresh pairs of people, and fails if the exact sign
test finds a difference between the groups, adjusted for all tests in this file.

    EVENHAND_MODEL={file} pytest THIS_FILE
    python THIS_FILE {file}

The model is a model file as for `evenhand llm audit`, whose list names the people. The tests ask {calls:,} questions.
Set EVENHAND_ANSWERS=FILE to store all answers, so that none is paid for twice.
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
        pytest.fail("no model is set: use EVENHAND_MODEL={file}", pytrace=False)
    return replay_findings(model, CASES, PAIRS, answers=os.environ.get("EVENHAND_ANSWERS"))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_groups_get_equal_answers(number):
    finding = replayed()[number]
    assert finding.p > 0.05, finding.sentence


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["EVENHAND_MODEL"] = sys.argv[1]
    sys.exit(pytest.main([__file__, *sys.argv[2:]]))
'''


def save_language_tests(result: LanguageModelAudit, path: Path) -> int:
    """Write a pytest file that asks fresh questions about the confirmed templates, and fails if they still differ.

    The file contains the rows of the data; the names come from the model file.

    Returns:
        Number of tests.

    Raises:
        OptionError: No template was confirmed, or the file cannot be written.
    """
    findings = result.template_findings
    if not findings:
        raise OptionError("no template was confirmed, so there is nothing to test again", location="save_tests")
    cases = [{"row": finding.row, "groups": (finding.group_1, finding.group_0)} for finding in findings]
    pairs = max(finding.pairs for finding in findings)
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
    """Result of fresh pairs about a row.

    Attributes:
        p: p-value of the exact sign test, adjusted for all rows.
        sentence: Number of pairs in which each group had the better answer, in one sentence.
    """

    p: float
    sentence: str


def replay_findings(
    model: Any, cases: Sequence[Mapping[str, Any]], pairs: int = 40, *, answers: Path | str | None = None, seed: int = 0
) -> list[ReplayedFinding]:
    """Ask a language model about the rows of earlier findings, with fresh pairs of people from its own list.

    Args:
        model: Model file, or its path.
        cases: Findings, each with the values of its ``row`` and its ``groups`` (group 1, group 0).
        pairs: Number of pairs per finding.
        answers: File that stores all answers.
        seed: Random seed of the people and the questions.

    Raises:
        OptionError: The model file does not compare a group.
        EvenhandError: As for ``audit_language_model``.
    """
    # An audit requires two templates, so the first row is repeated.
    rows = [dict(case["row"]) for case in cases]
    config = LanguageModelConfig(templates=len(rows) + 1, calls=2 * pairs * len(rows), seed=seed)
    interview = open_interview(model, [*rows, rows[0]], config, answers=answers)
    with interview.model:
        missing = [group for case in cases for group in case["groups"] if group not in interview.groups]
        if missing:
            hint = f"it compares: {', '.join(interview.groups)}"
            raise OptionError(f"the file does not compare {missing[0]!r}", location="people.compare", hint=hint)
        index = interview.groups.index
        suspects = [Suspect((index(a), index(b)), n) for n, (a, b) in enumerate(case["groups"] for case in cases)]
        design = Design(interview.templates, interview.names, seed)
        interviewer = Interviewer(interview, excluded=interview.model.file.refused == "excluded")
        confirmations = {item.suspect: item for item in confirm(suspects, design, pairs, 0, interviewer)}
    findings = []
    for row, case, suspect in zip(rows, cases, suspects, strict=True):
        (group_1, group_0), (better_1, better_0) = case["groups"], confirmations[suspect].better
        p = confirmations[suspect].p
        sentence = (
            f"of {pairs} fresh pairs {group_1} had the better answer in {better_1}, {group_0} in {better_0} "
            f"(adjusted p {p:.2g}): {row}"
        )
        findings.append(ReplayedFinding(p, sentence))
    return findings
