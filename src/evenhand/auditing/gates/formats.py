"""Output formats of conditions for CI: SARIF, JUnit XML, and annotations and summaries of GitHub Actions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

from evenhand import __version__
from evenhand.auditing.gates.conditions import Gate
from evenhand.core.text import format_significant, strip_unprintable

if TYPE_CHECKING:
    from evenhand.auditing.gates.conditions import GatedResult

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULE = "fairness-gate"


def format_sarif(outcomes: Sequence[GateOutcome], *, subject: str, allow_unassessable: bool = False) -> str:
    """Format the conditions that do not pass, or pass with a caution, as a SARIF 2.1.0 log.

    The fingerprint of a result depends only on the condition and the subject, so it is equal in later runs with other
    numbers.

    Args:
        outcomes: Outcomes of all conditions.
        subject: Path of the model or the data, or a URL.
        allow_unassessable: Whether conditions that cannot be assessed are notes instead of warnings.
    """
    results = []
    uri = subject if "://" in subject else quote(_relative_path(subject))
    for outcome in outcomes:
        if not outcome.is_reported:
            continue
        identity = json.dumps([RULE, subject, " ".join(outcome.expression.split())])
        results.append(
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
                "shortDescription": {
                    "text": "A fairness condition that must not hold does hold, or cannot be assessed."
                },
                "help": {
                    "text": "The report of the audit contains the number with its interval, and the affected groups."
                },
                "defaultConfiguration": {"level": "error"},
            }
        ],
    }
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _relative_path(subject: str) -> str:
    """Convert a path below the working folder to a relative path with forward slashes, as required by code hosts."""
    path = Path(subject)
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (ValueError, OSError):
        return path.as_posix()


def format_junit(
    outcomes: Sequence[GateOutcome], *, subject: str, seconds: float, allow_unassessable: bool = False
) -> str:
    """Format the conditions as JUnit XML, one test case per condition.

    Args:
        outcomes: Outcomes of all conditions.
        subject: Path of the model or the data, or a URL. It is the class name of the test cases.
        seconds: Running time of the audit.
        allow_unassessable: Whether conditions that cannot be assessed are skipped tests instead of errors.
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
    """Format the conditions that do not pass, or pass with a caution, as workflow commands of GitHub Actions."""
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
    """Format the summary of a job in Markdown: a table of the conditions, followed by the summary of the result.

    Args:
        outcomes: Outcomes of all conditions. May be empty.
        summary: Summary of the result, in Markdown.
    """
    lines = []
    if outcomes:
        lines += ["| condition | outcome | measured |", "| --- | --- | --- |"]
        lines += [
            "| "
            + " | ".join(
                cell.replace("|", "\\|").replace("\n", " ")
                for cell in (
                    f"`{outcome.expression}`",
                    "; ".join((outcome.status, *outcome.cautions)),
                    ", ".join(outcome.measured),
                )
            )
            + " |"
            for outcome in outcomes
        ]
        lines.append("")
    return "\n".join(lines) + summary.rstrip("\n") + "\n"


class GateOutcome(NamedTuple):
    """Outcome of a condition.

    Attributes:
        expression: Condition.
        status: ``failed`` if the condition holds, ``not assessable`` if one of its numbers is unknown or leaves out
            groups, otherwise ``passed``.
        measured: Numbers in the condition with their values, such as ``flip_rate.sex = 0.062``.
        reasons: Reasons why the condition cannot be assessed. Failed conditions may also
            have such reasons.
        cautions: Cautions about the numbers, such as selective true labels.
    """

    expression: str
    status: Literal["passed", "failed", "not assessable"]
    measured: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Sentence about the outcome, with the cautions."""
        numbers = f" ({', '.join(self.measured)})" if self.measured else ""
        outcome = {
            "failed": f"this holds: {self.expression}{numbers}",
            "passed": f"this does not hold: {self.expression}{numbers}",
            "not assessable": f"not assessable in {self.expression}: {'; '.join(self.reasons)}",
        }[self.status]
        return "; caution: ".join((outcome, *self.cautions))

    @property
    def is_reported(self) -> bool:
        """Whether the condition does not pass, or passes with a caution."""
        return self.status != "passed" or bool(self.cautions)

    def level(self, *, allow_unassessable: bool) -> str:
        """Return the SARIF level: ``error``, ``warning`` or ``note``."""
        if self.status == "not assessable" and not allow_unassessable:
            return "warning"
        return "error" if self.status == "failed" else "note"


def check_gates(gates: Sequence[Gate], result: GatedResult) -> list[GateOutcome]:
    """Check conditions against a result.

    Raises:
        OptionError: The result does not contain a number in a condition.
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
    """Check whether all conditions pass. With ``allow_unassessable``, conditions that are not assessable also pass."""
    passing = {"passed", "not assessable"} if allow_unassessable else {"passed"}
    return all(outcome.status in passing for outcome in outcomes)
