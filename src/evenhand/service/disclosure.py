"""What clients are told of what the guard did, and what they are not: the log knows more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenhand.genai.guard import Answer, AnswerStatus
from evenhand.service.faults import Fault

WORST: tuple[AnswerStatus, ...] = ("ok", "violation", "unguarded", "refused")

WHO = {"judge": "the judge", "generator": "the generator", "classifier": "the classifier", "store": "the store"}

LONGEST = 4000
"""Characters of a header."""


def failed(answer: Answer) -> str:
    """Who failed, if anybody did: ``judge``, ``generator``, ``classifier`` or ``store``; else an empty text."""
    last = answer.attempts[-1].error if answer.attempts else ""
    for text in (last, answer.reason):
        for name, who in WHO.items():
            if text.startswith(f"{who} failed"):
                return name
    return ""


def reason(answer: Answer) -> str:
    """Why an answer is not ok, without what other services said: that may hold addresses, and is in the log."""
    last = answer.attempts[-1].error if answer.attempts else ""
    own = answer.reason.removesuffix(last).rstrip("; ")
    who = failed(answer)
    parts = ["" if any(own.startswith(f"{one} failed") for one in WHO.values()) else own]
    parts.append(f"{WHO[who]} failed" if who else "")
    return "; ".join(filter(None, parts))


def headers(answers: Sequence[Answer], numbers: Sequence[int | None]) -> dict[str, str]:
    """The headers that every answer of a guarded generator carries; of several answers what is worst.

    Args:
        answers: of which those without an item count too.
        numbers: of their entries in the log.
    """
    status = max((one.status for one in answers), key=WORST.index)
    return {
        "x-evenhand-guarded": _yes(all(one.status != "unguarded" for one in answers)),
        "x-evenhand-status": status,
        "x-evenhand-changed": _yes(any(one.changed for one in answers)),
        "x-evenhand-disclosure": " | ".join(one.disclosure for one in answers)[:LONGEST],
        "x-evenhand-entry": ", ".join(str(number) for number in numbers if number is not None),
    }


def told(answer: Answer, number: int | None) -> dict[str, Any]:
    """The same of one answer, for its body."""
    return {
        "guarded": answer.status != "unguarded",
        "status": answer.status,
        "changed": answer.changed,
        "disclosure": answer.disclosure,
        "reason": reason(answer),
        "entry": number,
    }


def refusal(answers: Sequence[Answer], numbers: Sequence[int | None], *, what: str) -> Fault:
    """The error that says that there is no item."""
    worst = answers[-1]
    who = failed(worst)
    entries = ", ".join(str(number) for number in numbers if number is not None)
    return Fault(
        503 if who in ("judge", "store") else 502,
        f"there is no {what}: {reason(worst) or 'none was made'}",
        code=f"{who or 'generator'}_failed",
        mend=f"ask again later; the log of the service knows more{f', under entry {entries}' if entries else ''}",
        # The guard has tried as often as it may.
        headers={**headers(answers, numbers), "x-should-retry": "false"},
    )


def _yes(said: bool) -> str:
    return "true" if said else "false"
