"""Certification: for which share of everybody a network provably decides the same, whatever is protected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.certification.analysis import certify, warm_up
    from evenhand.certification.bounds.relu import ReluRelaxation, relax_constant, relax_relu, relax_weights
    from evenhand.certification.bounds.scores import needs_kernels
    from evenhand.certification.certificate.result import (
        AttributeSlice,
        Certificate,
        Counterexample,
        Estimate,
        OutcomeShare,
        ProgressPoint,
        Subregion,
        estimated_share,
        outcome_blocks,
        proof_answers,
        proof_blocks,
    )
    from evenhand.certification.config import COMPILE_SHARE, CertifyConfig
    from evenhand.certification.proof_run import is_compiled

__all__ = [
    "COMPILE_SHARE",
    "AttributeSlice",
    "Certificate",
    "CertifyConfig",
    "Counterexample",
    "Estimate",
    "OutcomeShare",
    "ProgressPoint",
    "ReluRelaxation",
    "Subregion",
    "certify",
    "estimated_share",
    "is_compiled",
    "needs_kernels",
    "outcome_blocks",
    "proof_answers",
    "proof_blocks",
    "relax_constant",
    "relax_relu",
    "relax_weights",
    "warm_up",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
