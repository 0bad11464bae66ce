"""The service's file: where it keeps its state, which shields and generators it serves, and its limits.

The smallest one, in TOML::

    [[shields]]
    name = "loans"
    policy = "loans.shield"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError, model_validator

from evenhand.errors import OptionError
from evenhand.genai.reading import fault_of
from evenhand.schema.configuration import read_configuration

Down: TypeAlias = Literal["refuse", "pass"]
"""What a route does when it cannot guard: refuse, or pass and say so."""


SQLITE = "sqlite:///"
POSTGRES = "postgresql+psycopg://"


def _name(given: object) -> object:
    if isinstance(given, str) and not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", given):
        raise ValueError(f"{given!r} cannot be part of an address")
    return given


def _file_or_table(given: object) -> object:
    if not isinstance(given, str | Mapping):
        raise ValueError(f"{given!r} is neither a file nor a table")
    return given


def _database(given: object) -> object:
    """A store that lasts; PostgreSQL is reached by psycopg, which need not be said."""
    if not isinstance(given, str):
        return given
    if given.startswith(("postgresql://", "postgres://")):
        return POSTGRES + given.partition("://")[2]
    if given.startswith("sqlite:") and (not given.startswith(SQLITE) or given.removeprefix(SQLITE) in ("", ":memory:")):
        raise ValueError("a store in memory would forget what was decided")
    if not given.startswith((SQLITE, POSTGRES)):
        raise ValueError("this is no address of a store that can be used")
    return given


Name: TypeAlias = Annotated[str, BeforeValidator(_name)]
"""Of a shield or a generator: letters, digits, ``.``, ``_`` and ``-``."""

MENDS = {
    "host": 'write an address of this machine, such as host = "127.0.0.1", or "0.0.0.0" for all of them',
    "port": "write a number from 0 to 65535; 0 takes any that is free",
    "database": 'write database = "sqlite:///evenhand.db" or "postgresql://user@host/name"',
    "keys": "write true or false",
    "name": 'letters, digits, ".", "_" and "-", at most 100 of them, such as name = "loans"',
    "policy": 'name a file that `evenhand shield synthesize` made, such as policy = "loans.shield"',
    "plan": "write what the shield keeps, as in the configuration of a shield",
    "config": 'name a configuration, such as config = "genai.yaml"',
    "when_down": "refuse or pass",
    "models": 'write a list of names, such as models = ["studio"]',
    "advisory": "write true or false",
    "shields": 'write [[shields]], then name = "loans" and policy = "loans.shield"',
    "guards": 'write [[guards]], then name = "studio" and config = "genai.yaml"',
}
"""How to mend an entry, by its name."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ServiceEntry(_Part):
    """Where it listens, and where it keeps its state.

    Attributes:
        host, port: to listen on.
        database: where the state is: ``sqlite:///evenhand.db``, or ``postgresql+psycopg://user@host/name``.
        keys: whether callers need a key; without keys only the own machine is listened to.
        log_requests: whether its log has a line for every request; else for those that failed alone.
    """

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, strict=True)] = 8000
    database: Annotated[str, BeforeValidator(_database)] = "sqlite:///evenhand.db"
    keys: StrictBool = True
    log_requests: StrictBool = False

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
    """A shield: a policy file, or the plan of one that is made at the start.

    Attributes:
        name: of the shield, and of its stream in the store.
        policy: the file of its policy.
        plan: what it keeps, in place of a policy; entries as in the configuration of a shield.
        advisory: whether every recommendation stands, and the shield only counts.
        when_down: what happens if the store cannot be used.
    """

    name: Name
    policy: str | None = None
    plan: dict[str, Any] | None = None
    advisory: StrictBool = False
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

    name: Name
    config: Annotated[str | dict[str, Any], BeforeValidator(_file_or_table)]
    models: tuple[str, ...] = ()
    pass_on: tuple[str, ...] = ()
    trust: StrictBool = False
    at_once: Annotated[int, Field(ge=1)] = 16
    waiting: Annotated[int, Field(ge=0)] = 64
    guardrail_seconds: Annotated[float, Field(gt=0)] = 300.0
    log_prompts: StrictBool = False
    keep_pictures: StrictBool = True
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
            fault = fault_of(error, {}, ENTRIES)
            raise OptionError(fault.what, where="--host") from None
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
            described = read_configuration(path, example="evenhand.toml", entries="[service], [[shields]], [[guards]]")
            folder, place = path.absolute().parent, str(path)
        try:
            if "folder" in described:
                raise OptionError("there is no entry 'folder' here", mend=f"known: {', '.join(ENTRIES[''])}")
            found = cls.model_validate({**described, "folder": folder})
            _check(found)
        except ValidationError as error:
            fault = fault_of(error, described, ENTRIES, MENDS)
        except OptionError as error:
            fault = error
        else:
            database = _placed(found.service.database, folder)
            return found.model_copy(update={"service": found.service.model_copy(update={"database": database})})
        raise OptionError(
            fault.what, where=", ".join(filter(None, (place, fault.where))) or None, mend=fault.mend
        ) from None


ENTRIES: Mapping[str, list[str]] = {
    "": [name for name in Settings.model_fields if name != "folder"],
    "service": list(ServiceEntry.model_fields),
    "limits": list(Limits.model_fields),
    "retention": list(Retention.model_fields),
    "shields": list(ShieldEntry.model_fields),
    "guards": list(GuardEntry.model_fields),
}
"""What can be written at every place."""


def is_loopback(host: str) -> bool:
    """Whether only the machine itself can reach what listens there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check(found: Settings) -> None:
    """Raises an OptionError if parts that are right alone do not fit together."""
    seen: dict[str, str] = {}
    places = [(f"shields.{position}", entry.name) for position, entry in enumerate(found.shields)]
    places += [(f"guards.{position}", entry.name) for position, entry in enumerate(found.guards)]
    for place, name in places:
        if name in seen:
            raise OptionError(
                f"{seen[name]} has the name {name!r} already",
                where=f"{place}.name",
                mend="give every shield and generator a name of its own",
            )
        seen[name] = place
    models: dict[str, str] = {}
    for guard in found.guards:
        for model in guard.models or (guard.name,):
            if model in models:
                raise OptionError(
                    f"{models[model]!r} answers to the model {model!r} already",
                    where=f"{seen[guard.name]}.models",
                    mend="name every model once",
                )
            models[model] = guard.name
    for shield in found.shields:
        if (shield.policy is None) == (shield.plan is None):
            said = "has neither a policy nor a plan" if shield.policy is None else "has a policy and a plan"
            raise OptionError(f"{shield.name!r} {said}", where=seen[shield.name], mend=MENDS["policy"])


def _placed(database: str, folder: Path) -> str:
    """The address of a store, with a relative file in the folder."""
    if not database.startswith(SQLITE):
        return database
    file, mark, options = database.removeprefix(SQLITE).partition("?")
    return f"{SQLITE}{folder / file}{mark}{options}"
