"""The service's file: where it keeps its state, which shields and generators it serves, and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evenhand.errors import OptionError
from evenhand.schema.configuration import read_configuration

Down: TypeAlias = Literal["refuse", "pass"]
"""What a route does when it cannot guard: refuse, or pass and say so."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceEntry(_Part):
    """Where it listens, and where it keeps its state.

    Attributes:
        host, port: to listen on.
        database: where the state is: ``sqlite:///evenhand.db``, or ``postgresql+psycopg://user@host/name``.
        keys: whether callers need a key; without keys only the own machine is listened to.
        log_requests: whether its log has a line for every request; else for those that failed alone.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    database: str = "sqlite:///evenhand.db"
    keys: bool = True
    log_requests: bool = False

    @model_validator(mode="after")
    def _closed(self) -> ServiceEntry:
        if not self.keys and not is_loopback(self.host):
            raise ValueError(
                f"whoever reaches {self.host} could do everything: a service without keys listens to its own machine"
                ' alone; set keys = true, or host = "127.0.0.1"'
            )
        return self

    @property
    def place(self) -> str:
        """Where the state is, for people: a password in it is not shown."""
        return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", self.database)


class Limits(_Part):
    """What one caller may ask for.

    Attributes:
        body_bytes: of a request.
        body_seconds: within which it must have come.
        requests_per_second: on average; None: as many as they like.
        in_flight: requests that are answered at the same time.
        request_seconds: within which an answer must have been given.
        upstream_seconds: within which a generator must have answered.
    """

    body_bytes: Annotated[int, Field(ge=1)] = 10_000_000
    body_seconds: Annotated[float, Field(gt=0)] = 30.0
    requests_per_second: Annotated[float, Field(gt=0)] | None = None
    in_flight: Annotated[int, Field(ge=1)] = 64
    request_seconds: Annotated[float, Field(gt=0)] = 600.0
    upstream_seconds: Annotated[float, Field(gt=0)] = 120.0


class Retention(_Part):
    """How long what is no part of the state is kept, in days; None: for ever."""

    log_days: Annotated[float, Field(gt=0)] | None = None
    picture_days: Annotated[float, Field(gt=0)] | None = 30.0


class ShieldEntry(_Part):
    """A shield: a policy file, or the plan of one that is made at the start."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
    policy: str | None = None
    plan: dict[str, Any] | None = None
    advisory: bool = False
    when_down: Down = "refuse"


class GuardEntry(_Part):
    """A guarded generator.

    Attributes:
        name: of the guard, and of its stream in the store.
        config: its configuration of conditions, deadlines, generator, classifier and judge, or the file of it.
        models: the names under which clients ask for it; by default its own.
        pass_on: entries of requests that its generator gets besides those of OpenAI's interface.
        trust: whether functions that the configuration names, and code in models, may be run.
        at_once: requests that are answered at the same time.
        waiting: requests that may wait for one of these; further ones are refused with status 429.
        guardrail_seconds: how long the second call of a guardrail is waited for.
        log_prompts: whether the log keeps prompts; else their hashes.
        keep_pictures: whether what was delivered is kept for the dashboard.
        when_down: what happens if the store cannot be used.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
    config: str | dict[str, Any]
    models: tuple[str, ...] = ()
    pass_on: tuple[str, ...] = ()
    trust: bool = False
    at_once: Annotated[int, Field(ge=1)] = 16
    waiting: Annotated[int, Field(ge=0)] = 64
    guardrail_seconds: Annotated[float, Field(gt=0)] = 300.0
    log_prompts: bool = False
    keep_pictures: bool = True
    when_down: Down = "refuse"


class Settings(_Part):
    """The whole file.

    Attributes:
        service, limits, retention, shields, guards: its parts.
        folder: that relative paths in it start from.
    """

    service: ServiceEntry = ServiceEntry()
    limits: Limits = Limits()
    retention: Retention = Retention()
    shields: tuple[ShieldEntry, ...] = ()
    guards: tuple[GuardEntry, ...] = ()
    folder: Path = Path()

    def listening(self, host: str | None, port: int | None) -> Settings:
        """The same, at another address; None: at the one that is here.

        Raises:
            OptionError: everybody could reach a service there that wants no keys.
        """
        given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
        try:
            service = ServiceEntry.model_validate({**self.service.model_dump(), **given})
        except ValidationError as error:
            raise _fault(error, "--host") from None
        return self.model_copy(update={"service": service})

    @classmethod
    def read(cls, source: Mapping[str, Any] | str | Path) -> Settings:
        """The settings that a TOML file or a mapping describes.

        Raises:
            OptionError: the file cannot be read, or an entry is missing, unknown or makes no sense.
        """
        if isinstance(source, Mapping):
            described, folder, place = source, Path(), None
        else:
            path = Path(source)
            described = read_configuration(path, example="evenhand.toml", entries="service, shields, guards")
            folder, place = path.absolute().parent, str(path)
        try:
            read = cls.model_validate({**described, "folder": folder})
        except ValidationError as error:
            raise _fault(error, place) from None
        # Whatever folder it is started from: another one must not begin with an empty store.
        service = read.service.model_copy(update={"database": rooted(read.service.database, folder)})
        return read.model_copy(update={"service": service})


def rooted(database: str, folder: Path) -> str:
    """The URL of a database; a relative file of SQLite starts from the folder."""
    begin = "sqlite:///"
    file = database.removeprefix(begin)
    if not database.startswith(begin) or not file or file.startswith((":", "file:")):
        return database
    return f"{begin}{folder / file}"


def is_loopback(host: str) -> bool:
    """Whether only the machine itself can reach what listens there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _fault(error: ValidationError, place: str | None) -> OptionError:
    fault = error.errors()[0]
    entry = ".".join(map(str, fault["loc"]))
    return OptionError(fault["msg"].removeprefix("Value error, "), where=", ".join(filter(None, (place, entry))))
