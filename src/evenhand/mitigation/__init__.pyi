from .alternatives.analysis import find_alternatives
from .alternatives.result import AlternativesResult
from .analysis import mitigate
from .comparison import compare_candidates
from .config import AlternativesConfig, MitigationConfig, RefutationConfig
from .findings import Findings
from .refutation.analysis import refute_alternatives
from .refutation.result import RefutationResult
from .result import CandidateResult, MitigationResult
from .training.fair_classifier import FairClassifier

__all__ = [
    "AlternativesConfig",
    "AlternativesResult",
    "CandidateResult",
    "FairClassifier",
    "Findings",
    "MitigationConfig",
    "MitigationResult",
    "RefutationConfig",
    "RefutationResult",
    "compare_candidates",
    "find_alternatives",
    "mitigate",
    "refute_alternatives",
]
