"""What a policy does, read from its table: what it guarantees, when it overrides, and what that costs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Floats
from evenhand.shields.policy.policy import ShieldPolicy
from evenhand.shields.simulation.reachability import (
    ReachabilityPass,
    can_walk,
    layer_levels,
    layer_states,
    walk_reachable_states,
)
from evenhand.shields.simulation.several_groups_walk import GroupsPass, can_walk_groups, walk_groups
from evenhand.shields.spec.configuration import format_exact
from evenhand.shields.spec.ends import describe_assumption, describe_empty_group, guarantees
from evenhand.shields.spec.plan import PERIODIC_KINDS, ShieldPlan

if TYPE_CHECKING:
    import pandas as pd

MAX_TIMES = 40
"""Columns of the heat map, at most."""
RARE_PROBABILITY = 1e-6
"""Expected people below which a cell of the heat map is left out."""
NOWHERE = -999
"""In place of a level: no run gets to the state."""
MAP_MOMENTS = (0.25, 0.5, 0.75, 0.95)
"""Shares of the horizon at which the actions are shown by counters."""


class CheckFinding(ResultPart):
    """What was found at a time when the bias is checked.

    Attributes:
        time: decisions made.
        reached: states that some run gets to, whatever people come.
        unfair: those of them that are unfair.
        chance: that a run is in one of these, if people come as expected.
        unjudged: states where too few of a group were counted for anything to be required; unjudged_chance: that a run
            is in one of those.
    """

    time: int
    reached: int
    unfair: int
    chance: float
    unjudged: int
    unjudged_chance: float


class GroupOverrides(ResultPart):
    """One group.

    Attributes:
        name: as in the plan.
        rate, accept: share of it among those who come, and share of it that is recommended to be accepted: expected.
        accepted, rejected: expected number of overrides in the horizon: accepted and rejected against the
            recommendation.
        states: share of the states that are reached where the shield intervenes for some recommendation about this
            group.
    """

    name: str
    rate: float
    accept: float
    accepted: float | None = None
    rejected: float | None = None
    states: float | None = None


class HeatmapCell(ResultPart):
    """One cell of the heat map.

    Attributes:
        first, last: decisions made before, both included.
        low, high: difference between the groups so far: acceptance rate of the first less that of the second (by the
            larger of them, for disparate impact).
        group: who comes.
        comes: expected number of people of the group who come in this cell.
        accepted, rejected: shares of them that are accepted and rejected against the recommendation.
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
    """Neighbouring states with the same action that runs get to, by numbers of people seen that are likely at a time.

    Attributes:
        time: decisions made; seen: how many of each group were counted.
        group: who comes.
        first: accepted of the first group; second_low, second_high: accepted of the second, both included.
        action: what happens: ``follow``, ``accept``, ``reject``, or with several costs ``accept if cheap`` and
            ``reject if cheap``.
    """

    time: int
    seen: tuple[int, int]
    group: str
    first: int
    second_low: int
    second_high: int
    action: Literal["follow", "accept", "reject", "accept if cheap", "reject if cheap"]


