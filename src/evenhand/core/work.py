"""The clock of an analysis: whatever depends on time goes through it, is recorded, and can be repeated exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from evenhand.core.config import Config
from evenhand.core.configuration import first_fault
from evenhand.errors import DataError, LimitError, OptionError
from evenhand.interrupts import RUNNING_SECONDS


class Work(BaseModel):
    """What a run did where a clock decided; together with model, data and settings it repeats the run.

    Attributes:
        settings: of the analysis; a repetition must have the same.
        threads: how many worked side by side, where a clock had a say and so it matters.
        readings: seconds since the run began, wherever its course depended on how many had passed.
        checks: how often in a row a limit of time was not reached, then how often it was, then not again, and so on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: dict[str, Any]
    threads: int | None = None
    readings: tuple[float, ...] = ()
    checks: tuple[int, ...] = ()

    @property
    def repeatable(self) -> bool:
        """Whether the same command gives the same result again: no clock had a say."""
        return not self.readings and len(self.checks) <= 1


@dataclass
class _Record:
    """What a clock said so far, and what it said in the run that is repeated."""

    repeated: Work | None
    settings: dict[str, Any] | None = None
    threads: int | None = None
    readings: list[float] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)
    latest: bool = False

    def __post_init__(self) -> None:
        self.old_readings = iter(self.repeated.readings if self.repeated else ())
        self.old_checks = _expand_checks(self.repeated.checks if self.repeated else ())


class WorkClock:
    """The clock of an analysis and of all that it consists of: it records what it said, or says it once more.

    Everything else about an analysis follows from its settings and its seed, so that the same answers of the clock make
    the same result. It is asked by one thread at a time.

    Args:
        work: what an earlier run recorded, ``result.work``; None: look at the clock.
        seconds: clock to read. Default: ``RUNNING_SECONDS``. ``time.process_time`` limits processor time.
    """

    def __init__(self, work: Work | None = None, *, seconds: Callable[[], float] | None = None) -> None:
        self._record = _Record(work)
        self._seconds = RUNNING_SECONDS if seconds is None else seconds
        self._began = self._seconds()
        self._outermost = False

    @classmethod
    def start(cls, clock: WorkClock | None, config: Config) -> WorkClock:
        """Return the clock of an analysis that begins now.

        Args:
            clock: of the analysis that this one is part of, or one with work to be repeated; None: a new one.
            config: the settings of this analysis; those of the outermost are recorded.

        Raises:
            OptionError: the work to be repeated had other settings.
        """
        timer = (clock or cls()).from_now()
        record = timer._record
        timer._outermost = record.settings is None
        if record.settings is None:
            record.settings = config.model_dump(mode="json", exclude={"jobs"}, fallback=_describe_setting)
            before = {} if record.repeated is None else record.repeated.settings
            for name in sorted({*before, *record.settings}) if record.repeated is not None else ():
                if before.get(name) != record.settings.get(name):
                    raise OptionError(
                        f"the recorded work had {name} {before.get(name)!r}, not {record.settings.get(name)!r}",
                        location="`work=`",
                        hint="repeat the command with the options that it had",
                    )
        return timer

    def from_now(self) -> WorkClock:
        """Return the same clock with the count of seconds begun again."""
        timer = WorkClock.__new__(WorkClock)
        timer._record, timer._outermost = self._record, self._outermost
        timer._seconds, timer._began = self._seconds, self._seconds()
        return timer

    def threads(self, number: int) -> int:
        """Return how many threads to use: the same as before if work is repeated."""
        record = self._record
        record.threads = number if record.repeated is None else record.repeated.threads or number
        return record.threads

    def now(self) -> float:
        """Return the seconds since the clock's beginning, where the course of the run will depend on them."""
        record = self._record
        reading = self._elapsed_seconds() if record.repeated is None else next(record.old_readings, None)
        if reading is None:
            raise _work_ends_error()
        record.readings.append(reading)
        return reading

    def passed(self, moment: float | None, ahead: float = 0.0) -> bool:
        """Return whether a moment, by ``now``, has passed, or will have in so many seconds; None never passes."""
        return moment is not None and self.decide(lambda: self._elapsed_seconds() + ahead >= moment)

    def limit(self, seconds: float | None) -> TimeLimit:
        """Return the limit that is reached in so many seconds; None is never reached."""
        return TimeLimit(self, None if seconds is None else self._elapsed_seconds() + seconds)

    def decide(self, reached: Callable[[], bool]) -> bool:
        """Return whether a limit of time is reached, by looking or as it was before."""
        record = self._record
        found = reached() if record.repeated is None else next(record.old_checks, None)
        if found is None:
            raise _work_ends_error()
        if not record.checks:
            record.checks.append(0)  # counts begin with limits that were not reached
        if found != record.latest:
            record.checks.append(0)
        record.checks[-1] += 1
        record.latest = found
        return found

    def work(self) -> Work | None:
        """Return what the run did by the clock; None for an analysis that is part of another one."""
        record = self._record
        if not self._outermost:
            return None
        found = Work(settings=record.settings or {}, readings=tuple(record.readings), checks=tuple(record.checks))
        # Where no clock had a say, the number of threads has none either.
        return found if found.repeatable else found.model_copy(update={"threads": record.threads})

    def _elapsed_seconds(self) -> float:
        return round(self._seconds() - self._began, 6)


