"""pytest plugin: the fixture ``evenhand_audit`` audits a model, and fails the test if a condition holds.

The fixture imports Evenhand on demand, so that other test suites stay fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult

MARK = "evenhand"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(fail_on=[...], allow_unassessable=False, **settings): conditions on which the fixture evenhand_audit "
        "fails the test, and settings of evenhand.audit for it.",
    )


@pytest.fixture
def evenhand_audit(request: pytest.FixtureRequest) -> Callable[..., AuditResult]:
    """Build a function that calls ``evenhand.audit``, and fails the test if a condition holds.

    Settings of the call override those of the marker ``evenhand``, and the nearest marker overrides others. Conditions
    of the marker and of the call are both checked. A condition that cannot be assessed also fails the test, unless
    ``allow_unassessable`` is True.

    Example:
        >>> @pytest.mark.evenhand(protected=["sex"], fail_on=["flip_rate.high > 0.01"])  # doctest: +SKIP
        ... def test_the_model_is_even_handed(evenhand_audit):
        ...     evenhand_audit(model, people, labels)
    """
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(MARK))):
        settings |= marker.kwargs

    def audit(*subject: Any, fail_on: Sequence[str] = (), **overrides: Any) -> AuditResult:
        import evenhand
        from evenhand import auditing

        options = settings | overrides
        expressions = [*options.pop("fail_on", ()), *fail_on]
        allowed = options.pop("allow_unassessable", False)
        gates = [auditing.parse_gate(expression) for expression in expressions]
        result = evenhand.audit(*subject, **options)
        outcomes = auditing.check_gates(gates, result)
        if not auditing.gates_pass(outcomes, allow_unassessable=allowed):
            messages = [outcome.message for outcome in outcomes if outcome.status != "passed"]
            pytest.fail("\n".join([*messages, "", result.summary()]), pytrace=False)
        return result

    return audit
