"""Bound boxes with compiled kernels, a few hundred per call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.certification.bounds.compiled.expansion import run_order
from evenhand.certification.bounds.compiled.lanes import LANES
from evenhand.certification.bounds.compiled.problem import (
    BoundOrder,
    BoxArrays,
    CompiledProblem,
    _attribute_axes,
    compiled_problem_of,
    kernel_workspace,
    state_bytes,
)
from evenhand.certification.bounds.compiled.shares import AttributeAxes
from evenhand.certification.bounds.frontier import (
    MAX_SPLITS,
    BoxFrontier,
    frontier_of,
    pack_cells,
    root_frontier,
)
from evenhand.certification.bounds.linear import CALL_BOXES
from evenhand.certification.bounds.schedule import COARSE
from evenhand.certification.query.cells import Cells
from evenhand.certification.query.question import Query
from evenhand.core.interrupts import GRACE_SECONDS, is_interrupted
from evenhand.core.kernels import new_arrays
from evenhand.core.typing import Floats

OUTPUT_BOXES = 1 << 14
"""Maximum number of boxes that a kernel returns per call."""
STEP_BOXES = 64 * LANES
"""Number of boxes that are bounded or proved between two checks for interrupts."""


def compile_bounder(query: Query, jobs: int) -> CompiledBounder:
    """Build the bounder of a query, and compile its kernels."""
    bounder = CompiledBounder(compiled_problem_of(query), jobs)
    root = bounder.root()
    bounder.expand(root, 2.0, LANES)
    bounder.prove(root, COARSE)
    return bounder


class CompiledBounder:
    """Compiled bounder for one query. Results do not depend on the number of threads."""

    proofs_per_box = 1

    def __init__(self, problem: CompiledProblem, jobs: int) -> None:
        self.problem = problem
        self.jobs = jobs
        self.plain = False
        self._own = threading.local()

    def weigh(self, cells: Sequence[Cells]) -> AttributeAxes:
        """Compute the weights of cells that differ from those of the query only in their masses."""
        axes = self.problem.axes
        return _attribute_axes(cells, axes.start, axes.line, axes.reach)

    def reweighted(self, axes: AttributeAxes) -> CompiledBounder:
        """Build a bounder of the same query with these weights, which shares the work arrays."""
        other = CompiledBounder(self.problem._replace(axes=axes), self.jobs)
        other._own = self._own
        return other

    def beside(self, query: Query) -> CompiledBounder:
        """Build a bounder of another query, which shares the work arrays if they fit."""
        other = CompiledBounder(compiled_problem_of(query), self.jobs)
        if _array_shapes(other.problem) == _array_shapes(self.problem):
            other._own = self._own
        return other

    def _work(self) -> tuple[Any, ...]:
        """Return the work arrays of this thread, allocated on first use; the last two are a stack and an output."""
        if not hasattr(self._own, "work"):
            rooms = (_box_room(self.problem, boxes) for boxes in (CALL_BOXES + 4096, OUTPUT_BOXES))
            self._own.work = (*kernel_workspace(self.problem), *rooms)
        work: tuple[Any, ...] = self._own.work
        return work

    def root(self) -> BoxFrontier:
        """Build a box of the whole domain."""
        return root_frontier(self.problem.counts)

    def expand(
        self, boxes: BoxFrontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[BoxFrontier, Floats]:
        """Split boxes until each part's estimated undecided mass is at most the threshold, or ``limit`` are bounded.

        Returns:
            The parts that are not decided as a whole (with ``recording`` all of them); mass decided fair, mass
            decided unfair, and number of boxes bounded.
        """
        work, scratch, stack, out = self._work()
        size = len(boxes)
        stack.low[:size], stack.high[:size], stack.plan[:size] = boxes.lo[::-1], boxes.hi[::-1], boxes.plan[::-1]
        stack.state[:size] = 0
        totals = np.zeros(3)
        # The limit is a float: an integer would require a second compilation.
        record = boxes.cells.dtype
        parts: list[BoxFrontier] = []
        while size and totals[2] + LANES <= limit and not is_interrupted():
            order = BoundOrder(self.plain, threshold, float(min(limit, totals[2] + STEP_BOXES)), recording)
            size, count = run_order(self.problem, work, scratch, stack, size, order, out, totals)
            cells = pack_cells(out.low[:count], out.high[:count], record)
            part = frontier_of(cells, out.mass[:count].copy(), out.open[:count], plan=out.plan[:count].copy())
            part.kind[:] = out.kind[:count]
            parts.append(part)
        if size:
            low, high = stack.low[:size], stack.high[:size]
            mass = self.problem.mass(low, high)
            # These boxes are not bounded yet. Half of each is assumed to be open.
            parts.append(frontier_of(pack_cells(low, high, record), mass, 0.5 * mass, plan=stack.plan[:size].copy()))
        frontier = BoxFrontier.concatenate(parts) if parts else boxes[:0]
        frontier.region[:] = boxes.region[0]
        return frontier, totals

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        """Prove the fair and unfair shares of each box, shape (boxes, 2)."""
        work, scratch, stack, out = self._work()
        order, shares = BoundOrder(self.plain, precision=precision), np.zeros((len(boxes), 2))
        for at in range(0, len(boxes), STEP_BOXES):
            if is_interrupted(GRACE_SECONDS):
                break  # nothing is proved about the remaining boxes
            low, high = boxes.lo[at : at + STEP_BOXES], boxes.hi[at : at + STEP_BOXES]
            size = len(low)
            stack.low[:size], stack.high[:size] = low, high
            run_order(self.problem, work, scratch, stack, size, order, out, np.zeros(3))
            shares[at : at + size] = out.share[:size]
        return shares


def _box_room(problem: CompiledProblem, boxes: int) -> Any:
    """Allocate arrays for boxes."""
    return new_arrays(
        BoxArrays, boxes=boxes, attributes=len(problem.counts), states=state_bytes(problem), splits=MAX_SPLITS
    )


def _array_shapes(problem: CompiledProblem) -> list[tuple[int, ...]]:
    """List the shapes of all arrays of a problem, which determine its work arrays."""
    return [np.shape(array) for part in (problem.network, problem.roles, problem.axes) for array in part]