@dataclass(frozen=True)
class TimeLimit:
    """A moment by the clock of an analysis at which it has to end.

    Attributes:
        clock: Clock of the analysis, which records whether the moment has passed.
        moment: Time in seconds of ``clock``. None never passes.
    """

    clock: WorkClock
    moment: float | None

    def passed(self) -> bool:
        """Return whether the moment has passed."""
        return self.clock.passed(self.moment)

    def left(self, part: float = 1.0, least: float = 0.0) -> float | None:
        """Return a part of the seconds left, at least ``least``; None without a limit."""
        return None if self.moment is None else max(least, part * (self.moment - self.clock.now()))

    def share(self, part: float) -> TimeLimit:
        """Return the limit of a part that begins now and gets this share of what is left."""
        if self.moment is None:
            return self
        now = self.clock._elapsed_seconds()
        return TimeLimit(self.clock, now + max(0.0, self.moment - now) * part)

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Let ``check_time`` in this thread raise an error when the moment has passed.

        Preparations use it that are of no use unless they are complete, such as reading a model from the inside.
        """
        token = _enforced.set(self)
        try:
            yield
        finally:
            _enforced.reset(token)


def check_time() -> None:
    """Raise an error if the limit that is enforced in this thread has passed; loops of preparations call it.

    Raises:
        LimitError: The limit has passed.
    """
    limit = _enforced.get()
    if limit is not None and limit.passed():
        raise LimitError("the time limit was reached", hint="raise it: `time_limit=SECONDS`")


_enforced: ContextVar[TimeLimit | None] = ContextVar("enforced time limit", default=None)


def read_work(path: Path) -> Work:
    """Return the work that a result in a JSON file records.

    Raises:
        DataError: there is no such file, or it is not a result that records its work.
    """
    import json

    try:
        found = json.loads(path.read_text())
        return Work.model_validate(found["work"])
    except OSError as error:
        raise DataError(f"it cannot be read: {error.strerror}", location=str(path)) from None
    except ValidationError as error:
        raise DataError(f"its work is damaged: {first_fault(error).message}", location=str(path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            "expected a result that records its work",
            location=str(path),
            hint="give the JSON of an earlier run of the same command",
        ) from None


def _expand_checks(counts: tuple[int, ...]) -> Iterator[bool]:
    for number, count in enumerate(counts):
        yield from repeat(number % 2 == 1, count)


def _work_ends_error() -> DataError:
    return DataError(
        "the recorded work ends before this run does",
        location="`work=`",
        hint="repeat it with the same model, data and version; what was interrupted cannot be repeated",
    )


def _describe_setting(value: Any) -> Any:
    """Return a setting that is not JSON, such as an array of people, in a form that tells it from others."""
    import hashlib

    content = value.tobytes() if hasattr(value, "tobytes") else repr(value).encode()
    return hashlib.sha256(content).hexdigest()


NEVER = TimeLimit(WorkClock(), None)
"""No limit of time."""
