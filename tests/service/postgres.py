"""A PostgreSQL of the tests' own: a cluster in a temporary folder, on a free port, to be killed and started again."""

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import pytest

from support import free_port

TRIES = 600
"""How often a starting server is asked whether it is there, every tenth of a second."""


def programs():
    """The folder with `postgres` and `initdb`; None if no server is installed."""
    found = shutil.which("postgres")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    return Path(found).resolve().parent if found else debian[-1].parent if debian else None


class Cluster:
    """A server and its data. As root it runs as the user postgres, since it refuses to run as root.

    Args:
        programs: the folder of the server's programs.
        fsync: whether commits wait for the disk; only the machine's own power cut makes a difference.
    """

    def __init__(self, programs, *, fsync=False):
        self.folder = Path(tempfile.mkdtemp(prefix="evenhand-postgres-"))
        self.user = "postgres" if os.geteuid() == 0 else getpass.getuser()
        self._programs = programs
        self._fsync = "on" if fsync else "off"
        self._server = None
        if os.geteuid() == 0:
            shutil.chown(self.folder, self.user, self.user)
        options = ["--auth", "trust", "--encoding", "UTF8", "--no-sync", "--no-instructions", "--locale", "C"]
        self._do("initdb", "--pgdata", str(self.folder / "data"), "--username", self.user, *options)
        self.port = free_port()
        self.start()

    def start(self):
        """Start the server and wait until it answers."""
        arguments = ["-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder), "-h", "127.0.0.1"]
        # Shared memory in files, for machines (containers) with hardly any of the other kind.
        options = {"fsync": self._fsync, "max_connections": "60", "shared_buffers": "32MB"}
        options["dynamic_shared_memory_type"] = "mmap"
        for name, value in options.items():
            arguments += ["-c", f"{name}={value}"]
        for _ in range(TRIES):
            if self._server is None or self._server.poll() is not None:
                # The processes of a killed server hold its shared memory until they notice that it is gone.
                self._server = self._spawn(arguments)
            if self._do("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), check=False) == 0:
                return
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text(errors='replace')[-2000:]}")

    def _spawn(self, arguments):
        with (self.folder / "log").open("ab") as log:
            command = [*self._as_user(), str(self._programs / "postgres"), *arguments]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)

    def stop(self, sent=signal.SIGINT):
        """Stop the server: SIGINT ends every connection and leaves the data tidy; SIGQUIT is a crash."""
        if self._server is not None:
            self._server.send_signal(sent)
            self._server.wait(60)
            self._server = None

    def remove(self):
        """Stop the server, and delete its data in the background: thousands of files, which may take a minute."""
        self.stop(signal.SIGQUIT)
        subprocess.run(["sh", "-c", 'rm -rf "$0" &', str(self.folder)], check=True)

    def url(self):
        """The address of a new, empty database."""
        name = f"test_{uuid4().hex}"
        self._do("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", self.user, name)
        return f"postgresql+psycopg://{self.user}@127.0.0.1:{self.port}/{name}"

    def _as_user(self):
        # The server goes when this process does, even if that is killed.
        command = ["setpriv", "--pdeathsig", "INT"]
        if os.geteuid() == 0:
            command += ["--reuid", self.user, "--regid", self.user, "--clear-groups"]
        return command

    def _do(self, program, *arguments, check=True):
        as_user = self._as_user() if program == "initdb" else []
        command = [*as_user, str(self._programs / program), *arguments]
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 120, "check": False}
        done = subprocess.run(command, cwd=self.folder, **options)
        if check and done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")
        return done.returncode


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests of this process; take a new database each. Do not stop it: see `own_postgres`."""
    yield from _cluster()


@pytest.fixture
def own_postgres():
    """A server of this test's own, which may be stopped, killed and started again."""
    yield from _cluster()


@pytest.fixture
def postgres_url(postgres):
    """The address of a new, empty database."""
    return postgres.url()


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request, tmp_path):
    """The address of a new, empty store: once in a file, once on a server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'evenhand.db'}"
    cluster = request.getfixturevalue("postgres")
    return cluster.url()


@pytest.fixture
def new_store_url(request, tmp_path):
    """Makes addresses of new stores, of the kind that is named: for tests that need several of them."""

    def make(kind):
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / uuid4().hex}.db"
        cluster = request.getfixturevalue("postgres")
        return cluster.url()

    return make


def _cluster():
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    where = programs()
    if where is None:
        if os.environ.get("EVENHAND_POSTGRES") == "required":
            pytest.fail("no PostgreSQL server is installed, although EVENHAND_POSTGRES=required promises one")
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    cluster = Cluster(where)
    try:
        yield cluster
    finally:
        cluster.remove()
