"""Inspection of policies: guarantees, overrides and costs, computed from the table."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from math import isnan
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.simulation.reachability import (
    CheckFinding,
    ReachabilityPass,
    StatesPass,
    can_walk,
    layer_levels,
    layer_states,
    walk_reachable_states,
)
from evenhand.shields.simulation.several_groups_walk import can_walk_groups, walk_groups
from evenhand.shields.spec.configuration import format_exact
from evenhand.shields.spec.ends import describe_assumption, describe_empty_group, guarantees
from evenhand.shields.spec.plan import PERIODIC_KINDS, ShieldPlan

if TYPE_CHECKING:
    import pandas as pd

MAX_TIMES = 40
"""Maximum number of columns of the heat map."""
RARE_PROBABILITY = 1e-6
"""Expected number of people below which a cell of the heat map is omitted."""
NOWHERE = -999
"""Marker of a state that no run reaches."""
MAP_MOMENTS = (0.25, 0.5, 0.75, 0.95)
"""Fractions of the horizon at which actions are shown as a function of the counters."""


class GroupOverrides(ResultPart):
    """Overrides of a group.

    Attributes:
        name: Name of the group.
        rate, accept: Expected share of the group among all arrivals, and expected share with a recommendation to
            accept.
        accepted, rejected: Expected numbers of people in the horizon that are accepted and rejected against the
            recommendation.
        states: Share of the reached states in which the shield overrides some recommendation about this group.
    """

    name: str
    rate: float
    accept: float
    accepted: float | None = None
    rejected: float | None = None
    states: float | None = None


class HeatmapCell(ResultPart):
    """Cell of the heat map.

    Attributes:
        first, last: First and last number of earlier decisions.
        low, high: Range of the difference between the groups: acceptance rate of the first minus that of the second,
            relative to the larger one for disparate impact.
        group: Group of the person. comes: Expected number of people of the group in this cell.
        accepted, rejected: Shares of them that are accepted and rejected against the recommendation.
    """

    first: int
    last: int
    low: float
    high: float
    group: str
    comes: float
    accepted: float
    rejected: float


class ActionStretch(ResultPart):
    """Neighbouring reached states with the same action, at a time and with likely numbers of seen people.

    Attributes:
        time, seen: Decisions made, and seen people of each group.
        group: Group of the person. first, second_low, second_high: Accepted people of the first group, and range of
            accepted people of the second.
        action: The action: ``follow``, ``accept``, ``reject``, or with several costs ``accept if cheap`` and ``reject
            if cheap``.
    """

    time: int
    seen: tuple[int, int]
    group: str
    first: int
    second_low: int
    second_high: int
    action: Literal["follow", "accept", "reject", "accept if cheap", "reject if cheap"]


class ShieldInspection(Result):
    """Inspection of a shield.

    Attributes:
        property, kappa, horizon, shield, empty_group: Values of the plan. ``shield`` is its kind.
        keeps: Description of the property.
        promises, convention: Descriptions of the guarantees and of the convention for small groups.
        groups: Expectations and overrides of each group.
        expected_cost: Expected cost of the overrides in one horizon, computed from the table. If its states were not
            visited, the stated cost, or None.
        stated_cost: Expected cost stored in the file.
        overrides: Expected number of overrides.
        states, reached: Number of states of the table, and number of reached states.
        overriding: Share of the reached states in which the shield overrides some recommendation.
        bytes, file_bytes, form: Size of the table, size of the file, and form of the table.
        ends, verified: States at the checks, and whether all of them are fair. None if the states could not be visited.
        walked, not_walked: Descriptions of the visited runs, and of the other runs with their assumption.
        digest: Digest of the running shield, as in its states, its log and the service.
        file_sha256: SHA-256 of the file.
        limit: Absolute difference beyond which people are counted in the outermost cells.
        cells, stretches: The heat map, and the actions by counters.
    """

    chart = "shields.inspection.plot_shield_inspection"
    kind: Literal["shield-inspection"] = "shield-inspection"
    seed: int = 0
    property: str
    kappa: str
    horizon: int
    shield: str
    empty_group: str
    keeps: str
    promises: tuple[str, ...]
    convention: str
    groups: tuple[GroupOverrides, ...]
    expected_cost: float | None
    stated_cost: float | None = None
    overrides: float | None = None
    states: int
    reached: int | None = None
    overriding: float | None = None
    bytes: int
    file_bytes: int | None = None
    form: str
    ends: tuple[CheckFinding, ...] = ()
    verified: bool | None = None
    walked: str = ""
    not_walked: str = ""
    digest: str = ""
    file_sha256: str | None = None
    limit: float = 1.0
    cells: tuple[HeatmapCell, ...] = ()
    stretches: tuple[ActionStretch, ...] = ()

    def document(self, name: str = "") -> Document:
        """Build the document: guarantees, their verification, and interventions.

        Args:
            name: Name of the file.
        """
        return self._write_document("evenhand.shields.simulation.wording", name)

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row per cell of the heat map."""
        import pandas as pd

        return pd.DataFrame([cell.model_dump() for cell in self.cells])


