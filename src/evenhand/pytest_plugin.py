"""A plugin for pytest: the fixture ``evenhand_audit`` audits a model and fails the test where a condition holds.

Evenhand itself is imported when a test uses the fixture, so that other test suites are not slowed down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult

MARK = "evenhand"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(fail_on=[...], allow_unassessable=False, **settings): conditions on which the fixture evenhand_audit "
        "fails the test, and settings of evenhand.audit for it.",
    )


@pytest.fixture
def evenhand_audit(request: pytest.FixtureRequest) -> Callable[..., AuditResult]:
    """Return a function that audits as ``evenhand.audit`` does, and fails the test where a condition holds.

    It audits with the settings of the marker ``evenhand``, the nearest one first, and of the call, which win. The
    conditions of the marker and of the call count both. A condition that cannot be assessed fails the test too, unless
    ``allow_unassessable`` is given.

    Example:
        >>> @pytest.mark.evenhand(protected=["sex"], fail_on=["flip_rate.high > 0.01"])  # doctest: +SKIP
        ... def test_the_model_is_even_handed(evenhand_audit):
        ...     evenhand_audit(model, people, labels)
    """
    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(MARK))):
        settings |= marker.kwargs

    def audit(*subject: Any, fail_on: Sequence[str] = (), **given: Any) -> AuditResult:
        import evenhand
        from evenhand import auditing

        chosen = settings | given
        expressions = [*chosen.pop("fail_on", ()), *fail_on]
        allowed = chosen.pop("allow_unassessable", False)
        gates = [auditing.parse_gate(expression) for expression in expressions]
        result = evenhand.audit(*subject, **chosen)
        outcomes = auditing.check_gates(gates, result)
        if not auditing.gates_pass(outcomes, allow_unassessable=allowed):
            found = [outcome.message for outcome in outcomes if outcome.status != "passed"]
            pytest.fail("\n".join([*found, "", result.summary()]), pytrace=False)
        return result

    return audit
