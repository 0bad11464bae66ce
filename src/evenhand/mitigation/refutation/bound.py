"""Result of the search of a family of rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenhand.core.typing import Floats
from evenhand.mitigation.refutation.result import RefutationProof

NO_RULE = 2.0
"""Bound of a family or part that contains no rule, larger than any gap."""


@dataclass(frozen=True, eq=False)
class FamilyBound:
    """Lower bound of the gap of a family, and its best rule.

    Attributes:
        bound: Lower bound of the gap. Above 1 if no rule reaches the floor.
        decisions: Probability of acceptance by the best rule in each cell, or None.
        rule: Fields of ``WitnessRule`` that describe it.
        proof: Proof of the bound.
        parts, stopped, interrupted: As in ``RefutationResult``.
    """

    bound: float = NO_RULE
    decisions: Floats | None = None
    rule: dict[str, Any] = field(default_factory=dict)
    proof: RefutationProof = field(default_factory=RefutationProof)
    parts: int = 0
    stopped: bool = False
    interrupted: bool = False
