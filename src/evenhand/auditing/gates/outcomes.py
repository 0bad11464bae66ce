"""What came of conditions: each holds, does not, or cannot be assessed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from evenhand.auditing.gates.conditions import Gate, GatedResult
from evenhand.text import format_significant


class GateOutcome(NamedTuple):
    """What came of one condition.

    Attributes:
        expression: the condition as it was given.
        status: ``failed`` where it holds, ``not assessable`` where a number that it names is unknown or leaves out
            groups, else ``passed``.
        measured: the numbers that it names, each with its value: ``flip_rate.sex = 0.062``.
        reasons: why it cannot be assessed; also of a condition that fails all the same.
    """

    expression: str
    status: Literal["passed", "failed", "not assessable"]
    measured: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Return what came of it, in a sentence."""
        numbers = f" ({', '.join(self.measured)})" if self.measured else ""
        if self.status == "failed":
            return f"this holds: {self.expression}{numbers}"
        if self.status == "passed":
            return f"this does not hold: {self.expression}{numbers}"
        return f"not assessable in {self.expression}: {'; '.join(self.reasons)}"


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
        gate.expression, "failed" if failed else "not assessable" if reasons else "passed", measured, reasons
    )


def gates_pass(outcomes: Iterable[GateOutcome], *, allow_unassessable: bool = False) -> bool:
    """Return whether no condition holds, and each could be assessed unless that is not asked for."""
    passing = {"passed", "not assessable"} if allow_unassessable else {"passed"}
    return all(outcome.status in passing for outcome in outcomes)