class ShieldInspection(Result):
    """A shield as it is in its file.

    Attributes:
        property, kappa, horizon, shield, empty_group: of the plan; ``shield`` is its kind.
        keeps: the property, in words.
        promises: what is guaranteed, one sentence each; convention: what holds while a group is empty or small.
        groups: what is expected of them, and how often the shield intervenes.
        expected_cost: of the overrides in one horizon, if people come as expected, computed from the table; as the file
            says where its states were not walked, None if that is unknown.
        stated_cost: as the file says.
        overrides: expected number of them.
        states: how many the table decides in; reached: how many of them some run gets to.
        overriding: share of those reached where the shield intervenes for some recommendation.
        bytes: of the table; file_bytes: of the file; form: how the table is stored.
        ends: what was found at the times that are checked; verified: whether all those states are fair, so that what
            was walked is guaranteed by this file alone; None where the states could not be walked.
        walked: which runs these are, in words; not_walked: what that leaves open, and what it rests on.
        digest: of the shield that runs with this policy: in its states, its log and the service.
        file_sha256: of the whole file, as ``sha256sum`` prints it.
        limit: differences beyond plus or minus this are in the outermost cells.
        cells: the heat map; stretches: actions by counters.
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
        """Return what the policy guarantees, whether that was verified, and when it intervenes.

        Args:
            name: what its file is called.
        """
        return self._write_document("evenhand.shields.simulation.wording", name)

    def to_frame(self) -> pd.DataFrame:
        """Return the heat map, one row per cell."""
        import pandas as pd

        return pd.DataFrame([cell.model_dump() for cell in self.cells])


COST_TOLERANCE = 1e-6
"""Costs that differ by less, absolutely or as a share, are the same: they were added up in another order."""


def inspect_policy(
    policy: ShieldPolicy, *, file: bytes | None = None, progress: Callable[[int, int], None] | None = None
) -> ShieldInspection:
    """Read from a policy's table what it does in all of its runs.

    Args:
        policy: of any kind; its states are walked, if there are not too many.
        file: the content of the file that it was read from.
        progress: told (layers done, layers) after each.
    """
    started = time.perf_counter()
    plan = policy.plan
    stated = None if isnan(policy.expected_cost) else policy.expected_cost
    walked = walk_reachable_states(policy, planes=_map_times(policy), progress=progress) if can_walk(policy) else None
    groups = walk_groups(policy, progress=progress) if can_walk_groups(policy) else None
    described = {
        "property": plan.property.kind,
        "kappa": format_exact(plan.property.kappa),
        "horizon": plan.horizon,
        "shield": plan.kind,
        "empty_group": str(plan.property.empty_group),
        "keeps": plan.property.words(),
        "promises": guarantees(plan),
        "convention": describe_empty_group(plan),
        "groups": _summarize_groups(policy, walked, groups),
        "expected_cost": stated,
        "stated_cost": stated,
        "states": policy.states,
        "bytes": policy.bytes,
        "digest": policy.running_digest,
        "form": policy.actions.form,
        "not_walked": _describe_not_walked(policy, walked is not None or groups is not None),
    }
    if file is not None:
        described |= {"file_bytes": len(file), "file_sha256": hashlib.sha256(file).hexdigest()}
    found = groups or walked
    if found is not None:
        described |= {
            "expected_cost": found.expected_cost,
            "overrides": sum(float(number) for number in _expected_overrides(found).flat),
            "reached": found.reached,
            "ends": tuple(CheckFinding(**asdict(one)) for one in found.checks),
            "verified": not any(one.unfair for one in found.checks),
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
    return "every run of one period, counted by itself from the start"


def _describe_not_walked(policy: ShieldPolicy, walked: bool) -> str:
    """Return what is not known from the table alone, and what it rests on; nothing if all is."""
    plan = policy.plan
    if policy.actions.form == "greedy":
        return "it has no table of states"
    if not walked:
        return f"{policy.states:,} states are too many to walk"
    if plan.kind not in PERIODIC_KINDS:
        return ""
    later = f"not walked, and fair together with all before them as long as {describe_assumption(plan)}"
    own = "; a running shield makes its periods from the plan, not from this table"
    return later + own if policy.makes_own_periods else later


def _expected_overrides(found: GroupsPass | ReachabilityPass) -> Floats:
    """Return expected overrides by group, accepted and rejected against the recommendation, shape (groups, 2)."""
    return found.overrides if isinstance(found, GroupsPass) else found.overrides.sum(axis=(0, 1))[:, 1:]


def _summarize_groups(
    policy: ShieldPolicy, walked: ReachabilityPass | None, groups: GroupsPass | None
) -> tuple[GroupOverrides, ...]:
    inputs, passed = policy.plan.inputs, groups or walked
    found = []
    for i, name in enumerate(inputs.groups):
        more = {}
        if passed is not None:
            accepted, rejected = _expected_overrides(passed)[i]
            more = {"accepted": accepted, "rejected": rejected}
        if walked is not None:
            more["states"] = walked.overriding[i] / walked.reached
        found.append(GroupOverrides(name=name, rate=inputs.rate[i], accept=inputs.accept[i], **more))
    return tuple(found)


def _heatmap_cells(policy: ShieldPolicy, walked: ReachabilityPass) -> tuple[HeatmapCell, ...]:
    horizon, bins, _, _ = walked.overrides.shape
    edges = np.unique(np.linspace(0, horizon, min(horizon, MAX_TIMES) + 1).round().astype(int))
    ends = np.linspace(-walked.limit, walked.limit, bins + 1)
    sums = np.add.reduceat(walked.overrides, edges[:-1], axis=0)
    found = []
    for i, j, g in zip(*np.nonzero(sums[..., 0] > RARE_PROBABILITY), strict=True):
        comes, accepted, rejected = (float(number) for number in sums[i, j, g])
        found.append(
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
    return tuple(found)


def _map_times(policy: ShieldPolicy) -> dict[int, tuple[int, int]]:
    """Return the times at which actions are shown by counters, with numbers of people counted that are likely then."""
    plan = policy.plan
    labelled = plan.property.labelled
    counted = plan.inputs.label if labelled and plan.inputs.label is not None else (1.0, 1.0)
    found = {}
    for t in sorted({min(plan.horizon - 1, round(share * plan.horizon)) for share in MAP_MOMENTS}):
        n_a, n_b = (round(t * rate * share) for rate, share in zip(plan.inputs.rate, counted, strict=True))
        found[t] = (n_a, min(n_b, t - n_a) if labelled else t - n_a)
    return found


def _action_stretches(policy: ShieldPolicy, walked: ReachabilityPass) -> tuple[ActionStretch, ...]:
    costs, labelled = policy.levels, policy.plan.property.labelled
    found: list[ActionStretch] = []
    for t, (n_a, n_b) in _map_times(policy).items():
        states = np.stack(layer_states(t, labelled), axis=1)
        here = (states[:, 0] == n_a) & (states[:, 2] == n_b)
        levels = layer_levels(policy, t)[:, here].reshape(2, n_a + 1, n_b + 1).astype(int) - costs
        levels[:, ~walked.planes[t]] = NOWHERE
        for group, name in enumerate(policy.plan.inputs.groups):
            for first, row in enumerate(levels[group]):
                # A stretch begins where the level changes, and at the first place whatever stands there.
                starts = np.flatnonzero(np.diff(row, prepend=NOWHERE - 1))
                for low, after in zip(starts, [*starts[1:], len(row)], strict=True):
                    if row[low] != NOWHERE:
                        found.append(
                            ActionStretch(
                                time=t,
                                seen=(n_a, n_b),
                                group=name,
                                first=first,
                                second_low=int(low),
                                second_high=int(after) - 1,
                                action=_action_name(int(row[low]), costs),
                            )
                        )
    return tuple(found)


def _action_name(level: int, costs: int) -> Literal["follow", "accept", "reject", "accept if cheap", "reject if cheap"]:
    if level == 0:
        return "follow"
    if abs(level) == costs:
        return "accept" if level > 0 else "reject"
    return "accept if cheap" if level > 0 else "reject if cheap"
