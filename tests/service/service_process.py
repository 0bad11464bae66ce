"""`evenhand serve` as a process of its own: started, waited for, stopped, killed."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

TRIES = 600
"""At 0.1 seconds each: a first start compiles what decides."""


class ServiceProcess:
    """One replica; a context manager that starts it and ends it.

    Args:
        folder: where it runs; its output goes to files there.
        config: the text of its file, written to ``evenhand.toml`` in the folder; None: it is started without one.
        port: to listen on; 0: any that is free, another one at every start.
        name: of the replica, for its files.
        arguments: more of them.
        environment: more variables.
    """

    def __init__(self, folder, config=None, *, port=0, name="service", arguments=(), environment=None):
        self.folder, self.port, self.name = folder, port, name
        self.arguments = ["serve", "--port", str(port), *arguments]
        if config is not None:
            path = folder / f"{name}.toml"
            path.write_text(config, "utf-8")
            self.arguments += ["--config", str(path)]
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self.process = None
        self.url = ""

    @property
    def out(self):
        """What it printed since it was started."""
        return (self.folder / f"{self.name}.out").read_text("utf-8")

    @property
    def err(self):
        """What it complained about since it was started."""
        return (self.folder / f"{self.name}.err").read_text("utf-8")

    def spawn(self):
        """Start it, and wait for nothing."""
        with (self.folder / f"{self.name}.out").open("wb") as out, (self.folder / f"{self.name}.err").open("wb") as err:
            command = [sys.executable, "-c", "from evenhand.cli.main import main; main()", *self.arguments]
            options = {"stdout": out, "stderr": err, "stdin": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment, **options)

    def start(self):
        """Start it, and wait until it is ready."""
        self.spawn()
        return self.await_ready()

    def await_ready(self):
        """Wait until it is ready."""
        for _ in range(TRIES):
            if self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}:\n{self.out}\n{self.err}")
            if self._ready():
                return self
            time.sleep(0.1)
        self.kill()
        raise AssertionError(f"it was not ready in time:\n{self.out}\n{self.err}")

    def _ready(self):
        said = re.search(r"serves at (http://\S+)", self.out)
        if said is None:
            return False
        self.url = said.group(1)
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def stop(self, how=signal.SIGINT):
        """Tell it to stop, and wait for its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=60)

    def kill(self):
        """End it at once, whatever it is doing."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=60)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
