"""What a decision takes up in the store: bytes by table, and an export of all of them.

    python benchmarks/store_size.py                    11,000 decisions by the demo's shield, in SQLite

The shield is asked through the ledger, as the service asks it, with ids as long as application numbers are. The file's
size counts every page, the overhead of tables and indexes included; `dbstat` says how much of it each table and index
takes. The export is the dashboard's, through the application in this process.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from starlette.testclient import TestClient

from evenhand.service import Database, Ledger, ServiceConfig, create_app
from evenhand.service.api.context import build_streams
from evenhand.service.settings import SHIELD


def fill_store(settings: ServiceConfig, decisions: int) -> None:
    """Have the shield decide so many times."""
    database = Database(settings.service.database)
    ledger = Ledger(database, build_streams(settings).machines)
    under_way = []
    for number in range(decisions):
        group = ("women", "men")[number * 7 % 3 % 2]
        operation = {"op": "decide", "id": f"application {number}", "group": group, "recommendation": number % 3 % 2}
        under_way.append(ledger.submit("loans", operation, id=operation["id"]))
    for one in under_way:
        one.result()
    ledger.close()
    database.close()


def measure_tables(path: Path) -> dict[str, int]:
    """Return the bytes of every table and index in a file."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    rows = connection.execute("SELECT name, SUM(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC").fetchall()
    connection.close()
    return dict(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=11_000)
    count = parser.parse_args().decisions
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evenhand.db"
        settings = ServiceConfig.read({
            "service": {"database": f"sqlite:///{path}", "keys": False},
            "shields": [{"name": "loans", "plan": SHIELD}],
        })  # fmt: skip
        fill_store(settings, count)
        table = Table(title=f"{count:,} decisions: bytes of each", show_edge=False)
        table.add_column("table or index")
        table.add_column("bytes", justify="right")
        sizes = measure_tables(path)
        for name, size in sizes.items():
            table.add_row(name, f"{size / count:,.1f}")
        table.add_row("all", f"{sum(sizes.values()) / count:,.1f}")
        console.print(table)
        with TestClient(create_app(settings), base_url="http://localhost") as client:
            for form in ("csv", "json"):
                started = time.perf_counter()
                got = client.get(f"/v1/dashboard/streams/loans/export.{form}")
                seconds = time.perf_counter() - started
                console.print(f"export as {form}: {seconds:.2f} s, {len(got.content) / 1e6:.1f} MB")
                assert got.text.count("application") == count


if __name__ == "__main__":
    main()
