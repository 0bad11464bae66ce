"""The pages about the service name the figures, addresses and headers that there are."""

import re

from support import ROOT

PAGE = (ROOT / "docs" / "reference" / "service-http.md").read_text("utf-8")
OPERATING = (ROOT / "docs" / "how-to" / "operate-the-service.md").read_text("utf-8")
PAGES_ALONE = {"/monitors/{}", "/", "/login", "/logout", "/openapi.json"}
"""What only browsers ask for, and the description itself."""


def test_described_metrics_exist(client):
    families = re.findall(r"^# TYPE (evenhand_\w+) (\w+)$", client.get("/metrics").text, re.M)
    there = {name.removesuffix("_total") for name, kind in families if not name.endswith("_created")}
    described = {
        name for cell in re.findall(r"^\| (`evenhand_.*?) \|", PAGE, re.M) for name in re.findall(r"\w+", cell)
    }
    assert described <= there
    named = {re.sub(r"_(total|bucket)$", "", name) for name in re.findall(r"evenhand_[a-z_]+", OPERATING)}
    assert named <= there


def test_every_address_is_described_and_exists(client):
    table = PAGE.partition("\n## ")[0]
    named = re.findall(r"(?:GET |POST |PUT |DELETE |, )?`?(/[^`,\s]*)`", table)
    described = {re.sub(r"NAME|ID", "{}", one) for one in named}
    there = {re.sub(r"{\w+(:\w+)?}", "{}", path) for path in client.get("/openapi.json").json()["paths"]}
    assert there - described == set()
    assert described - there <= PAGES_ALONE


def test_every_header_is_described_and_exists():
    described = set(re.findall(r"^\| `(x-evenhand-[a-z]+)` \|", PAGE, re.M))
    sources = (ROOT / "src" / "evenhand" / "service").rglob("*.py")
    used = {name for path in sources for name in re.findall(r'"(x-evenhand-[a-z]+)"', path.read_text("utf-8"))}
    assert described == used
