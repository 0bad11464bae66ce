"""Clients that ask all at once, repeat themselves, contradict themselves and never give up; what they were told.

Replicas come and go under them. Whatever was answered is kept, for `referee` to compare with the log.
"""

import base64
import http.client
import json
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from service_process import ServiceProcess
from service_settings import GUARD, LABELLED, write_toml
from service_settings import PLAN as LOANS

from evenhand.genai import Item
from evenhand.genai.backends.studio import StudioPixels
from support import free_port

PATIENCE = 90.0
"""Seconds for which a client asks again where nobody answers."""

MOST_PICTURES = 3
"""In one request."""

HIRING = {**LABELLED, "horizon": 30, "kind": "dynamic"}
HIRED = {
    "groups": {"by": ["sex"], "values": {"sex": ["female", "male"]}},
    "watch": [{"gap": "selection_rate", "tolerance": 0.02}, {"gap": "equal_opportunity", "tolerance": 0.05}],
}
"""What the monitor of events watches; labels come late, and of some decisions alone."""


def guard(url, *, mode="before", retries=2, timeout=5.0):
    """A guarded generator: behind a URL, or the studio in the service itself; what must be shown has candidates."""
    bias = {"age": {"child": 0.1, "adult": 0.8, "elderly": 0.1}, "gender": {"woman": 0.2, "man": 0.8}}
    drawn = {"kind": "studio", "bias": bias}
    asked = {"kind": "images", "url": url, "model": "studio-pictures", "timeout": timeout}
    return {
        "conditions": GUARD["conditions"],
        "specifications": GUARD["specifications"],
        "simulation": {"retries": retries},
        "generator": drawn if url is None else asked,
        "classifier": {"kind": "studio"},
        "guard": {
            "mode": mode,
            "when_unsure": "refuse",
            "candidates": 3,
            "price": {"item": 0.04},
            "budget": {"day": 1e6},
        },
    }


def service_file(database, guarded=None, *, spare=LOANS["kappa"]):
    """The text of a service's file: three shields, the last one with this kappa, and perhaps a guarded generator."""
    plans = {"loans": LOANS, "hiring": HIRING, "spare": {**LOANS, "kappa": spare}}
    gap = {"groups": {"by": ["group"], "values": {"group": ["men", "women"]}}, "watch": HIRED["watch"][:1]}
    file = {
        "service": {"database": database, "keys": False},
        "shields": [{"name": name, "plan": plan} for name, plan in plans.items()],
        "monitors": [{"name": "hired", "config": HIRED}, {"name": "lent", "shield": "loans", "config": gap}],
    }
    if guarded is not None:
        file["guards"] = [{"name": "pictures", "config": guarded}]
    return write_toml(file)


class Replicas:
    """Processes of `evenhand serve` with one file, each on a port of its own that it keeps; a context manager."""

    def __init__(self, folder, config, count=1):
        names = [f"replica-{k}" for k in range(count)]
        self.all = [ServiceProcess(folder, config, port=free_port(), name=name) for name in names]

    def __enter__(self):
        try:
            # All at once: each of them finds an empty store.
            for one in self.all:
                one.spawn()
            for one in self.all:
                one.await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for one in self.all:
            one.kill()

    @property
    def urls(self):
        return [one.url for one in self.all]

    def kill_and_restart(self, which):
        """kill -9 of some replicas at the same time, and start them again."""
        killed = [self.all[k] for k in which]
        for one in killed:
            one.process.kill()
        for one in killed:
            assert one.process.wait() == -signal.SIGKILL, f"it had ended before:\n{one.out}{one.err}"
            one.spawn()
        for one in killed:
            one.await_ready()

    def rewrite(self, config):
        """Change the file, which is read by those that start from now on."""
        for one in self.all:
            (one.folder / f"{one.name}.toml").write_text(config, "utf-8")

    def stop(self):
        """Tell all of them to stop, and wait for their exit codes."""
        for one in self.all:
            one.process.terminate()
        return [one.stop() for one in self.all]


