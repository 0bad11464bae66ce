"""An independent check of certificate files: exact arithmetic, and no code shared with what wrote them."""

from evenhand.checker.check import check_certificate
from evenhand.checker.reading import CertificateClaim, CertificateError, read_certificate
from evenhand.checker.result import CertificateCheck, UnconfirmedBox

__all__ = [
    "CertificateCheck",
    "CertificateClaim",
    "CertificateError",
    "UnconfirmedBox",
    "check_certificate",
    "read_certificate",
]
