"""Every error Evenhand raises on purpose.

EvenhandError                 root: what went wrong, where, and how to go on (exit code 2 on the command line)
├── SchemaError (ValueError)       the description of an individual is wrong or incomplete
├── DataError (ValueError)         the people do not fit the schema, or a file of them cannot be read
├── ModelError (ValueError)        a model cannot be read, or does not answer as a model must
│   └── NotAdditiveError           the model works as a black box but cannot become an additive network
├── OptionError (ValueError)       an option or expression given by the user makes no sense
├── DecisionError (ValueError)     a decision, a label or a state that a running shield cannot take
├── AccessError (PermissionError)  a caller of the service may not do this, or not now
├── DossierError (ValueError)      people, outcomes or a configuration of which no dossier can be made
├── TrustError (PermissionError)   loading the file could run code, and that was not allowed
├── MissingExtraError (ImportError) an optional part is not installed
├── StoreError (OSError)           where the service keeps its state cannot be read or written
├── FetchError (OSError)           a request over the network failed
└── LimitError (RuntimeError)      a limit stopped the work before there was any result (exit code 3)
    └── BudgetError                the model may be asked no more
"""

from __future__ import annotations

from enum import Enum


class EvenhandError(Exception):
    """Say what went wrong, where, and how to go on.

    What the reader may set is named by its parameter, `` `time_limit=SECONDS` `` for every caller; the command line
    writes the option in its place when it prints the error.

    Args:
        message: one sentence with the names and values at fault.
        location: the file, column, row or option it was found in.
        hint: what the reader can do about it.
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
    """The description of an individual is wrong or incomplete."""


class DataError(EvenhandError, ValueError):
    """The people do not fit the schema, or a file of them cannot be read."""


class ModelError(EvenhandError, ValueError):
    """A model cannot be read, or does not answer as a model must."""


class NotAdditiveError(ModelError):
    """The model answers questions, but cannot be written as an additive network."""


class OptionError(EvenhandError, ValueError):
    """An option or expression given by the user makes no sense."""


class DecisionError(_CodedError, ValueError):
    """A decision, a label or a state that a running shield cannot take; its state is unchanged.

    Args:
        code: one word for programs: ``group``, ``recommendation``, ``cost``, ``id``, ``repeated``, ``unknown-id``,
            ``label``, ``contradiction``, ``horizon`` or ``state``.
    """


class DossierError(_CodedError, ValueError):
    """People, outcomes or a configuration of which no dossier can be made.

    Args:
        code: one word for programs, such as ``unlisted-category`` or ``not-below-2-percent``.
        place: where it is, for programs: ``column``, ``value``, ``row`` (the first person is row 1), ``category``.
    """

    def __init__(
        self, message: str, *, code: str, location: str | None = None, hint: str | None = None, **place: object
    ) -> None:
        super().__init__(message, code=code, location=location, hint=hint)
        self.place = place


class AccessError(_CodedError, PermissionError):
    """A caller of the service may not do this, or not now.

    Args:
        code: one word for programs: ``key``, ``scope``, ``origin``, ``rate``, ``busy``, ``size``, ``slow``.
    """


class TrustError(EvenhandError, PermissionError):
    """Loading this file could run code, and that was not allowed."""


class FetchFailure(Enum):
    """Reason for a `FetchError`."""

    UNREACHABLE = "unreachable"
    """No connection was made, so the request was not sent."""
    BROKEN = "broken"
    """The connection broke before the response was complete."""
    TIMEOUT = "timeout"
    """The response was not complete in time."""
    STATUS = "status"
    """The server responded with an error status."""
    OTHER = "other"
    """Any other reason."""


class FetchError(EvenhandError, OSError):
    """A request over the network failed.

    Attributes:
        failure: Reason of the failure.
        status: Status of the response. None without a response.
        body: First bytes of the error response.
        code: Error code in the response, such as ``context_length_exceeded``. Empty if there is none.
        reason: Error message in the response, without secrets. Empty if there is none.
        retry_after: Seconds after which a retry makes sense. None if it does not.
    """

    failure: FetchFailure = FetchFailure.OTHER
    status: int | None = None
    body: bytes = b""
    code: str = ""
    reason: str = ""
    retry_after: float | None = None

    @property
    def sent(self) -> bool:
        """Whether the request was sent."""
        return self.failure is not FetchFailure.UNREACHABLE


class StoreError(EvenhandError, OSError):
    """Where the service keeps its state and its log cannot be read or written."""


class LimitError(EvenhandError, RuntimeError):
    """A limit stopped the work before there was any result."""

    exit_code = 3


class BudgetError(LimitError):
    """The budget does not pay for what would have to be asked next."""


class MissingExtraError(EvenhandError, ImportError):
    """An optional part of Evenhand is needed and not installed.

    Args:
        module: the import that failed, e.g. ``"onnxruntime"``.
        extra: the extra that brings it, e.g. ``"onnx"``.
        purpose: what it is needed for, e.g. ``"to run an ONNX model"``.
    """

    def __init__(self, module: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{module} is needed {purpose}, and it is not installed",
            hint=f"in the checkout of Evenhand: pip install '.[{extra}]'",
        )


class GuessedEncodingWarning(UserWarning):
    """A text table is read in an encoding that was guessed."""


class TableWarning(UserWarning):
    """A table is read with a change: rows above the header are left out, or a column of several types is converted."""