def _exchange(connection, path, body):
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    said = answer.read()
    try:
        return answer.status, json.loads(said), answer.headers
    except ValueError:
        return answer.status, said.decode(errors="replace"), answer.headers


@dataclass(frozen=True)
class Told:
    """An answer that a client got: to what, with which status, and what its picture showed, with its SHA-256."""

    asked: Mapping[str, Any]
    status: int
    said: Any
    values: Mapping[str, str | None] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    item: str = ""


@dataclass
class Book:
    """What all clients were told, by stream."""

    decisions: dict[str, list[Told]] = field(default_factory=lambda: defaultdict(list))
    labels: dict[str, list[Told]] = field(default_factory=lambda: defaultdict(list))
    pictures: list[Told] = field(default_factory=list)
    unanswered: int = 0
    given_up: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Client(threading.Thread):
    """Asks until it is told to stop; where nobody answers it asks the same again, of any replica."""

    def __init__(self, swarm, number):
        super().__init__(name=f"client-{number}", daemon=True)
        self.swarm, self.number = swarm, number
        self.random = random.Random(f"{swarm.seed}/{number}")
        self._connections = {}
        self.failure = None

    def run(self):
        try:
            while not self.swarm.stopped.is_set():
                self.turn()
                self.swarm.stopped.wait(self.swarm.pause)
        except BaseException as error:
            self.failure = error
        finally:
            for one in self._connections.values():
                one.close()

    def insist(self, path, body):
        """The answer to a request, asked until there is one; None: the clients were told to stop meanwhile."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            url = self.random.choice(self.swarm.urls)
            try:
                status, said, headers = self._ask(url, path, body)
            except (OSError, http.client.HTTPException):
                status = 0
            if status and status not in (502, 503, 504):
                return status, said, {name.lower(): value for name, value in headers.items()}
            with self.swarm.book.lock:
                self.swarm.book.unanswered += 1
            if self.swarm.stopped.wait(0.1):
                return None
        with self.swarm.book.lock:
            self.swarm.book.given_up.append(f"{path}: {body}")
        return None

    def _ask(self, url, path, body):
        parts = urlsplit(url)
        connection = self._connections.get(url)
        if connection is None:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
            self._connections[url] = connection
        try:
            return _exchange(connection, path, body)
        except BaseException:
            self._connections.pop(url).close()
            raise


class Decider(Client):
    """Asks shields for decisions: new ones, the same again while others ask it too, the same id for another one."""

    def turn(self):
        draw = self.random.random()
        swarm = self.swarm
        if draw < 0.12 and swarm.labels:
            self._label()
            return
        stream = "hiring" if draw < 0.25 else "loans"
        if draw > 0.85:
            asked = swarm.used(stream, self.random)
            if draw > 0.97 and asked is not None:
                asked = {**asked, "recommendation": 1 - asked["recommendation"]}
        else:
            asked = None
        if asked is None:
            woman = self.random.random() < 0.4
            asked = {
                "id": swarm.next_id(),
                "group": "women" if woman else "men",
                "recommendation": int(self.random.random() < (0.3 if woman else 0.65)),
            }
            swarm.use(stream, asked)
        found = self.insist(f"/v1/shields/{stream}/decisions", asked)
        if found is not None:
            with swarm.book.lock:
                swarm.book.decisions[stream].append(Told(asked, found[0], found[1], headers=found[2]))

    def _label(self):
        """The label of someone who was asked about, some time ago or just now, or a second time."""
        asked = self.swarm.used("hiring", self.random)
        if asked is None:
            return
        # One label each, whoever asks; now and then the other one, which contradicts it.
        label = len(asked["id"].encode()) % 2 if int(asked["id"].rpartition("-")[2]) % 3 else 1
        if self.random.random() < 0.03:
            label = 1 - label
        given = {"id": asked["id"], "label": label}
        found = self.insist("/v1/shields/hiring/labels", given)
        if found is not None:
            with self.swarm.book.lock:
                self.swarm.book.labels["hiring"].append(Told(given, found[0], found[1]))


class Watcher(Client):
    """Sends batches of events to a monitor: new ones, and the same again."""

    def turn(self):
        asked = self.swarm.used("hired", self.random) if self.random.random() > 0.8 else None
        if asked is None:
            name = self.swarm.next_id()
            events = []
            for i in range(self.random.randint(1, 20)):
                woman = self.random.random() < 0.4
                hired = int(self.random.random() < (0.3 if woman else 0.5))
                events.append({"id": f"{name}/{i}", "sex": "female" if woman else "male", "decision": hired})
            before = self.swarm.used("hired", self.random)
            events += [
                {"id": one["id"], "label": len(one["id"]) % 2} for one in (before or {"events": []})["events"][::3]
            ]
            asked = {"events": events, "batch": name}
            self.swarm.use("hired", asked)
        found = self.insist("/v1/monitors/hired/events", asked)
        if found is not None:
            with self.swarm.book.lock:
                self.swarm.book.decisions["hired"].append(Told(asked, found[0], found[1]))


class Painter(Client):
    """Asks for pictures, and looks at those that it gets."""

    def turn(self):
        counts = self.random.random() < 0.9
        asked = {"prompt": f"a {'leader' if counts else 'tree'}, number {self.swarm.next_id()}", "model": "pictures"}
        asked["n"] = self.random.randint(1, MOST_PICTURES)
        url = self.random.choice(self.swarm.urls)
        status, said, headers = 0, None, {}
        try:
            status, said, found = self._ask(url, "/v1/images/generations", asked)
            headers = {name.lower(): value for name, value in found.items()}
        except (OSError, http.client.HTTPException):
            with self.swarm.book.lock:
                self.swarm.book.unanswered += 1
            self.swarm.stopped.wait(0.1)
        told = [] if status in (0, 200) else [Told(asked, status, said, {}, headers, "")]
        for picture in said.pop("data") if status == 200 else ():
            data = base64.b64decode(picture["b64_json"])
            values = dict(StudioPixels().classify(Item("image", data, "image/png")))
            guarded = {"x-evenhand-guarded": "true" if picture["evenhand"]["guarded"] else "false"}
            told.append(Told(asked, status, said, values, guarded, sha256(data).hexdigest()))
        with self.swarm.book.lock:
            self.swarm.book.pictures += told


class Swarm:
    """Clients of several kinds at the same time; a context manager that starts and stops them."""

    def __init__(self, urls, *, deciders=6, painters=0, watchers=0, seed=0, pause=0.0):
        self.urls, self.seed, self.pause = list(urls), seed, pause
        self.book = Book()
        self.stopped = threading.Event()
        self.labels = True
        self._count = 0
        self._lock = threading.Lock()
        self._used = defaultdict(list)
        kinds = [Decider] * deciders + [Painter] * painters + [Watcher] * watchers
        self._clients = [kind(self, number) for number, kind in enumerate(kinds)]

    def __enter__(self):
        for one in self._clients:
            one.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Stop all clients; what one of them failed at is raised."""
        self.stopped.set()
        for one in self._clients:
            one.join(60)
        stuck = [one.name for one in self._clients if one.is_alive()]
        assert not stuck, f"clients wait for ever: {stuck}"
        failed = next((one.failure for one in self._clients if one.failure is not None), None)
        if failed is not None:
            raise failed

    def next_id(self):
        with self._lock:
            self._count += 1
            return f"{self.seed}-{self._count}"

    def use(self, stream, asked):
        with self._lock:
            self._used[stream].append(asked)

    def asked(self, stream):
        """All that was ever asked, answered or not."""
        with self._lock:
            return list(self._used[stream])

    def used(self, stream, chosen):
        """Something that was asked before: mostly just now, so that two clients ask it at the same time."""
        with self._lock:
            past = self._used[stream]
            if not past:
                return None
            return chosen.choice(past[-5:]) if chosen.random() < 0.7 else chosen.choice(past)
