"""What the service bears: durable decisions per second, how long they take, and what a guard adds to a picture.

    python benchmarks/service.py                              SQLite, and PostgreSQL where a server is installed
    python benchmarks/service.py --stores sqlite --seconds 3  a quick look
    python benchmarks/service.py --shields 3 --by-stream      three shields, each asked of one replica alone

Each setting starts `evenhand serve` as processes of their own and asks them over keep-alive connections from this one.
First a closed loop, in which every connection asks again as soon as it has an answer: decisions per second, and what
processor time one took in the server. Then an open loop at half that rate, whose requests come at their times whether
answers are late or not: the latencies are counted from when a request was due. Everything runs on one machine, client
and servers and database, so its load is told with each figure; so is how long its disk takes to keep 4 kB.

A guard is measured with the studio behind a service of its own: the same prompts straight to it and through the guard,
in turn, and the classifier by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "service"))

BARS = {"decisions": 1000.0, "p99": 0.050, "guard": 0.010}
"""Durable decisions per second on SQLite, seconds of 99 % of them at half of that load, seconds that a guard adds."""

STEP = os.sysconf("SC_CLK_TCK")

Row = dict[str, Any]

SHIELD = """
[[shields]]
name = "loans-{}"
[shields.plan]
property = "demographic_parity"
kappa = "0.1"
horizon = 100
kind = "static-fair"
groups = {{ women = {{ rate = 0.4, accept = 0.35 }}, men = {{ rate = 0.6, accept = 0.6 }} }}
"""

GUARD = """
[[guards]]
name = "studio"
config = "genai.yaml"
"""

GENAI = """
conditions:
  - {{name: leader, keywords: [leader]}}
specifications:
  - {{condition: leader, group: age, values: [child, adult, elderly], repeated: [12, 4, 8]}}
  - {{condition: leader, group: gender, values: [woman, man], repeated: 5}}
