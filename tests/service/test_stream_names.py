"""Names of shields, guards, monitors and models: each is a segment of a URL."""

import errno
import socket
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.service import ServiceConfig
from evenhand.service.server import open_socket

ENTRIES = {
    "shields": {"policy": "loans.shield"},
    "guards": {"config": "genai.yaml"},
    "monitors": {"config": "monitor.yaml"},
}
NAMES = st.one_of(
    st.text(st.sampled_from("ab.-_/\\ \n\x00%é:"), max_size=4),
    st.sampled_from(["loans", "loans.v2", "a..b", ".hidden", "...", ".", "..", "", "a" * 100, "a" * 101]),
)


def read(kind, name, **entries):
    return ServiceConfig.read({kind: [{"name": name, **ENTRIES[kind], **entries}]})


def is_one_segment(name):
    """Whether a client sends a name as one segment of a path, unchanged."""
    try:
        url = httpx.URL("http://127.0.0.1/v1/shields/").join(f"/v1/shields/{name}/decisions")
    except httpx.InvalidURL:
        return False
    return url.raw_path.decode() == f"/v1/shields/{name}/decisions" and urlsplit(str(url)).path == url.path


def refusal(kind, name):
    try:
        read(kind, name)
    except OptionError as error:
        return error
    return None


@pytest.mark.parametrize("kind", ENTRIES)
@given(name=NAMES)
def test_accepts_exactly_the_names_that_clients_keep(kind, name):
    kept = bool(name) and len(name) <= 100 and is_one_segment(name) and not set(name) & set("/:\\%")
    error = refusal(kind, name)
    assert (error is None) == kept
    assert error is None or error.location == f"{kind}.0.name"


@pytest.mark.parametrize("name", ["", ".", "..", "a/../b", "a//b", "/a", "a/", "a\nb", "x" * 201])
def test_rejects_names_of_models_that_clients_change(name):
    with pytest.raises(OptionError) as error:
        read("guards", "studio", models=["studio", name])
    assert error.value.location == "guards.0.models.1"


@pytest.mark.parametrize("number", [48, 98, 10048])
def test_a_used_port_is_reported_on_every_platform(monkeypatch, number):
    def fail(*_, **__):
        raise OSError(number, "text of the platform")

    monkeypatch.setattr(socket, "create_server", fail)
    monkeypatch.setattr(errno, "EADDRINUSE", number)
    with pytest.raises(OptionError) as used:
        open_socket("127.0.0.1", 8000)
    monkeypatch.setattr(errno, "EADDRINUSE", number + 1)
    with pytest.raises(OptionError) as other:
        open_socket("127.0.0.1", 8000)
    assert "text of the platform" in other.value.message
    assert "text of the platform" not in used.value.message
