"""The guard at speed: requests at a time in one process, several pictures in one request, candidates against retries.

    python benchmarks/guard.py                                   all of it
    python benchmarks/guard.py --source ../before/src --only service   the service of another checkout, to compare

A backend on this machine answers every call after a set time with pictures of the studio, drawn before. The service is
a process of its own, `evenhand serve`; its threads and processor time are read from the system while all requests are
under way. Ratios are of one run: both sides are asked by turns.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STEP = os.sysconf("SC_CLK_TCK")

SPECIFICATIONS = [{"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": 4}]

SERVICE = """
[service]
database = "sqlite:///{folder}/evenhand.db"
keys = false
port = 0
[limits]
in_flight = 5000
upstream_seconds = 300
[[guards]]
name = "pictures"
at_once = 2000
waiting = 3000
keep_pictures = false
[guards.config]
conditions = [{{name = "leader", keywords = ["leader"]}}]
specifications = [{{condition = "leader", group = "age", values = ["child", "adult", "elderly"], repeated = 5000}}]
generator = {{kind = "images", url = "{url}", model = "m", timeout = 120}}
classifier = {{kind = "studio"}}
"""


class Backend:
    """Answers like OpenAI's pictures, each call after some seconds.

    Args:
        seconds: that a call takes on average; it varies as an exponential distribution does, above half of it.
        obeys: how often a picture shows what its prompt asks for.
    """

    def __init__(self, seconds: float, obeys: float = 1.0, *, varies: bool = False, seed: int = 0) -> None:
        from evenhand.genai.backends.studio import Studio

        self.seconds, self.obeys, self.varies = seconds, obeys, varies
        self._random = random.Random(seed)
        self._drawn = {
            value: base64.b64encode(Studio({"age": {value: 1}}).generate("a leader").data).decode()
            for value in ("child", "adult", "elderly")
        }
        self.pictures = self.calls = self.now = self.most = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(re.search(rb"content-length: (\d+)", head.lower()).group(1))
                asked = json.loads(await reader.readexactly(length))
                self.calls += 1
                self.now += 1
                self.most = max(self.most, self.now)
                pause = self.seconds * (0.5 + 0.5 * self._random.expovariate(1)) if self.varies else self.seconds
                await asyncio.sleep(pause)
                self.now -= 1
                body = json.dumps({"data": [self._picture(asked["prompt"]) for _ in range(asked.get("n", 1))]}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    def _picture(self, prompt: str) -> dict[str, str]:
        self.pictures += 1
        wanted = [value for value in self._drawn if value in prompt]
        obeys = wanted and self._random.random() < self.obeys
        return {"b64_json": self._drawn[wanted[0] if obeys else "adult"]}


# ---- the service


def threads_of(pid: int) -> int:
    return int(re.search(r"^Threads:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE).group(1))


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / STEP


async def ask_service(port: int, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            b"POST /v1/images/generations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        return (await reader.read())[:12]
    finally:
        writer.close()


async def measure_service(source: Path, counts: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Ask a service for many pictures at the same time."""
    rows = []
    backend = Backend(seconds)
    async with backend.serving() as url:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "evenhand.toml")
            config.write_text(SERVICE.format(folder=folder, url=url), "utf-8")
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "from evenhand.cli.main import main; main()",
                "serve",
                "--config",
                str(config),
                env={**os.environ, "PYTHONPATH": str(source)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            try:
                port = 0
                while not port:
                    line = (await process.stdout.readline()).decode()
                    if not line:
                        raise SystemExit("the service did not start")
                    found = re.search(r"http://[^:/\s]+:(\d+)", line)
                    port = int(found.group(1)) if found else 0
                body = json.dumps({"prompt": "a leader"}).encode()
                await asyncio.gather(*(ask_service(port, body) for _ in range(4)))
                for count in counts:
                    backend.most = 0
                    idle, spent = threads_of(process.pid), processor_seconds(process.pid)
                    begun = time.perf_counter()
                    tasks = [asyncio.create_task(ask_service(port, body)) for _ in range(count)]
                    threads = idle
                    while not all(task.done() for task in tasks):
                        threads = max(threads, threads_of(process.pid))
                        await asyncio.sleep(0.02)
                    took = time.perf_counter() - begun
                    good = sum(task.result() == b"HTTP/1.1 200" for task in tasks)
                    rows.append(
                        {
                            "requests": count,
                            "answered": good,
                            "seconds": took,
                            "at the backend at once": backend.most,
                            "threads more": threads - idle,
                            "cpu ms each": 1e3 * (processor_seconds(process.pid) - spent) / count,
                        }
                    )
                    print(json.dumps(rows[-1]), flush=True)
            finally:
                process.send_signal(signal.SIGTERM)
                await process.wait()
    return rows


# ---- several pictures, and candidates


def guard_of(url: str, candidates: int, retries: int, mode: str = "before") -> Any:
    from evenhand.genai import GenerationConfig, build_pipeline

    return build_pipeline(
        GenerationConfig.read(
            {
                "conditions": [{"name": "leader", "keywords": ["leader"]}],
                "specifications": SPECIFICATIONS,
                "generator": {"kind": "images", "url": url, "model": "m"},
                "classifier": {"kind": "studio"},
                "simulation": {"retries": retries},
                "guard": {"candidates": candidates, "mode": mode},
            }
        )
    ).guard()


async def measure_candidates(requests: int, seconds: float) -> dict[str, Any]:
    """Time requests that must show something, with a backend that obeys half of the time."""
    from evenhand.genai.enforcement.guard import AnswerSeries

    took: dict[int, list[float]] = {1: [], 4: []}
    made: dict[int, int] = dict.fromkeys(took, 0)
    missed: dict[int, int] = {}
    backends = {count: Backend(seconds, 0.5, varies=True, seed=7) for count in took}
    async with backends[1].serving() as one, backends[4].serving() as four:
        guards = {1: guard_of(one, 1, 15), 4: guard_of(four, 4, 15)}
        for _ in range(requests):
            for count, guard in guards.items():
                begun = time.perf_counter()
                series = AnswerSeries(guard, "a leader")
                answer = await series.answer()
                if answer.must:
                    took[count].append(time.perf_counter() - begun)
                await series.supply.leftovers()
        for count, guard in guards.items():
            made[count] = backends[count].pictures
            missed[count] = sum(one["missed"] for one in guard.enforcer.counts.values())
    means = {count: statistics.fmean(each) for count, each in took.items()}
    tails = {count: statistics.quantiles(each, n=10)[-1] for count, each in took.items()}
    return {
        "requests": requests,
        "must show something": {str(count): len(each) for count, each in took.items()},
        "serial mean s": means[1],
        "candidates mean s": means[4],
        "ratio of means": means[1] / means[4],
        "ratio of 90th percentiles": tails[1] / tails[4],
        "pictures": made,
        "missed": missed,
    }


async def measure_several(times: int, seconds: float) -> dict[str, Any]:
    """Time requests for four pictures against four requests one after the other."""
    from evenhand.genai.enforcement.guard import AnswerSeries

    found: dict[str, Any] = {}
    for mode in ("before", "after"):
        took: dict[str, list[float]] = {"four": [], "one by one": []}
        backends = {name: Backend(seconds) for name in took}
        async with backends["four"].serving() as one, backends["one by one"].serving() as other:
            guards = {"four": guard_of(one, 1, 2, mode), "one by one": guard_of(other, 1, 2, mode)}
            for _ in range(times):
                begun = time.perf_counter()
                series = AnswerSeries(guards["four"], "a leader", 4)
                for _ in range(4):
                    await series.answer()
                took["four"].append(time.perf_counter() - begun)
                await series.supply.leftovers()
                begun = time.perf_counter()
                for _ in range(4):
                    await guards["one by one"].answer_async("a leader")
                took["one by one"].append(time.perf_counter() - begun)
        means = {name: statistics.fmean(each) for name, each in took.items()}
        found[mode] = {
            "mean s": means,
            "ratio": means["one by one"] / means["four"],
            "pictures": {name: one.pictures for name, one in backends.items()},
            "calls": {name: one.calls for name, one in backends.items()},
        }
    return found


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    from evenhand.core.http import close_loop_connections

    found: dict[str, Any] = {}
    if "service" in given.only:
        found["service"] = await measure_service(given.source, given.requests, given.seconds)
    if "candidates" in given.only:
        found["candidates"] = await measure_candidates(given.candidate_requests, 0.2)
    if "several" in given.only:
        found["several"] = await measure_several(given.several_requests, 0.2)
    await close_loop_connections()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="of the service that is measured")
    parser.add_argument("--requests", nargs="*", type=int, default=[16, 200, 1000])
    parser.add_argument("--seconds", type=float, default=2.0, help="that the backend takes")
    parser.add_argument("--only", nargs="*", default=["service", "candidates", "several"])
    parser.add_argument("--candidate-requests", type=int, default=60)
    parser.add_argument("--several-requests", type=int, default=12)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "guard.json")
    given = parser.parse_args()
    found = asyncio.run(measure(given))
    print(json.dumps(found, indent=2))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
