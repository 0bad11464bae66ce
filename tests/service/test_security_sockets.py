"""What comes over a socket that no client of HTTP would send."""

import socket

import pytest
from service_process import ServiceProcess
from service_settings import FINITE, write_toml

START = b"POST /v1/shields/loans/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
GOOD = b'{"id": "1", "group": "men", "recommendation": 1}'


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    file = {
        "service": {"database": "sqlite:///evenhand.db", "keys": False},
        "limits": {"body_bytes": 10_000, "body_seconds": 0.6},
        "shields": [{"name": "loans", "plan": FINITE}],
    }
    with ServiceProcess(tmp_path_factory.mktemp("sockets"), write_toml(file)) as one:
        yield one


@pytest.fixture
def line(service):
    host, _, port = service.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as one:
        yield one


def said(line):
    """All that comes until the other side closes."""
    parts = []
    try:
        while part := line.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


CHUNKED, LENGTH = b"transfer-encoding: chunked\r\n\r\n", b"content-length: %d\r\n\r\n"
SINGLE = b"".join(b"1\r\n%c\r\n" % byte for byte in GOOD)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (CHUNKED + (b"400\r\n" + b"x" * 1024 + b"\r\n") * 11, 413),
        (b"connection: close\r\n" + CHUNKED + SINGLE + b"0\r\n\r\n", 200),
        (LENGTH % 99_999_999_999, 413),
        (LENGTH % 1000 + b"{", 408),
    ],
    ids=["too many chunks", "chunks within the limit", "claims too much", "drop by drop"],
)
def test_bodies_are_limited_however_they_come(line, sent, expected):
    line.sendall(START + sent)
    assert status(said(line)) == expected


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 48\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"content-length: 48\r\ncontent-length: 5\r\n\r\n",
        b"content-length: -1\r\n\r\n",
        b"content-length: 0x30\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        b"bad header\r\n\r\n",
        b"a\x00b: c\r\n\r\n",
    ],
)
def test_what_two_readers_could_read_differently_is_refused(line, head):
    line.sendall(START + head + b"GET /v1/shields HTTP/1.1\r\nhost: localhost\r\n\r\n")
    answer = said(line)
    assert status(answer) in (400, 408, 422)
    assert answer.count(b"HTTP/1.1") == 1, "what follows is not taken for another request"


def test_a_web_socket_is_not_opened(line):
    line.sendall(
        b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    line.settimeout(30)
    assert status(line.recv(65_536)) != 101


def test_probes_are_answered_whatever_is_left_unfinished(service):
    host, _, port = service.url.removeprefix("http://").partition(":")
    address = host, int(port)
    unfinished = [socket.create_connection(address, timeout=30) for _ in range(70)]
    for one in unfinished:
        one.sendall(b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n")
    for path in (b"/healthz", b"/readyz"):
        with socket.create_connection(address, timeout=30) as line:
            line.sendall(b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert status(said(line)) == 200
    for one in unfinished:
        one.close()


def test_it_goes_on_after_all_of_this(line, service):
    line.sendall(START.replace(b"\r\n", b"\r\nconnection: close\r\n", 1) + b"content-length: 48\r\n\r\n" + GOOD)
    assert status(said(line)) == 200
    assert "Traceback" not in service.err
