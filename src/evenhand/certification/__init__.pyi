from .analysis import certify
from .certificate.result import AttributeSlice, Certificate, Counterexample, ProgressPoint, Subregion
from .config import CertifyConfig

__all__ = [
    "AttributeSlice",
    "Certificate",
    "CertifyConfig",
    "Counterexample",
    "ProgressPoint",
    "Subregion",
    "certify",
]
