"""What tests of the service share: settings, a client of an application in this process, a service in its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("sqlalchemy", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs httpx")

from postgres import new_store_url, own_postgres, postgres, postgres_url, store_url
from service_process import ServiceProcess
from service_settings import FINITE, GUARD, LABELLED, PLAN

from evenhand.cli.main import main
from evenhand.service import Database, ServiceConfig

__all__ = ["new_store_url", "own_postgres", "postgres", "postgres_url", "store_url"]

TOML = """
[service]
database = "sqlite:///evenhand.db"
keys = false

[[shields]]
name = "loans"

[shields.plan]
property = "demographic_parity"
kappa = "0.2"
horizon = 40
kind = "dynamic"
groups = { women = { rate = 0.4, accept = 0.35 }, men = { rate = 0.6, accept = 0.6 } }
"""


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    """A store of each kind."""
    here = Database(store_url)
    yield here
    here.close()


@pytest.fixture
def described(tmp_path: Path) -> dict[str, Any]:
    """The whole of a service's file, to be changed by tests: three shields and a guarded studio, no keys."""
    return {
        "service": {"database": f"sqlite:///{tmp_path / 'evenhand.db'}", "keys": False},
        "shields": [
            {"name": "loans", "plan": PLAN},
            {"name": "finite", "plan": FINITE},
            {"name": "labelled", "plan": LABELLED},
        ],
        "guards": [{"name": "studio", "config": GUARD}],
    }


@pytest.fixture
def settings(described: dict[str, Any]) -> ServiceConfig:
    """The settings that `described` gives."""
    return ServiceConfig.read(described)


@pytest.fixture
def client(settings: ServiceConfig) -> Iterator[Any]:
    """A client of the whole application, which runs in this process; its context is ``client.app.state.context``."""
    from starlette.testclient import TestClient

    from evenhand.service import create_app

    with TestClient(create_app(settings), raise_server_exceptions=False) as here:
        yield here


@pytest.fixture
def serving_client() -> Iterator[Callable[[ServiceConfig], Any]]:
    """Makes clients of applications of their own settings, and ends them with the test."""
    from starlette.testclient import TestClient

    from evenhand.service import create_app

    with ExitStack() as running:

        def start(settings: ServiceConfig) -> Any:
            one = TestClient(create_app(settings), base_url="http://localhost", raise_server_exceptions=False)
            return running.enter_context(one)

        yield start


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., ServiceProcess]]:
    """Starts services as processes in a folder of the test, and ends them with it: ``served(TOML).url``."""
    started: list[ServiceProcess] = []

    def start(config: str | None = TOML, **options: Any) -> ServiceProcess:
        options.setdefault("name", f"service-{len(started)}")
        one = ServiceProcess(options.pop("folder", tmp_path), config, **options)
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def evenhand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Any, str, str]]:
    """Function that runs a command, and returns its exit code, standard output and standard error."""

    def run(*arguments: Any) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.argv", ["evenhand", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code, said.out, said.err

    return run
