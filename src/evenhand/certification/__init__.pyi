from .analysis import certify, warm_up
from .certificate.result import AttributeSlice, Certificate, Counterexample, OutcomeShare, ProgressPoint, Subregion
from .config import CertifyConfig

__all__ = [
    "AttributeSlice",
    "Certificate",
    "CertifyConfig",
    "Counterexample",
    "OutcomeShare",
    "ProgressPoint",
    "Subregion",
    "certify",
    "warm_up",
]
