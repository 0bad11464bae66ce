from .check import check_certificate
from .question import AskedQuestion
from .reading import CertificateError, read_certificate
from .refutation import RefutationCheck, check_refutation
from .result import CertificateCheck, UnconfirmedBox

__all__ = [
    "AskedQuestion",
    "CertificateCheck",
    "CertificateError",
    "RefutationCheck",
    "UnconfirmedBox",
    "check_certificate",
    "check_refutation",
    "read_certificate",
]
