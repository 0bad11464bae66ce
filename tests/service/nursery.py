"""Starts replicas of `evenhand serve` at once: forks of a process that has imported everything and done nothing.

What a replica is has not changed by that: a process of its own, with its own connections and threads, started from the
command line's entry point. Only the seconds of importing are saved, of which kills by the hundred need many.
"""

import os
import subprocess
import sys

PROGRAM = """
import ctypes, os, signal, sys
import evenhand.cli.main, evenhand.cli.service, evenhand.service.settings, evenhand.service.server
from evenhand.genai.backends.studio import Studio
Studio().generate("warm")
with __import__("contextlib").suppress(ImportError):
    import psycopg, sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite
print("ready", flush=True)
for line in sys.stdin:
    what, *rest = line.rstrip("\\n").split("\\t")
    if what == "start":
        out, err, *arguments = rest
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # It ends with this process, whatever ends that.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
            os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            sys.argv = ["evenhand", *arguments]
            evenhand.cli.main.main()
            sys.exit(0)
        print(pid, flush=True)
    else:
        found, status = os.waitpid(int(rest[0]), os.WNOHANG if what == "poll" else 0)
        print(os.waitstatus_to_exitcode(status) if found else "running", flush=True)
"""


class Nursery:
    """Where replicas are forked; a context manager that ends all of them."""

    def __init__(self, folder, environment=None):
        self.folder = folder
        self._environment = os.environ if environment is None else environment
        self._process = None

    def __enter__(self):
        environment = {**self._environment, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with (self.folder / "nursery.err").open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM],
                cwd=self.folder,
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
            )
        assert self._line() == "ready", (self.folder / "nursery.err").read_text()
        return self

    def __exit__(self, *_):
        with self._process:
            self._process.kill()

    def ask(self, *words):
        """What it answers to one command."""
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self):
        return self._process.stdout.readline().rstrip("\n")


class Replica:
    """One replica, that is killed and started again on the same port."""

    def __init__(self, nursery, config, port, name):
        self.nursery, self.port, self.name = nursery, port, name
        self._config = nursery.folder / f"{name}.toml"
        self._config.write_text(config, "utf-8")
        self._out, self._err = (nursery.folder / f"{name}.{end}" for end in ("out", "err"))
        self._pid, self._code = 0, 0

    @property
    def pid(self):
        """Of the process that runs."""
        return self._pid

    @property
    def said(self):
        """What it printed and complained about since it was started."""
        return self._out.read_text() + self._err.read_text()

    def rewrite(self, config):
        """Change its file, at once."""
        partial = self._config.with_suffix(".partial")
        partial.write_text(config, "utf-8")
        partial.replace(self._config)

    def spawn(self):
        """Start it, and wait for nothing."""
        arguments = ("serve", "--config", self._config, "--port", self.port)
        self._pid = int(self.nursery.ask("start", self._out, self._err, *arguments))

    def poll(self):
        """How it ended; None: it runs."""
        if self._pid:
            said = self.nursery.ask("poll", self._pid)
            if said == "running":
                return None
            self._pid, self._code = 0, int(said)
        return self._code

    def send(self, how):
        """Send it a signal, if it runs."""
        if self._pid:
            os.kill(self._pid, how)

    def wait(self):
        """Wait until it has ended, and say how."""
        if self._pid:
            self._code, self._pid = int(self.nursery.ask("wait", self._pid)), 0
        return self._code