COST_TOLERANCE = 1e-6
"""Absolute or relative tolerance for costs summed in a different order."""


def inspect_policy(
    policy: ShieldPolicy, *, file: bytes | None = None, progress: Callable[[int, int], None] | None = None
) -> ShieldInspection:
    """Inspect all runs of a policy, from its table.

    Args:
        policy: Policy of any kind. Its states are visited unless there are too many.
        file: Content of its file.
        progress: Callback that receives the number of finished layers and their total.
    """
    started = time.perf_counter()
    plan = policy.plan
    stated = None if isnan(policy.expected_cost) else policy.expected_cost
    walked = walk_reachable_states(policy, planes=_map_times(policy), progress=progress) if can_walk(policy) else None
    visited = walk_groups(policy, progress=progress) if can_walk_groups(policy) else walked
    described = {
        "property": plan.property.kind,
        "kappa": format_exact(plan.property.kappa),
        "horizon": plan.horizon,
        "shield": plan.kind,
        "empty_group": str(plan.property.empty_group),
        "keeps": plan.property.words(),
        "promises": guarantees(plan),
        "convention": describe_empty_group(plan),
        "groups": _summarize_groups(policy, walked, visited),
        "expected_cost": stated,
        "stated_cost": stated,
        "states": policy.states,
        "bytes": policy.bytes,
        "digest": policy.running_digest,
        "form": policy.actions.form,
        "not_walked": _describe_not_walked(policy, visited is not None),
    }
    if file is not None:
        described |= {"file_bytes": len(file), "file_sha256": hashlib.sha256(file).hexdigest()}
    if visited is not None:
        described |= {
            "expected_cost": visited.expected_cost,
            "overrides": sum(float(number) for number in visited.overrides.flat),
            "reached": visited.reached,
            "ends": visited.checks,
            "verified": visited.fair,
            "walked": _describe_walked(plan),
        }
    if walked is not None:
        described |= {
            "overriding": walked.overriding[2] / walked.reached,
            "limit": walked.limit,
            "cells": _heatmap_cells(policy, walked),
            "stretches": _action_stretches(policy, walked),
        }
    return ShieldInspection.model_validate({**described, "seconds": time.perf_counter() - started})


def _describe_walked(plan: ShieldPlan) -> str:
    if plan.kind not in PERIODIC_KINDS:
        return "every run of the horizon"
    if plan.kind == "dynamic":
        return "every run of the first period"
    return "every run of one period, counted separately from the start"


def _describe_not_walked(policy: ShieldPolicy, walked: bool) -> str:
    """Describe the runs that were not visited, with their assumption; empty if all were."""
    plan = policy.plan
    if policy.actions.form == "greedy":
        return "it has no table of states"
    if not walked:
        return f"{policy.states:,} states are too many to visit"
    if plan.kind not in PERIODIC_KINDS:
        return ""
    later = f"not visited, but fair, counted with all earlier periods, as long as {describe_assumption(plan)}"
    own = "; a running shield synthesises its periods from the plan, and does not use this table"
    return later + own if policy.makes_own_periods else later


