"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from evenhand import __version__
from evenhand.service import faults
from evenhand.service.context import Context
from evenhand.service.guards import machine_of, served
from evenhand.service.machines import Machine, ShieldMachine
from evenhand.service.routes import chat, events, guardrail, health, images, pages, shields
from evenhand.service.settings import Settings
from evenhand.service.store import Database, Ledger
from evenhand.shield import Plan, Shield, synthesize
from evenhand.shield.file import load


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application; it opens its store when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        database = Database(settings.service.database)
        ledger = Ledger(database, machines(settings))
        context = Context(settings, database, ledger)
        for entry in settings.guards:
            context.guards[entry.name] = served(entry, settings.folder, ledger, context.replica)
        app.state.context = context
        yield
        ledger.close()
        database.close()

    app = FastAPI(title="Evenhand", version=__version__, lifespan=lifespan)
    faults.install(app)
    for module in (shields, images, chat, guardrail, events, health, pages):
        app.include_router(module.router)
    return app


def machines(settings: Settings) -> dict[str, Machine]:
    """Every stream of the settings, at its beginning."""
    found: dict[str, Machine] = {}
    for entry in settings.shields:
        policy = load(settings.folder / entry.policy) if entry.policy else synthesize(Plan.read(entry.plan or {}))
        found[entry.name] = ShieldMachine(Shield(policy, advisory=entry.advisory), entry.model_dump(mode="json"))
    for guard in settings.guards:
        found[guard.name] = machine_of(guard, settings.folder)
    return found
