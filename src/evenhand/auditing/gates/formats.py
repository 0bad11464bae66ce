"""Outcomes of conditions as pipelines read them: SARIF, JUnit XML, and annotations and summaries of GitHub Actions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

from evenhand import __version__
from evenhand.auditing.gates.conditions import Gate, GatedResult
from evenhand.core.text import format_significant, strip_unprintable

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULE = "fairness-gate"


def format_sarif(outcomes: Sequence[GateOutcome], *, subject: str, allow_unassessable: bool = False) -> str:
    """Return a SARIF 2.1.0 log with one result for every condition that does not pass, or passes with a caution.

    A result's fingerprint is of the condition and what it was asked of, so that it is the same from run to run while
    its numbers change.

    Args:
        outcomes: of all conditions.
        subject: what they were asked of: the path of a model or of data, or an address.
        allow_unassessable: whether conditions that cannot be assessed are notes, not warnings.
    """
    found = []
    uri = subject if "://" in subject else quote(_relative_path(subject))
    for outcome in outcomes:
        if not outcome.is_reported:
            continue
        identity = json.dumps([RULE, subject, " ".join(outcome.expression.split())])
        found.append(
            {
                "ruleId": RULE,
                "ruleIndex": 0,
                "level": outcome.level(allow_unassessable=allow_unassessable),
                "message": {"text": f"{subject}: {outcome.message}"},
                "locations": [
                    {
                        "physicalLocation": {
                            "artifactLocation": {"uri": uri},
                            "region": {"startLine": 1},
                        }
                    }
                ],
                "partialFingerprints": {"evenhandGate/v1": hashlib.sha256(identity.encode()).hexdigest()},
            }
        )
    driver = {
        "name": "Evenhand",
        "version": __version__,
        "rules": [
            {
                "id": RULE,
                "name": "FairnessGate",
                "shortDescription": {"text": "A condition of fairness that must not hold does, or cannot be assessed."},
                "help": {"text": "Open the audit's report: it has the number with its interval, and who is affected."},
                "defaultConfiguration": {"level": "error"},
            }
        ],
    }
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": found}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _relative_path(subject: str) -> str:
    """Return a path below the working folder as code hosts want it: relative, with forward slashes."""
    path = Path(subject)
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (ValueError, OSError):
        return path.as_posix()


def format_junit(
    outcomes: Sequence[GateOutcome], *, subject: str, seconds: float, allow_unassessable: bool = False
) -> str:
    """Return JUnit XML with one test case for every condition.

    Args:
        outcomes: of all conditions.
        subject: what they were asked of; the name of the class of the cases.
        seconds: the audit took.
        allow_unassessable: whether conditions that cannot be assessed are skipped, not errors.
    """
    unclear = sum(outcome.status == "not assessable" for outcome in outcomes)
    counts = {
        "tests": len(outcomes),
        "failures": sum(outcome.status == "failed" for outcome in outcomes),
        "errors": 0 if allow_unassessable else unclear,
        "skipped": unclear if allow_unassessable else 0,
    }
    about = {"name": "evenhand", "time": f"{seconds:.3f}"} | {name: str(count) for name, count in counts.items()}
    suites = ET.Element("testsuites", about)
    suite = ET.SubElement(suites, "testsuite", about)
    subject = strip_unprintable(subject)
    for outcome in outcomes:
        case = ET.SubElement(
            suite, "testcase", {"classname": subject, "name": strip_unprintable(outcome.expression), "time": "0"}
        )
        if outcome.status == "passed":
            if outcome.cautions:
                ET.SubElement(case, "system-out").text = strip_unprintable(outcome.message)
            continue
        unassessable = "skipped" if allow_unassessable else "error"
        kind = "failure" if outcome.status == "failed" else unassessable
        ET.SubElement(case, kind, {"message": strip_unprintable(outcome.message)})
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def format_annotations(outcomes: Sequence[GateOutcome], *, subject: str, allow_unassessable: bool = False) -> list[str]:
    """Return workflow commands of GitHub Actions, a line for every condition that does not pass or has a caution."""
    lines = []
    for outcome in outcomes:
        if not outcome.is_reported:
            continue
        level = outcome.level(allow_unassessable=allow_unassessable).replace("note", "notice")
        place = "" if "://" in subject else f"file={_escape_property(_relative_path(subject))},line=1,"
        message = outcome.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        lines.append(f"::{level} {place}title=Evenhand::{message}")
    return lines


def _escape_property(text: str) -> str:
    for sign, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        text = text.replace(sign, code)
    return text


def format_step_summary(outcomes: Sequence[GateOutcome], summary: str) -> str:
    """Return the summary of a job in Markdown: a table of the conditions, then what was found.

    Args:
        outcomes: of all conditions; may be empty.
        summary: what was found, in Markdown.
    """
    lines = []
    if outcomes:
        lines += ["| condition | outcome | measured |", "| --- | --- | --- |"]
        lines += [
            "| "
            + " | ".join(
                _escape_cell(cell)
                for cell in (f"`{one.expression}`", "; ".join((one.status, *one.cautions)), ", ".join(one.measured))
            )
            + " |"
            for one in outcomes
        ]
        lines.append("")
    return "\n".join(lines) + summary.rstrip("\n") + "\n"


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# What came of conditions: each holds, does not, or cannot be assessed.


class GateOutcome(NamedTuple):
    """What came of one condition.

    Attributes:
        expression: the condition as it was given.
        status: ``failed`` where it holds, ``not assessable`` where a number that it names is unknown or leaves out
            groups, else ``passed``.
        measured: the numbers that it names, each with its value: ``flip_rate.sex = 0.062``.
        reasons: why it cannot be assessed; also of a condition that fails all the same.
        cautions: What to know of the numbers, such as true labels that are known for selected people only.
    """

    expression: str
    status: Literal["passed", "failed", "not assessable"]
    measured: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The outcome in a sentence, with its cautions."""
        numbers = f" ({', '.join(self.measured)})" if self.measured else ""
        outcome = {
            "failed": f"this holds: {self.expression}{numbers}",
            "passed": f"this does not hold: {self.expression}{numbers}",
            "not assessable": f"not assessable in {self.expression}: {'; '.join(self.reasons)}",
        }[self.status]
        return "; caution: ".join((outcome, *self.cautions))

    @property
    def is_reported(self) -> bool:
        """Whether the outcome is worth a line: it does not pass, or passes with a caution."""
        return self.status != "passed" or bool(self.cautions)

    def level(self, *, allow_unassessable: bool) -> str:
        """Return the SARIF level: ``error``, ``warning`` or ``note``."""
        if self.status == "not assessable" and not allow_unassessable:
            return "warning"
        return "error" if self.status == "failed" else "note"


def check_gates(gates: Sequence[Gate], result: GatedResult) -> list[GateOutcome]:
    """Ask every condition of a result.

    Raises:
        OptionError: one names a number that the result does not have.
    """
    return [_check_gate(gate, result) for gate in gates]


def _check_gate(gate: Gate, result: GatedResult) -> GateOutcome:
    failed, reasons = gate.holds(result), tuple(gate.not_assessable(result))
    measured = tuple(
        f"{name} = {'unknown' if math.isnan(value) else format_significant(value)}"
        for name, value in gate.measured(result)
    )
    return GateOutcome(
        gate.expression,
        "failed" if failed else "not assessable" if reasons else "passed",
        measured,
        reasons,
        tuple(gate.cautions(result)),
    )


def gates_pass(outcomes: Iterable[GateOutcome], *, allow_unassessable: bool = False) -> bool:
    """Return whether no condition holds, and each could be assessed unless that is not asked for."""
    passing = {"passed", "not assessable"} if allow_unassessable else {"passed"}
    return all(outcome.status in passing for outcome in outcomes)
