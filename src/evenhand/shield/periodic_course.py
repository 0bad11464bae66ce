"""The counters of a shield that goes on from period to period."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.certificate import Certificate, worst_bias
from evenhand.shield.course import PROMPT, FiniteCourse, listed, no_state, whole
from evenhand.shield.period_bound import period_bound
from evenhand.shield.periodic import Period, Periodic, settled
from evenhand.shield.plan import Counters
from evenhand.shield.reach import ends, worst_of


class PeriodicCourse:
    """One period after the other. A period begins with its first decision, so that labels of the last one can come.

    Labels that come later than that are counted with their own period. A dynamic shield promises nothing while labels
    of earlier periods are open, and makes its plan for the period anew with each that comes.

    Attributes:
        period: which it is, from 0.
        past: seen and accepted of each group in all periods before.
        past_recommended: the same of the recommendations.
        past_open: open decisions of the periods before, by their codes.
        held: whether the assumption held in every period before.
        prompt: whether all labels of the periods before came before the next decision.

    Args:
        periodic: the shield.
    """

    def __init__(self, periodic: Periodic) -> None:
        self.periodic = periodic
        plan = periodic.plan
        self.groups = plan.inputs.groups
        self.costs = plan.inputs.costs
        self.labelled = plan.property.labelled
        self.horizon = plan.horizon
        self.period = 0
        self.past = self.past_recommended = plan.start
        self.past_open = [0] * 8
        self.held = self.prompt = True
        self._begin(self.past)

    def _begin(self, past: Counters) -> None:
        self._now: Period = self.periodic.begin(past)
        self._course = FiniteCourse(self._now.policy, self._now.end)
        self._whoever_comes: tuple[Counters, Fraction] | None = None

    def _bound(self) -> Fraction:
        """What the end of this period cannot exceed whoever comes; the same until the past changes."""
        if self._whoever_comes is None or self._whoever_comes[0] != self.past:
            found = period_bound(self._now, self.periodic.plan.property, self.past, self.horizon)
            self._whoever_comes = (self.past, found)
        return self._whoever_comes[1]

    @cached_property
    def digest(self) -> str:
        """Of the whole plan: a dynamic shield decides by who is expected, too."""
        said = json.dumps(asdict(self.periodic.plan), default=str, sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def step(self) -> int:
        """Decisions made in this period."""
        return self._course.step

    @property
    def guaranteed(self) -> bool:
        """Whether this period ends fair whatever comes, given that labels are prompt from here on."""
        return self._now.guaranteed and self._course.guaranteed and not any(self.past_open)

    def decide(self, group: int, recommendation: int, cost: float) -> int:
        """See `Course.decide`; the first decision of a period may have to wait for a new plan."""
        if self._course.step == self.horizon:
            self._turn()
        return 8 * self.period + self._course.decide(group, recommendation, cost)

    def _turn(self) -> None:
        course = self._course
        past, held = self._totals(), self._held_now()
        prompt = self.prompt and course.prompt and not any(course.open)
        recommended, open_ = (
            self._recommended(),
            [old + new for old, new in zip(self.past_open, course.open, strict=True)],
        )
        self._begin(past)
        self.past, self.past_recommended, self.past_open, self.held = past, recommended, open_, held
        self.period, self.prompt = self.period + 1, prompt

    def ahead(self, state: Mapping[str, Any] | None = None) -> Callable[[], None] | None:
        """What makes the plans that the next decision needs, from here or from a state; None if they are made.

        It may run in another thread, while nothing else is done with this course.
        """
        if self.periodic.plan.kind != "dynamic":
            return None
        if state is None:
            needed = [self._totals()] if self._course.step == self.horizon else []
        else:
            past, now = tuple(state["past"]), state["now"]
            needed = [past]
            if now["step"] == self.horizon:
                needed.append(tuple(old + new for old, new in zip(past, now["counters"], strict=True)))
        missing = [past for past in needed if not self.periodic.knows(past)]

        def make() -> None:
            for past in missing:
                self.periodic.begin(past)

        return make if missing else None

    def observe(self, code: int, label: int) -> None:
        """See `Course.observe`."""
        period, inner = divmod(code, 8)
        if period == self.period:
            self._course.observe(inner, label)
            return
        past, recommended = list(self.past), list(self.past_recommended)
        if label:
            group = inner >> 2
            past[2 * group] += 1
            past[2 * group + 1] += inner & 1
            recommended[2 * group] += 1
            recommended[2 * group + 1] += inner >> 1 & 1
            now = self.periodic.begin(tuple(past))
            self._course.replan(now.policy, now.end)
            self._now = now
        self.past, self.past_recommended = tuple(past), tuple(recommended)
        self.past_open[inner] -= 1

    def _totals(self) -> Counters:
        return tuple(old + new for old, new in zip(self.past, self._course.counters, strict=True))

    def _recommended(self) -> Counters:
        course = self._course
        new = (course.n_a, course.recommended_a, course.n_b, course.recommended_b)
        return tuple(old + more for old, more in zip(self.past_recommended, new, strict=True))

    def _held_now(self) -> bool:
        """Whether the assumption held in this period too, which is at its end, and in all before."""
        return self.held and bool(self._now.held(self._course.n_a, self._course.n_b))

    def _open(self, by: tuple[int, int]) -> tuple[int, int, int, int]:
        """Open decisions of all periods; ``by`` the two bits of the recommendation or the decision of a code."""
        open_ = [old + new for old, new in zip(self.past_open, self._course.open, strict=True)]
        counts = [0, 0, 0, 0]
        for code, count in enumerate(open_):
            counts[2 * (code >> 2) + (code >> by[0] & by[1])] += count
        return (counts[0], counts[1], counts[2], counts[3])

    def state(self) -> dict[str, Any]:
        """See `Course.state`."""
        return {
            "period": self.period,
            "past": list(self.past),
            "past_recommended": list(self.past_recommended),
            "past_open": list(self.past_open),
            "held": self.held,
            "prompt": self.prompt,
            "now": self._course.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `Course.restore`."""
        past = tuple(whole(listed(state, "past", 4)))
        recommended = tuple(whole(listed(state, "past_recommended", 4)))
        open_ = whole(listed(state, "past_open", 8))
        (period,) = whole([state.get("period")])
        possible = all(
            accepted <= seen
            for counters in (past, recommended)
            for seen, accepted in zip(counters[::2], counters[1::2], strict=True)
        )
        if not possible or recommended[::2] != past[::2] or {state.get("held"), state.get("prompt")} - {True, False}:
            raise no_state("its counters of the past contradict each other")
        now = self.periodic.begin(past)
        course = FiniteCourse(now.policy, now.end)
        course.restore(state.get("now", {}))
        self._now, self._course = now, course
        self.past, self.past_recommended, self.past_open, self.period = past, recommended, open_, period
        self.held, self.prompt = state["held"], state["prompt"]

    def certificate(self, *, exact: bool = False) -> Certificate:
        """See `Course.certificate`."""
        course, plan = self._course, self.periodic.plan
        kept = plan.property
        shielded = worst_bias(kept, self._totals(), self._open((0, 1)))
        unshielded = worst_bias(kept, self._recommended(), self._open((1, 1)))
        done = course.step == self.horizon
        held: bool | None = self._held_now() if done and not any(course.open) else self.held
        bound: Fraction | None
        attained = False
        if done:
            bound, attained, how = shielded, True, "counted over all decisions"
        elif self.guaranteed:
            bound, how = kept.kappa, "every end of this period is fair with all before it"
        elif any(self.past_open) or (course.sound and not course.guaranteed):
            bound, how = None, "labels came too late"
        else:
            bound, how = self._bound(), "whoever comes in this period"
        if exact and bound is not None and not done and (course.guaranteed or not self.labelled):
            outcomes: NDArray[np.int64] = course.outcomes()
            bound, _ = worst_of(kept, ends(course.policy, course.step, outcomes) + np.array(self.past))
            attained, how = True, "the largest over everything that can still come in this period"
        later, assumption = None, self.periodic.assumption or ""
        settles = self._totals() if done else self.past
        if settled(plan, settles) and not any(self._open((0, 1))):
            # With that many counted no later period can end otherwise.
            assumption, held = "", True
        if held and plan.kind != "greedy" and not any(self.past_open) and (course.prompt or plan.kind == "dynamic"):
            later = kept.kappa
        if self.labelled:
            assumption = f"{assumption}, and {PROMPT}" if assumption else PROMPT
            held = held and self.prompt and course.prompt
        return Certificate(
            keeps=kept.words(),
            kappa=kept.kappa,
            step=course.step,
            horizon=self.horizon,
            period=self.period,
            shielded=shielded,
            unshielded=unshielded,
            open_labels=sum(self.past_open) + sum(course.open),
            bound=bound,
            exact=attained,
            later=later,
            how=how,
            assumption=assumption,
            held=held if assumption else None,
        )
