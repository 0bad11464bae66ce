"""Errors of Evenhand.

EvenhandError                  base class (exit code 2 of the command line)
├── SchemaError (ValueError)       invalid schema
├── DataError (ValueError)         data that do not fit the schema, or an unreadable file
├── ModelError (ValueError)        unreadable model, or invalid predictions
│   └── NotAdditiveError           model that is not a white box
├── OptionError (ValueError)       invalid option, argument or expression
├── DecisionError (ValueError)     invalid decision, label or state of a shield
├── AccessError (PermissionError)  request denied by the service
├── DossierError (ValueError)      data or configuration that does not permit a dossier
├── TrustError (PermissionError)   file that can execute code, without permission
├── MissingExtraError (ImportError) optional dependency that is not installed
├── StoreError (OSError)           store of the service that cannot be read or written
├── FetchError (OSError)           failed network request
└── LimitError (RuntimeError)      limit reached before there was any result (exit code 3)
    └── BudgetError                exhausted query budget
"""

from __future__ import annotations


class EvenhandError(Exception):
    """Base class of all errors of Evenhand.

    Messages name parameters, such as `` `time_limit=SECONDS` ``. The command line replaces them with its options.

    Args:
        message: Description of the error, with the invalid names and values.
        location: File, column, row or option that caused the error.
        hint: Instruction for the user.
    """

    exit_code = 2

    def __init__(self, message: str, *, location: str | None = None, hint: str | None = None) -> None:
        self.message = message
        self.location = location
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        text = f"{self.location}: {self.message}" if self.location else self.message
        return f"{text}\n  -> {self.hint}" if self.hint else text


class _CodedError(EvenhandError):
    def __init__(self, message: str, *, code: str, location: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, location=location, hint=hint)
        self.code = code


class SchemaError(EvenhandError, ValueError):
    """Raised when a schema is invalid."""


class DataError(EvenhandError, ValueError):
    """Raised when data do not fit the schema, or a file cannot be read."""


class ModelError(EvenhandError, ValueError):
    """Raised when a model cannot be read, or its predictions are invalid."""


class NotAdditiveError(ModelError):
    """Raised when a model is not a white box, but can be queried."""


class OptionError(EvenhandError, ValueError):
    """Raised when an option, an argument or an expression is invalid."""


class DecisionError(_CodedError, ValueError):
    """Raised when a shield rejects a decision, a label or a state. The state of the shield does not change.

    Args:
        code: Error code: ``group``, ``recommendation``, ``cost``, ``id``, ``repeated``, ``unknown-id``,
            ``label``, ``contradiction``, ``horizon`` or ``state``.
    """


class DossierError(_CodedError, ValueError):
    """Raised when data or a configuration does not permit a dossier.

    Args:
        code: Error code, such as ``unlisted-category`` or ``not-below-2-percent``.
        place: Structured location: ``column``, ``value``, ``row`` (the first person is row 1), ``category``.
    """

    def __init__(
        self, message: str, *, code: str, location: str | None = None, hint: str | None = None, **place: object
    ) -> None:
        super().__init__(message, code=code, location=location, hint=hint)
        self.place = place


class AccessError(_CodedError, PermissionError):
    """Raised when the service denies a request.

    Args:
        code: Error code: ``key``, ``scope``, ``origin``, ``rate``, ``busy``, ``size``, ``slow`` or ``late``.

    Attributes:
        retry_after: Seconds to wait before a retry of a request over a limit.
    """

    retry_after: float = 1.0


class TrustError(EvenhandError, PermissionError):
    """Raised when loading a file can execute code and the user has not allowed it."""


class FetchError(EvenhandError, OSError):
    """Raised when a network request fails.

    Attributes:
        sent: Whether the request was sent. False if no connection was established.
        timed_out: Whether the response was not complete within the time limit.
        status: HTTP status of the response. None without a response.
        body: First bytes of the error response.
        code: Error code in the response, such as ``context_length_exceeded``. Empty if there is none.
        reason: Error message in the response, without secrets. Empty if there is none.
        retry_after: Seconds to wait before a retry. None if a retry is not useful.
    """

    sent: bool = True
    timed_out: bool = False
    status: int | None = None
    body: bytes = b""
    code: str = ""
    reason: str = ""
    retry_after: float | None = None


class StoreError(EvenhandError, OSError):
    """Raised when the store of the service cannot be read or written."""


class LimitError(EvenhandError, RuntimeError):
    """Raised when a limit is reached before there is any result."""

    exit_code = 3


class BudgetError(LimitError):
    """Raised when the budget is not sufficient for the next query."""


class MissingExtraError(EvenhandError, ImportError):
    """Raised when an optional dependency is not installed.

    Args:
        module: Missing module, such as ``"onnxruntime"``.
        extra: Extra that installs it, such as ``"onnx"``.
        purpose: Purpose of the module, such as ``"to run an ONNX model"``.
    """

    def __init__(self, module: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{module} is required {purpose}, but it is not installed",
            hint=f"in the checkout of Evenhand: pip install '.[{extra}]'",
        )


class GuessedEncodingWarning(UserWarning):
    """Issued when the encoding of a text table was guessed."""


class KernelCacheWarning(UserWarning):
    """Issued when compiled kernels cannot be cached on disk."""


class TableWarning(UserWarning):
    """Issued when rows above the header were skipped, or a mixed-type column was converted."""
