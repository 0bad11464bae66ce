"""Configuration file of the service.

A minimal file::

    [[shields]]
    name = "loans"
    policy = "loans.shield"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, model_validator

from evenhand.core.config import FileModel, check_configuration, unknown_entry
from evenhand.core.configuration import read_configuration
from evenhand.errors import OptionError

SQLITE = "sqlite:///"
POSTGRES = "postgresql+psycopg://"


STREAM_NAME = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.-]{1,100}"
"""Pattern of the name of a shield, guard or monitor: one URL segment that no client normalises away."""


def _check_name(name: str) -> str:
    if not re.fullmatch(STREAM_NAME, name):
        raise ValueError(f"expected a name that can be part of a URL, got {name!r}")
    return name


def _check_model_name(name: str) -> str:
    """Check the name of a model, whose parts between slashes are segments of ``/v1/models/NAME``."""
    segments = name.split("/")
    if {"", ".", ".."} & set(segments) or not all(map(str.isprintable, segments)):
        raise ValueError(f"expected a name that can be part of a URL, got {name!r}")
    return name


def _check_file_or_table(value: object) -> object:
    if not isinstance(value, str | Mapping):
        raise ValueError(f"{value!r} is neither a path nor a table")
    return value


def _check_database(url: str) -> str:
    """Check that a database is persistent, and add the driver to a PostgreSQL URL."""
    if url.startswith(("postgresql://", "postgres://")):
        return POSTGRES + url.partition("://")[2]
    if url.startswith("sqlite:") and (not url.startswith(SQLITE) or url.removeprefix(SQLITE) in ("", ":memory:")):
        raise ValueError("expected a database on disk, got one in memory")
    if not url.startswith((SQLITE, POSTGRES)):
        raise ValueError("expected a URL of SQLite or PostgreSQL")
    return url


def _check_network(value: str) -> str:
    try:
        return str(ip_network(value))
    except ValueError:
        raise ValueError(f"expected an address or a network, got {value!r}") from None


def _split_url(value: str) -> SplitResult:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in value:
        raise ValueError(f"expected an HTTP URL, got {value!r}")
    return parts


def _check_public_url(url: str) -> str:
    """Check a URL, and remove its trailing slash."""
    _split_url(url)
    return url.rstrip("/")


def _check_issuer(url: str) -> str:
    """Check that a provider uses TLS or runs on this machine."""
    parts = _split_url(url)
    if parts.scheme != "https" and not is_loopback(str(parts.hostname)):
        raise ValueError(f"expected an HTTPS URL, got {url!r}")
    return url


Name: TypeAlias = Annotated[str, AfterValidator(_check_name)]
"""Name of a shield, guard or monitor, see `STREAM_NAME`."""
ModelName: TypeAlias = Annotated[str, Field(max_length=200), AfterValidator(_check_model_name)]
"""Name of a model in requests."""
ConfigSource: TypeAlias = Annotated[str | dict[str, Any], BeforeValidator(_check_file_or_table)]
"""Configuration, or its path."""

HINTS = {
    "host": 'write an address of this machine, such as host = "127.0.0.1", or "0.0.0.0" for all of them',
    "port": "write a number from 0 to 65535; 0 selects any free port",
    "database": 'write database = "sqlite:///evenhand.db" or "postgresql://user@host/name"',
    "keys": "write true or false",
    "trusted_proxies": 'write a list of addresses or networks, such as trusted_proxies = ["127.0.0.1", "10.0.0.0/8"]',
    "public_url": 'write the address that callers use, such as public_url = "https://fair.example.org"',
    "endpoint": 'write the address of the collector, such as endpoint = "http://127.0.0.1:4318"',
    "issuer": 'write the address of the provider, such as issuer = "https://login.example.org/realms/work"',
    "roles": 'map roles to values of the claim, such as roles = { viewer = ["staff"], admin = ["evenhand-admins"] }',
    "name": 'write 1 to 100 letters, digits, ".", "_" and "-", but not "." or "..", such as name = "loans"',
    "policy": 'name a file that `evenhand shield synthesize` made, such as policy = "loans.shield"',
    "plan": "write the plan, as in the configuration of a shield",
    "config": 'name a configuration, such as config = "genai.yaml"',
    "when_down": "refuse or pass",
    "models": 'write a list of names, such as models = ["studio"]',
    "advisory": "write true or false",
    "shields": 'write [[shields]], then name = "loans" and policy = "loans.shield"',
    "monitors": 'write [[monitors]], then name = "loans" and config = "monitor.yaml"',
    "guards": 'write [[guards]], then name = "studio" and config = "genai.yaml"',
}
"""Hint of each entry, by its name."""


class ServerConfig(FileModel):
    """Settings of the server and its database.

    Attributes:
        host, port: Address that the server listens on.
        database: URL of the store: ``sqlite:///evenhand.db``, or ``postgresql+psycopg://user@host/name``.
        keys: Whether callers need an API key. Without keys, the server listens on the loopback interface only.
        log_requests: Whether every request is logged. By default, only failed requests are.
        trusted_proxies: Addresses and networks of proxies whose headers ``X-Forwarded-For`` and
            ``X-Forwarded-Proto`` are trusted.
        public_url: URL that callers use.
        drain_seconds: Seconds after SIGTERM in which ``/readyz`` answers 503 and requests are still accepted.
            Default: 5.
    """

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, strict=True)] = 8000
    database: Annotated[str, AfterValidator(_check_database)] = "sqlite:///evenhand.db"
    keys: StrictBool = True
    log_requests: StrictBool = False
    trusted_proxies: tuple[Annotated[str, AfterValidator(_check_network)], ...] = ()
    public_url: Annotated[str, AfterValidator(_check_public_url)] | None = None
    drain_seconds: Annotated[float, Field(ge=0)] = 5.0

    @model_validator(mode="after")
    def _check_open_address(self) -> ServerConfig:
        if not self.keys and not is_loopback(self.host):
            raise ValueError(
                f"expected keys = true for a service on {self.host}, which other machines may reach; without keys, set "
                'host = "127.0.0.1"'
            )
        return self

    @property
    def place(self) -> str:
        """URL of the store without its password."""
        return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", self.database)


class LimitsConfig(FileModel):
    """Limits of one caller.

    Attributes:
        body_bytes: Maximum size of a request.
        body_seconds: Time limit for receiving a request.
        requests_per_second: Maximum average rate. None disables the limit. Open pages of the dashboard do not count.
        in_flight: Maximum number of concurrent requests.
        request_seconds: Time limit for a response, which begins when the request has been received.
        upstream_seconds: Time limit for a generator.
    """

    body_bytes: Annotated[int, Field(ge=1)] = 10_000_000
    body_seconds: Annotated[float, Field(gt=0)] = 30.0
    requests_per_second: Annotated[float, Field(gt=0)] | None = None
    in_flight: Annotated[int, Field(ge=1)] = 64
    request_seconds: Annotated[float, Field(gt=0)] = 600.0
    upstream_seconds: Annotated[float, Field(gt=0)] = 120.0


class RetentionConfig(FileModel):
    """Retention of data. None disables deletion.

    Attributes:
        log_days: Number of days for which log entries are kept.
        picture_days: Number of days for which pictures on the dashboard are kept.
    """

    log_days: Annotated[float, Field(gt=0)] | None = None
    picture_days: Annotated[float, Field(gt=0)] | None = 30.0


class OidcConfig(FileModel):
    """Identity provider for logins to the dashboard.

    Attributes:
        issuer: Issuer URL of the provider.
        client_id: Client ID of this service.
        client_secret_env: Environment variable that holds the client secret. None if the client has no secret.
        scopes: Requested scopes.
        name_claim: Claim that holds the user's name. If it is missing, the subject is used.
        role_claim: Claim that holds the user's roles. Dots separate the levels of nested claims, as in
            ``realm_access.roles``.
        roles: Values of the role claim for each role of the service. With several roles, the most powerful one applies.
        session_hours: Duration of a session.
    """

    issuer: Annotated[str, AfterValidator(_check_issuer)]
    client_id: Annotated[str, Field(min_length=1)]
    client_secret_env: str | None = None
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "email"
    role_claim: str = "roles"
    roles: dict[Literal["viewer", "admin"], tuple[str, ...]]
    session_hours: Annotated[float, Field(gt=0, le=168)] = 8.0


class TracingConfig(FileModel):
    """OpenTelemetry traces.

    Attributes:
        enabled: Whether spans are recorded and exported. ``OTEL_EXPORTER_OTLP_*`` sets the destination and headers.
        endpoint: URL of the collector. It overrides the environment.
        share: Fraction of traces that are sampled. A trace that a caller began follows the caller's decision.
    """

    enabled: StrictBool = False
    endpoint: Annotated[str, AfterValidator(_check_public_url)] | None = None
    share: Annotated[float, Field(ge=0, le=1)] = 1.0


class ServedShieldConfig(FileModel):
    """Shield with a policy file, or with a plan that is synthesised at startup.

    Attributes:
        name: Name of the shield and its stream.
        policy: Path of the policy.
        plan: Configuration of the shield, if there is no policy file.
        advisory: Whether the shield only counts, and never changes a recommendation.
    """

    name: Name
    policy: str | None = None
    plan: dict[str, Any] | None = None
    advisory: StrictBool = False


class ServedGuardConfig(FileModel):
    """Guarded generator.

    Attributes:
        name: Name of the guard and its stream.
        config: Configuration of the guard, or its path.
        models: Model names that select this guard. Default: the name of the guard.
        pass_on: Further request options that are passed to the generator.
        trust: Whether functions named in the configuration, and code in models, may run.
        at_once: Maximum number of concurrent requests.
        waiting: Maximum number of queued requests. Further requests are refused with status 429.
        guardrail_seconds: Time limit for the second call of a guardrail.
        log_prompts: Whether prompts are logged. By default, only their hashes are.
        keep_pictures: Whether delivered pictures are kept for the dashboard.
        when_down: Behaviour while the store is unavailable: refuse requests, or pass items and mark them as unguarded.
    """

    name: Name
    config: ConfigSource
    models: tuple[ModelName, ...] = ()
    pass_on: tuple[str, ...] = ()
    trust: StrictBool = False
    at_once: Annotated[int, Field(ge=1)] = 16
    waiting: Annotated[int, Field(ge=0)] = 64
    guardrail_seconds: Annotated[float, Field(gt=0)] = 300.0
    log_prompts: StrictBool = False
    keep_pictures: StrictBool = True
    when_down: Literal["refuse", "pass"] = "refuse"


class ServedMonitorConfig(FileModel):
    """Monitor of decisions.

    Attributes:
        name: Name of the monitor.
        config: Configuration of the monitor, or its path.
        shield: Shield whose decisions are monitored. Without a shield, events are received over HTTP.
    """

    name: Name
    config: ConfigSource
    shield: str | None = None


class ServiceConfig(FileModel):
    """Configuration of the service.

    Attributes:
        service, limits, retention, oidc, tracing, shields, guards, monitors: Sections of the file.
        folder: Folder against which relative paths are resolved.
    """

    service: ServerConfig = ServerConfig()
    limits: LimitsConfig = LimitsConfig()
    retention: RetentionConfig = RetentionConfig()
    oidc: OidcConfig | None = None
    tracing: TracingConfig = TracingConfig()
    shields: tuple[ServedShieldConfig, ...] = ()
    guards: tuple[ServedGuardConfig, ...] = ()
    monitors: tuple[ServedMonitorConfig, ...] = ()
    folder: Path = Field(Path(), exclude=True)

    def with_address(self, host: str | None, port: int | None) -> ServiceConfig:
        """Return a copy with another host or port. None keeps the current one.

        Raises:
            OptionError: The host is public, and the service requires no keys.
        """
        overrides = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
        address = {**self.service.model_dump(), **overrides}
        service = check_configuration(lambda: ServerConfig.model_validate(address), ServerConfig, location="--host")
        return self.model_copy(update={"service": service})

    @classmethod
    def read(cls, source: Mapping[str, Any] | str | Path) -> ServiceConfig:
        """Read a configuration from a TOML file or a mapping.

        Raises:
            OptionError: The file cannot be read, or an entry is missing, unknown or invalid.
        """
        if isinstance(source, Mapping):
            described, folder, place = source, Path(), None
        else:
            path = Path(source)
            described = read_configuration(path, example="evenhand.toml", entries="[service], [[shields]], [[guards]]")
            folder, place = path.absolute().parent, str(path)

        def make() -> ServiceConfig:
            if "folder" in described:
                raise unknown_entry("folder", [name for name in cls.model_fields if name != "folder"])
            config = cls.model_validate({**described, "folder": folder})
            _check_consistency(config)
            return config

        config = check_configuration(make, cls, location=place, hints=HINTS)
        database = _resolve_database(config.service.database, folder)
        return config.model_copy(update={"service": config.service.model_copy(update={"database": database})})


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_consistency(config: ServiceConfig) -> None:
    """Check that the sections are consistent with each other."""
    if config.oidc is not None and not (config.service.keys and config.service.public_url):
        raise OptionError(
            "logins require keys = true and public_url",
            location="oidc",
            hint='write keys = true and public_url = "https://fair.example.org" under [service]',
        )
    places: dict[str, str] = {}
    for section in ("shields", "guards", "monitors"):
        for position, entry in enumerate(getattr(config, section)):
            place = f"{section}.{position}"
            if entry.name in places:
                raise OptionError(
                    f"{places[entry.name]} already has the name {entry.name!r}",
                    location=f"{place}.name",
                    hint="give every shield, generator and monitor a unique name",
                )
            places[entry.name] = place
    shields = [shield.name for shield in config.shields]
    for monitor in config.monitors:
        if monitor.shield is not None and monitor.shield not in shields:
            names = ", ".join(shields) or "there is none"
            raise OptionError(
                f"there is no shield {monitor.shield!r}", location=places[monitor.name], hint=f"one of: {names}"
            )
    models: dict[str, str] = {}
    for guard in config.guards:
        for model in guard.models or (guard.name,):
            if model in models:
                raise OptionError(
                    f"{models[model]!r} already serves the model {model!r}",
                    location=f"{places[guard.name]}.models",
                    hint="use each model name once",
                )
            models[model] = guard.name
    for shield in config.shields:
        if (shield.policy is None) == (shield.plan is None):
            problem = "has neither a policy nor a plan" if shield.policy is None else "has a policy and a plan"
            raise OptionError(f"{shield.name!r} {problem}", location=places[shield.name], hint=HINTS["policy"])


def _resolve_database(database: str, folder: Path) -> str:
    """Resolve a relative SQLite path against a folder."""
    if not database.startswith(SQLITE):
        return database
    file, mark, options = database.removeprefix(SQLITE).partition("?")
    return f"{SQLITE}{folder / file}{mark}{options}"


# Default services: a shield for loans, and a guard around the built-in studio.


SHIELD: dict[str, Any] = {
    "property": "demographic_parity",
    "kappa": "0.1",
    "horizon": 100,
    "kind": "dynamic",
    "groups": {"women": {"rate": 0.4, "accept": 0.35}, "men": {"rate": 0.6, "accept": 0.6}},
}
"""Shield with any number of periods, and without labels."""

GUARD: dict[str, Any] = {
    "conditions": [{"name": "leader", "keywords": ["leader", "manager", "chief executive"]}],
    "specifications": [
        {"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": [12, 4, 8]},
        {"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 5},
    ],
    "generator": {
        "kind": "studio",
        "bias": {"age": {"child": 0.05, "adult": 0.9, "elderly": 0.05}, "gender": {"woman": 0.1, "man": 0.9}},
        "obeys": 0.95,
        "unrecognised": 0.02,
    },
    "classifier": {"kind": "studio"},
}
"""Generator that, without a guard, mostly draws adult men. It needs no network."""


def demo_config() -> ServiceConfig:
    """Return the demo configuration: a SQLite file, no keys, loopback only."""
    return ServiceConfig.read(
        {
            "service": {"database": "sqlite:///evenhand.db", "keys": False},
            "shields": [{"name": "loans", "plan": SHIELD}],
            "guards": [{"name": "studio", "config": GUARD, "log_prompts": True}],
        }
    )
