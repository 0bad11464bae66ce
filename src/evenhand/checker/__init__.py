"""An independent check of certificate files: exact arithmetic, and no code shared with what wrote them."""

from evenhand.checker.check import check
from evenhand.checker.reading import CertificateError, Statement, read
from evenhand.checker.result import CertificateCheck, Unconfirmed

__all__ = ["CertificateCheck", "CertificateError", "Statement", "Unconfirmed", "check", "read"]
