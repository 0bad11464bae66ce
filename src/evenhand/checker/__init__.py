"""An independent check of certificate files: exact arithmetic, and no code shared with what wrote them."""

from evenhand.checker.check import check_certificate
from evenhand.checker.question import AskedQuestion
from evenhand.checker.reading import CertificateClaim, CertificateError, ClaimedPartition, read_certificate
from evenhand.checker.result import CertificateCheck, CheckedOutcome, UnconfirmedBox

__all__ = [
    "AskedQuestion",
    "CertificateCheck",
    "CertificateClaim",
    "CertificateError",
    "CheckedOutcome",
    "ClaimedPartition",
    "UnconfirmedBox",
    "check_certificate",
    "read_certificate",
]
