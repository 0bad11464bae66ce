"""Linear bounds for all orbits of a population in one frontier, whose regions are the orbits.

Bounds do not depend on masses, so all latent classes share the boxes. Refinement uses the mixture of all classes of an
orbit. A decided box contributes its mass in every class, w_oz m_z(B), and other boxes are proved separately with the
masses of each class:

    certified >= sum_o sum_z w_oz sum_B m_z(B) s_z(B),    where s_z(B) is the share of B that is proved in class z.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenhand.certification.bounds.frontier import BoxFrontier
from evenhand.certification.query.orbits import OrbitQuestion
from evenhand.core.typing import Floats

if TYPE_CHECKING:
    from evenhand.certification.bounds.compiled.engine import CompiledBounder
    from evenhand.certification.bounds.compiled.shares import AttributeAxes

NEGLIGIBLE_CLASS = 0.05
"""Maximum share of the undecided mass of a box in a class that is not proved."""


class OrbitBounder:
    """Bounds and proofs for all orbits with open mass; a ``LinearBounder``.

    Args:
        question: Question about counterparts.
        jobs: Number of threads.
    """

    def __init__(self, question: OrbitQuestion, jobs: int) -> None:
        from evenhand.certification.bounds.compiled.engine import compile_bounder

        self._orbits = question.orbits
        self._bounders: dict[int, CompiledBounder] = {}
        self._axes: dict[int, AttributeAxes] = {}
        latest: CompiledBounder | None = None
        for number, orbit in enumerate(question.orbits):
            if not orbit.query.constant:
                latest = compile_bounder(orbit.query, jobs) if latest is None else latest.beside(orbit.query)
                self._bounders[number] = latest
        self.jobs = jobs
        self.proofs_per_box = max(len(orbit.classes) for orbit in question.orbits)
        self.plain = False

    def root(self) -> BoxFrontier:
        """Build a box of the domain of each open orbit."""
        roots = []
        for number, bounder in self._bounders.items():
            root = bounder.root()
            mass = self._orbits[number].masses.of(root.lo, root.hi).sum(axis=1)
            region = np.full(1, number + 1, dtype=np.int16)
            roots.append(replace(root, mass=mass, open=mass.astype(np.float32), region=region))
        return BoxFrontier.concatenate(roots)

    def expand(
        self, boxes: BoxFrontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[BoxFrontier, Floats]:
        """Split boxes of one orbit by the mixture of its classes. Masses are shares of all people."""
        number = int(boxes.region[0]) - 1
        # Decided parts are returned too, because the kernels count them by the mixed marginals, not by class.
        parts, totals = self._bounders[number].expand(
            boxes, threshold / self._orbits[number].mass, limit, recording=True
        )
        mass = self._orbits[number].masses.of(parts.lo, parts.hi).sum(axis=1)
        share = np.divide(parts.open, parts.mass, out=np.zeros(len(parts)), where=parts.mass > 0)
        region = np.full(len(parts), number + 1, dtype=np.int16)
        parts = replace(parts, mass=mass, open=(mass * np.minimum(share, 1.0)).astype(np.float32), region=region)
        totals[:2] = [mass[parts.kind == kind].sum() for kind in (1, 2)]
        return parts[(mass > 0) if recording else (mass > 0) & (parts.kind == 0)], totals

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        """Prove the fair and unfair shares of each box, shape (boxes, 2)."""
        shares = np.zeros((len(boxes), 2))
        for region in np.unique(boxes.region):
            rows = np.flatnonzero(boxes.region == region)
            shares[rows] = self._prove_orbit(int(region) - 1, boxes[rows], precision)
        return shares

    def _prove_orbit(self, number: int, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        """Prove boxes of one orbit: mean of the classes' shares, weighted by their masses."""
        masses = self._orbits[number].masses.of(boxes.lo, boxes.hi)
        total = masses.sum(axis=1)
        proved = np.zeros((len(boxes), 2))
        bounder = self._bounders[number]
        for z, (name, query) in enumerate(zip(self._orbits[number].numbers, self._orbits[number].classes, strict=True)):
            rows = np.flatnonzero(masses[:, z] > NEGLIGIBLE_CLASS * np.minimum(boxes.open, total))
            if len(rows):
                if name not in self._axes:
                    self._axes[name] = bounder.weigh(query.cells)
                of_class = bounder.reweighted(self._axes[name])
                proved[rows] += masses[rows, z, None] * of_class.prove(boxes[rows], precision)
        return np.asarray(proved / np.where(total > 0, total, 1.0)[:, None])
