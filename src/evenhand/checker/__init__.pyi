from .check import check_certificate
from .reading import CertificateError, read_certificate
from .refutation import RefutationCheck, check_refutation
from .result import CertificateCheck, UnconfirmedBox

__all__ = [
    "CertificateCheck",
    "CertificateError",
    "RefutationCheck",
    "UnconfirmedBox",
    "check_certificate",
    "check_refutation",
    "read_certificate",
]