def _summarize_groups(
    policy: ShieldPolicy, walked: ReachabilityPass | None, visited: StatesPass | None
) -> tuple[GroupOverrides, ...]:
    inputs = policy.plan.inputs
    summaries = []
    for i, name in enumerate(inputs.groups):
        more = {}
        if visited is not None:
            accepted, rejected = visited.overrides[i]
            more = {"accepted": accepted, "rejected": rejected}
        if walked is not None:
            more["states"] = walked.overriding[i] / walked.reached
        summaries.append(GroupOverrides(name=name, rate=inputs.rate[i], accept=inputs.accept[i], **more))
    return tuple(summaries)


def _heatmap_cells(policy: ShieldPolicy, walked: ReachabilityPass) -> tuple[HeatmapCell, ...]:
    horizon, bins, _, _ = walked.overrides_by_gap.shape
    edges = np.unique(np.linspace(0, horizon, min(horizon, MAX_TIMES) + 1).round().astype(int))
    ends = np.linspace(-walked.limit, walked.limit, bins + 1)
    sums = np.add.reduceat(walked.overrides_by_gap, edges[:-1], axis=0)
    cells = []
    for i, j, g in zip(*np.nonzero(sums[..., 0] > RARE_PROBABILITY), strict=True):
        comes, accepted, rejected = (float(number) for number in sums[i, j, g])
        cells.append(
            HeatmapCell(
                first=int(edges[i]),
                last=int(edges[i + 1]) - 1,
                low=round(float(ends[j]), 6),
                high=round(float(ends[j + 1]), 6),
                group=policy.plan.inputs.groups[g],
                comes=round(comes, 9),
                accepted=round(accepted / comes, 9),
                rejected=round(rejected / comes, 9),
            )
        )
    return tuple(cells)


def _map_times(policy: ShieldPolicy) -> dict[int, tuple[int, int]]:
    """Choose the times at which actions are shown by counters, and likely numbers of counted people."""
    plan = policy.plan
    labelled = plan.property.labelled
    counted = plan.inputs.label if labelled and plan.inputs.label is not None else (1.0, 1.0)
    times = {}
    for t in sorted({min(plan.horizon - 1, round(share * plan.horizon)) for share in MAP_MOMENTS}):
        n_a, n_b = (round(t * rate * share) for rate, share in zip(plan.inputs.rate, counted, strict=True))
        times[t] = (n_a, min(n_b, t - n_a) if labelled else t - n_a)
    return times


def _action_stretches(policy: ShieldPolicy, walked: ReachabilityPass) -> tuple[ActionStretch, ...]:
    costs, labelled = policy.levels, policy.plan.property.labelled
    stretches: list[ActionStretch] = []
    for t, (n_a, n_b) in _map_times(policy).items():
        states = np.stack(layer_states(t, labelled), axis=1)
        in_plane = (states[:, 0] == n_a) & (states[:, 2] == n_b)
        levels = layer_levels(policy, t)[:, in_plane].reshape(2, n_a + 1, n_b + 1).astype(int) - costs
        levels[:, ~walked.planes[t]] = NOWHERE
        for group, name in enumerate(policy.plan.inputs.groups):
            for accepted, row in enumerate(levels[group]):
                # A stretch begins at the first place and at every change of the level.
                starts = np.flatnonzero(np.diff(row, prepend=NOWHERE - 1))
                for low, stop in zip(starts, [*starts[1:], len(row)], strict=True):
                    if row[low] != NOWHERE:
                        stretches.append(
                            ActionStretch(
                                time=t,
                                seen=(n_a, n_b),
                                group=name,
                                first=accepted,
                                second_low=int(low),
                                second_high=int(stop) - 1,
                                action=_action_name(int(row[low]), costs),
                            )
                        )
    return tuple(stretches)


def _action_name(level: int, costs: int) -> Literal["follow", "accept", "reject", "accept if cheap", "reject if cheap"]:
    if level == 0:
        return "follow"
    if abs(level) == costs:
        return "accept" if level > 0 else "reject"
    return "accept if cheap" if level > 0 else "reject if cheap"
