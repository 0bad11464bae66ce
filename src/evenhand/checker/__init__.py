"""An independent check of certificate files: exact arithmetic, and no code shared with what wrote them."""

from evenhand.checker.check import check_certificate
from evenhand.checker.question import AskedQuestion
from evenhand.checker.reading import CertificateClaim, CertificateError, ClaimedPartition, read_certificate
from evenhand.checker.refutation import RefutationCheck, check_refutation, is_refutation
from evenhand.checker.result import CertificateCheck, CheckedOutcome, UnconfirmedBox

__all__ = [
    "AskedQuestion",
    "CertificateCheck",
    "CertificateClaim",
    "CertificateError",
    "CheckedOutcome",
    "ClaimedPartition",
    "RefutationCheck",
    "UnconfirmedBox",
    "check_certificate",
    "check_refutation",
    "is_refutation",
    "read_certificate",
]
