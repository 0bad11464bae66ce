"""What tests of the service share: settings, a client of an application in this process, a service in its own."""

from contextlib import ExitStack

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("sqlalchemy", reason="needs the extra serve")
pytest.importorskip("httpx", reason="needs httpx")

from postgres import new_store_url, own_postgres, postgres, postgres_url, store_url
from service_process import ServiceProcess
from service_settings import PLAN, describe_service, write_toml
from starlette.testclient import TestClient

from evenhand.service import Database, ServiceConfig, create_app

__all__ = ["new_store_url", "own_postgres", "postgres", "postgres_url", "store_url"]
TOML = write_toml(
    {"service": {"database": "sqlite:///evenhand.db", "keys": False}, "shields": [{"name": "loans", "plan": PLAN}]}
)


@pytest.fixture
def database(store_url):
    """A store of each kind."""
    here = Database(store_url)
    yield here
    here.close()


@pytest.fixture
def described(tmp_path):
    """The whole of a service's file, to be changed by tests: three shields and a guarded studio, no keys."""
    return describe_service(tmp_path)


@pytest.fixture
def settings(described):
    """The settings that `described` gives."""
    return ServiceConfig.read(described)


@pytest.fixture
def client(settings):
    """A client of the whole application, which runs in this process; its context is ``client.app.state.context``."""
    with TestClient(create_app(settings), raise_server_exceptions=False) as here:
        yield here


@pytest.fixture
def serving_client():
    """Makes clients of applications of their own settings, and ends them with the test."""
    with ExitStack() as running:

        def start(settings):
            one = TestClient(create_app(settings), base_url="http://localhost", raise_server_exceptions=False)
            return running.enter_context(one)

        yield start


@pytest.fixture
def served(tmp_path):
    """Starts services as processes in a folder of the test, and ends them with it: ``served(TOML).url``."""
    started = []

    def start(config=TOML, **options):
        options.setdefault("name", f"service-{len(started)}")
        one = ServiceProcess(options.pop("folder", tmp_path), config, **options)
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.kill()
