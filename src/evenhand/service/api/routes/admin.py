"""What those who operate a running service may ask of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from evenhand.errors import OptionError
from evenhand.service.api.context import Here
from evenhand.service.api.json_bodies import JsonRoute
from evenhand.service.auth.keys import Caller, require_scope
from evenhand.service.reload import drop_stream, list_versions, put_stream, reload_service
from evenhand.service.served_streams import Served, entries_by_name
from evenhand.service.settings import ServedGuardConfig, ServedShieldConfig, ServiceConfig
from evenhand.service.versions import When

router = APIRouter(prefix="/v1/admin", tags=["administration"], route_class=JsonRoute)


class ReloadAnswer(BaseModel):
    """What a reload did."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"added": ["hiring"], "removed": [], "changed": [], "needs_restart": ["limits"], "number": 3}]
        }
    )

    added: list[str]
    removed: list[str]
    changed: list[str]
    needs_restart: Annotated[list[str], Field(description="Parts that are taken up at the next start alone.")]
    number: Annotated[int | None, Field(description="Of the entry in evenhand:settings; null: nothing changed.")]


@router.post("/reload")
async def reload(here: Here, caller: Annotated[Caller, require_scope("operate")]) -> ReloadAnswer:
    """Read the service's file again and serve the shields and guards that it names. All of it, or nothing."""
    report = await run_in_threadpool(reload_service, here, caller.name)
    return ReloadAnswer.model_validate(report.to_dict())


PLAN_EXAMPLE: Any = {
    "property": "demographic_parity", "kappa": "0.1", "horizon": 100, "kind": "dynamic",
    "groups": {"women": {"rate": 0.4, "accept": 0.35}, "men": {"rate": 0.6, "accept": 0.6}},
}  # fmt: skip


class PutRequest(BaseModel):
    """A shield or a guard, with the entries that it has in the service's file, its name aside."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"shield": {"plan": PLAN_EXAMPLE}, "when": "period-end"}]}
    )

    shield: dict[str, Any] | None = None
    guard: dict[str, Any] | None = None
    when: Annotated[
        When,
        Field(description="When it decides in place of the one that is there: at the end of the period, or at once."),
    ] = "period-end"
    previous: Annotated[
        str | None, Field(description="The digest of the one that is to be replaced; another one is left alone.")
    ] = None


class PutAnswer(BaseModel):
    """What came of it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{
        "name": "loans", "kind": "shield", "version": 2, "digest": "3f2a" + "0" * 60, "previous": "5f0c" + "0" * 60,
        "in_force": False, "kept": False, "number": 4,
    }]})  # fmt: skip

    name: str
    kind: str
    version: int
    digest: Annotated[str, Field(description="Of what it decides by.")]
    previous: Annotated[str | None, Field(description="Of what decided before; null: it is new.")]
    in_force: Annotated[bool, Field(description="Whether it decides now; else once the period under way is over.")]
    kept: Annotated[bool, Field(description="Whether it decides as the one before, so that counters go on.")]
    number: Annotated[int | None, Field(description="Of the entry in evenhand:settings; null: nothing changed.")]


class VersionAnswer(BaseModel):
    """One version."""

    number: int
    digest: str
    by: Annotated[str, Field(description="Who set it; file: it stands in the service's file.")]
    at: Annotated[float | None, Field(description="Seconds since 1970.")]
    when: str | None
    entry: Annotated[dict[str, Any], Field(description="As in the service's file.")]


class VersionList(BaseModel):
    """All versions of a shield or a guard."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "loans", "in_force": 1, "versions": [{
        "number": 1, "digest": "5f0c" + "0" * 60, "by": "file", "at": None, "when": None,
        "entry": {"name": "loans", "plan": PLAN_EXAMPLE},
    }]}]})  # fmt: skip

    name: str
    in_force: Annotated[int, Field(description="The number of the one that decides.")]
    versions: list[VersionAnswer]


class DropAnswer(BaseModel):
    """A shield or guard that is served no longer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "loans", "number": 5}]})

    name: str
    number: Annotated[int, Field(description="Of the entry in evenhand:settings.")]


@router.put("/streams/{name}")
async def put(name: str, asked: PutRequest, here: Here, caller: Annotated[Caller, require_scope("admin")]) -> PutAnswer:
    """Add a shield or a guard, or replace it by another version. All of it, or nothing; the logs say who did."""
    entry = _read_entry(name, asked)
    report = await run_in_threadpool(put_stream, here, entry, caller.name, when=asked.when, previous=asked.previous)
    return PutAnswer.model_validate(report.to_dict())


@router.get("/streams/{name}/versions", dependencies=[require_scope("operate")])
async def versions(name: str, here: Here) -> VersionList:
    """All versions of a shield or a guard, each with its entry, and which of them decides."""
    in_force, found = await run_in_threadpool(list_versions, here, name)
    told = [VersionAnswer.model_validate(one.to_dict()) for one in found]
    return VersionList(name=name, in_force=in_force, versions=told)


@router.delete("/streams/{name}")
async def drop(name: str, here: Here, caller: Annotated[Caller, require_scope("admin")]) -> DropAnswer:
    """Serve a shield or guard no longer that was added here. Its log stays, and it goes on there if it comes back."""
    return DropAnswer(name=name, number=await run_in_threadpool(drop_stream, here, name, caller.name))


def _read_entry(name: str, asked: PutRequest) -> Served:
    """Return the entry that a request describes.

    Raises:
        OptionError: it makes no sense, or names what only the service's file may name.
    """
    if (asked.shield is None) == (asked.guard is None):
        raise OptionError(
            "expected a shield or a guard", hint='{"shield": {"plan": {...}}} or {"guard": {"config": {...}}}'
        )
    kind, given = ("shield", asked.shield) if asked.shield is not None else ("guard", asked.guard)
    try:
        entry = entries_by_name(ServiceConfig.read({f"{kind}s": [{**(given or {}), "name": name}]}))[name]
    except OptionError as error:
        # Its place in the request, and not in a file.
        error.location = (error.location or "").replace(f"{kind}s.0", kind, 1) or None
        raise
    if isinstance(entry, ServedGuardConfig) and (entry.trust or isinstance(entry.config, str)):
        what = "trust" if entry.trust else "a configuration in a file"
        raise OptionError(
            f"{what} is for the service's file alone", location="guard", hint="write the configuration itself"
        )
    outside = (
        isinstance(entry, ServedShieldConfig)
        and entry.policy is not None
        and (Path(entry.policy).is_absolute() or ".." in Path(entry.policy).parts)
    )
    if outside:
        raise OptionError(
            "the policy lies outside the folder of the service's file",
            location="shield.policy",
            hint="put the file there, and give its name",
        )
    return entry