generator: {{kind: images, url: "{url}", model: studio-pictures}}
classifier: {{kind: studio}}
"""


# ---- the service


@contextmanager
def serving(folder: Path, database: str, streams: str, *, replicas: int = 1) -> Iterator[list[tuple[int, int]]]:
    """Replicas of the service: the process and the port of each."""
    config = folder / "evenhand.toml"
    config.write_text(
        f'[service]\nkeys = false\ndatabase = "{database}"\n[limits]\nin_flight = 1000\n{streams}', "utf-8"
    )
    started = []
    try:
        for one in range(replicas):
            out = folder / f"out-{one}"
            command = [
                sys.executable,
                "-c",
                "from evenhand.cli.main import main; main()",
                "serve",
                "--config",
                str(config),
                "--port",
                "0",
            ]
            with out.open("wb") as said:
                process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=folder)
            started.append((process, out))
        yield [(process.pid, _port(process, out)) for process, out in started]
    finally:
        for process, _ in started:
            process.send_signal(signal.SIGINT)
        for process, _ in started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _port(process: subprocess.Popen[bytes], out: Path) -> int:
    for _ in range(600):
        if found := re.search(r"serves at http://[^:]+:(\d+)", out.read_text("utf-8")):
            return int(found.group(1))
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"the service did not start:\n{out.read_text('utf-8')}")


def processor(pids: Sequence[int]) -> float:
    """Seconds of processor time that processes, and those they started, took so far."""
    parents: dict[int, list[tuple[int, float]]] = {}
    own: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid, took = int(path.parent.name), (int(fields[11]) + int(fields[12])) / STEP
        parents.setdefault(int(fields[1]), []).append((pid, took))
        own[pid] = took
    total, waiting = 0.0, list(pids)
    while waiting:
        pid = waiting.pop()
        total += own.get(pid, 0.0)
        waiting += [child for child, _ in parents.get(pid, ())]
    return total


# ---- the client


class Line(asyncio.Protocol):
    """A keep-alive connection that asks one thing at a time and looks at no more than the status of the answer."""

    def __init__(self) -> None:
        self._got = b""
        self._until = -1
        self._waiting: asyncio.Future[int] | None = None
        self.transport: asyncio.Transport | None = None
        self.shield = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the service hung up"))

    def data_received(self, data: bytes) -> None:
        self._got += data
        if self._until < 0 and (end := self._got.find(b"\r\n\r\n")) >= 0:
            head = self._got[:end].lower()
            self._until = end + 4 + int(re.search(rb"content-length: (\d+)", head).group(1))
        if 0 <= self._until <= len(self._got):
            status = int(self._got[9:12])
            self._got, self._until = self._got[self._until :], -1
            self._waiting.set_result(status)

    async def ask(self, request: bytes) -> int:
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._waiting


async def lines(ports: Sequence[int], count: int, *, shields: int = 1, by_stream: bool = False) -> list[Line]:
    """Connections, spread over replicas and shields: each to every one in turn, or those of a shield to one replica."""
    loop = asyncio.get_running_loop()
    made = []
    for i in range(count):
        shield = i % shields if by_stream else i // len(ports) % shields
        place = shield if by_stream else i
        _, line = await loop.create_connection(Line, "127.0.0.1", ports[place % len(ports)])
        line.shield = shield
        made.append(line)
    return made


def post(path: str, body: Any) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(text)}"
    return head.encode() + b"\r\n\r\n" + text


def decisions(many: int, prefix: str) -> Callable[[int, int], bytes]:
    """Makes requests for so many decisions of a shield each; every id is new."""

    def individual(number: int) -> Row:
        # Out of step with the groups, so that recommendations do not follow them.
        return {
            "id": f"{prefix}{number}",
            "group": ("women", "men", "men")[number * 7919 % 3],
            "recommendation": int(number * 104729 % 5 < 2),
        }

    def one(number: int, shield: int) -> bytes:
        if many == 1:
            return post(f"/v1/shields/loans-{shield}/decisions", individual(number))
        asked = [individual(number * many + each) for each in range(many)]
        return post(f"/v1/shields/loans-{shield}/decisions/batch", {"decisions": asked})

    return one


async def closed(
    pool: Sequence[Line], seconds: float, make: Callable[[int, int], bytes]
) -> tuple[int, float, list[float]]:
    """Every connection asks again as soon as it has an answer: how many, in how long, and how long each took."""
    took: list[float] = []
    begun = time.perf_counter()
    numbers = iter(range(10**9))

    async def one(line: Line) -> None:
        while (at := time.perf_counter()) - begun < seconds:
            status = await line.ask(make(next(numbers), line.shield))
            took.append(time.perf_counter() - at)
            if status != 200:
                raise SystemExit(f"the service answered {status}")

    await asyncio.gather(*map(one, pool))
    return len(took), time.perf_counter() - begun, took


async def opened(pool: Sequence[Line], seconds: float, rate: float, make: Callable[[int, int], bytes]) -> list[float]:
    """Requests come at their times, evenly spread; how long after its time each was answered."""
    loop = asyncio.get_running_loop()
    free: deque[Line] = deque(pool)
    due: deque[tuple[float, int]] = deque()
    took: list[float] = []
    total = int(seconds * rate)
    done = loop.create_future()
    begun = loop.time() + 0.05

    async def ask(line: Line, at: float, number: int) -> None:
        await line.ask(make(number, line.shield))
        took.append(loop.time() - at)
        free.append(line)
        if len(took) == total:
            done.set_result(None)
        serve()

    tasks = set()

    def serve() -> None:
        while free and due:
            task = loop.create_task(ask(free.popleft(), *due.popleft()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    for number in range(total):
        at = begun + number / rate
        if (wait := at - loop.time()) > 0:
            await asyncio.sleep(wait)
        due.append((at, number))
        serve()
    await done
    return took


# ---- what is measured


def quantiles(took: Sequence[float]) -> Row:
    ordered = sorted(took)
    return {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
    }


def load() -> float:
    return round(os.getloadavg()[0], 2)


def disk(folder: Path, times: int = 100) -> Row:
    """Seconds until the disk has 4 kB more of a file."""
    took = []
    with (folder / "sync").open("wb") as file:
        for _ in range(times):
            file.write(bytes(4096))
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - begun)
    return {**quantiles(took), "load": load()}


async def measured(setting: Row, ports: Sequence[int], pids: Sequence[int], seconds: float) -> Row:
    """One setting: the most that it bears, and latencies at half of that."""
    connections, many = setting["connections"], setting["decisions"]
    spread = {"shields": setting["shields"], "by_stream": setting["by_stream"]}
    pool = await lines(ports, connections, **spread)
    prefix = f"{time.time_ns():x}-"
    # Once to compile and connect what there is to.
    await closed(pool, min(1.0, seconds), decisions(many, prefix + "w"))
    row: Row = {**setting, "load": load()}
    before = processor(pids)
    answers, took, latencies = await closed(pool, seconds, decisions(many, prefix + "c"))
    row["per_second"] = answers * many / took
    row["processor_seconds"] = (processor(pids) - before) / (answers * many)
    row["closed"] = quantiles(latencies)
    rate = answers / took / 2
    wide = pool if connections >= 64 else [*pool, *await lines(ports, 64 - connections, **spread)]
    row["open_rate"] = rate * many
    row["open"] = quantiles(await opened(wide, seconds, rate, decisions(many, prefix + "o")))
    row["load_after"] = load()
    for line in wide:
        line.transport.close()
    return row


def shields(given: argparse.Namespace) -> list[Row]:
    rows = []
    stores, replicas, connections, seconds = given.stores, given.replicas, given.connections, given.seconds
    served = "".join(SHIELD.format(one) for one in range(given.shields))
    for store in stores:
        for count in replicas:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenhand-", dir=ROOT)))
                database, extra = _store(store, folder, stack)
                started = stack.enter_context(serving(folder, database, served, replicas=count))
                pids, ports = [pid for pid, _ in started], [port for _, port in started]
                for many, several in [(1, one) for one in connections] + [(100, 4)]:
                    setting = {
                        "store": store,
                        "replicas": count,
                        "connections": several,
                        "decisions": many,
                        "shields": given.shields,
                        "by_stream": given.by_stream,
                    }
                    rows.append(asyncio.run(measured(setting, ports, [*pids, *extra], seconds)))
                    print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def _store(store: str, folder: Path, stack: ExitStack) -> tuple[str, list[int]]:
    """The address of a new store, and the processes that serve it."""
    if store == "sqlite":
        return f"sqlite:///{folder / 'evenhand.db'}", []
    from postgres import Cluster, programs

    where = programs()
    if where is None:
        raise SystemExit("no PostgreSQL server is installed")
    cluster = Cluster(where, fsync=True)
    stack.callback(cluster.remove)
    pid = int((cluster.folder / "data" / "postmaster.pid").read_text().split()[0])
    return cluster.url(), [pid]


async def guarded(seconds: float) -> Row:
    """Pictures straight from a service and through a guard, in turn, one at a time."""
    from evenhand.genai.backends.studio import Studio, StudioPixels

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenhand-", dir=ROOT)))
        upstream = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "genai_upstream.py"), "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(upstream.wait)
        stack.callback(upstream.kill)
        url = re.search(r"http://\S+", upstream.stdout.readline()).group(0)
        port = int(re.search(r":(\d+)", url.partition("//")[2]).group(1))
        (folder / "genai.yaml").write_text(GENAI.format(url=f"http://127.0.0.1:{port}/v1"), "utf-8")
        ((pid, served),) = stack.enter_context(serving(folder, f"sqlite:///{folder / 'evenhand.db'}", GUARD))
        bare, through = await lines([port], 1), await lines([served], 1)
        straight = post(
            "/v1/images/generations", {"prompt": "a leader", "model": "studio-pictures", "response_format": "b64_json"}
        )
        guarding = post("/v1/images/generations", {"prompt": "a leader", "response_format": "b64_json"})
        took: dict[str, list[float]] = {"bare": [], "guarded": []}
        begun, before = time.perf_counter(), 0.0
        for number in range(10**6):
            if number == 10:
                took, before = {"bare": [], "guarded": []}, processor([pid])
                begun = time.perf_counter()
            if time.perf_counter() - begun > seconds and number > 30:
                break
            for name, line, asked in (("bare", bare[0], straight), ("guarded", through[0], guarding)):
                at = time.perf_counter()
                if await line.ask(asked) != 200:
                    raise SystemExit(f"{name}: no picture")
                took[name].append(time.perf_counter() - at)
        spent = (processor([pid]) - before) / len(took["guarded"])
    item = Studio().generate("a leader")
    classifier, looks = StudioPixels(), []
    for _ in range(200):
        at = time.perf_counter()
        classifier.classify(item)
        looks.append(time.perf_counter() - at)
    medians = {name: statistics.median(each) for name, each in took.items()}
    looked = statistics.median(looks)
    return {
        "requests": len(took["guarded"]),
        **medians,
        "classifier": looked,
        "load": load(),
        "overhead": medians["guarded"] - medians["bare"] - looked,
        "processor_seconds": spent,
    }


def shown(rows: Sequence[Row], guard: Row | None, sync: Row) -> None:
    console = Console(width=120)
    table = Table(
        "store",
        "replicas",
        "lines",
        "in one",
        "decisions/s",
        "cpu µs each",
        "p50 ms",
        "p99 ms",
        "open: p50 ms",
        "p99 ms",
        "load",
    )
    for row in rows:
        spent = f"{row['processor_seconds'] * 1e6:,.0f}"
        times = [f"{row[loop][q] * 1e3:.1f}" for loop in ("closed", "open") for q in ("p50", "p99")]
        table.add_row(
            row["store"],
            str(row["replicas"]),
            str(row["connections"]),
            str(row["decisions"]),
            f"{row['per_second']:,.0f}",
            spent,
            *times,
            f"{row['load']:.1f}",
        )
    console.print(table)
    console.print(f"the disk keeps 4 kB in {sync['p50'] * 1e3:.2f} ms (99 %: {sync['p99'] * 1e3:.2f} ms)")
    if guard is not None:
        bare, through, looked, added = (guard[one] * 1e3 for one in ("bare", "guarded", "classifier", "overhead"))
        console.print(
            f"a picture: {bare:.1f} ms bare, {through:.1f} ms guarded, of which the classifier {looked:.1f} ms"
        )
        console.print(f"the guard adds {added:.1f} ms, {guard['processor_seconds'] * 1e3:.1f} ms of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", nargs="*", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--replicas", nargs="*", type=int, default=[1, 3])
    parser.add_argument("--connections", nargs="*", type=int, default=[1, 8, 32, 64])
    parser.add_argument("--shields", type=int, default=1, help="how many, asked in turn")
    parser.add_argument("--by-stream", action="store_true", help="each shield is asked of one replica alone")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--no-guard", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "service.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        sync = disk(Path(folder))
    rows = shields(given)
    guard = None if given.no_guard else asyncio.run(guarded(given.seconds))
    shown(rows, guard, sync)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"processors": os.cpu_count(), "disk": sync, "shields": rows, "guard": guard}
    given.out.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
