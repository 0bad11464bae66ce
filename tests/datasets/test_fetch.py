"""Fetching over the network, from a small server on this machine."""

import hashlib
import io
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evenhand import datasets
from evenhand.datasets import catalogue
from evenhand.datasets.entry import read_entry
from evenhand.errors import DataError, FetchError

HEADER = "Pregnancies,Glucose,BloodPressure,SkinThickness,Insulin,BMI,DiabetesPedigreeFunction,Age,Outcome\n"
TABLE = (HEADER + "6,148,72,35,0,33.6,0.627,50,1\n1,85,66,29,0,26.6,0.351,31,0\n").encode()


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


class Publisher(BaseHTTPRequestHandler):
    """Serves ``server.pages``: path -> bytes, or an int to answer with that status, or (bytes, length to promise)."""

    def do_GET(self):
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path, 404)
        if isinstance(page, int):
            self.send_error(page)
            return
        body, promised = page if isinstance(page, tuple) else (page, len(page))
        self.send_response(200)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def publisher(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Publisher) as server:
        server.pages, server.asked = {}, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def change_card(entry, **changes):
    return replace(entry, card=entry.card.model_copy(update=changes))


def publish(monkeypatch, server, *paths, sha256=None, **changes):
    """Let the diabetes data be two rows at these paths of the server."""
    urls = tuple(f"http://127.0.0.1:{server.server_address[1]}{path}" for path in paths)
    entry = replace(change_card(read_entry("diabetes"), urls=urls, rows=2, sha256=sha256), **changes)
    monkeypatch.setattr(catalogue, "read_entry", lambda name: entry)


def test_fetched_once_and_checked_afterwards(publisher, monkeypatch, tmp_path):
    publisher.pages["/d.csv"] = TABLE
    publish(monkeypatch, publisher, "/absent.csv", "/d.csv")  # the second address serves if the first does not
    home = tmp_path / "new" / "folder"
    seen = []
    first = datasets.load_dataset("diabetes", data_home=home, progress=lambda done, whole: seen.append((done, whole)))
    assert first.card.place == "here"
    assert first.frame["Glucose"].tolist() == [148, 85]
    assert seen[-1] == (len(TABLE), len(TABLE))
    assert datasets.load_dataset("diabetes", data_home=home).frame.equals(first.frame)
    assert publisher.asked == ["/absent.csv", "/d.csv"]
    assert sorted(path.name for path in home.iterdir()) == ["d.csv", "d.csv.sha256"]
    changed = TABLE.replace(b"148", b"149")
    (home / "d.csv").write_bytes(changed)
    with pytest.raises(DataError, match="has changed") as caught:
        datasets.load_dataset("diabetes", data_home=home)
    assert hashlib.sha256(TABLE).hexdigest() in str(caught.value)
    assert hashlib.sha256(changed).hexdigest() in str(caught.value)


def test_a_file_inside_a_zip_inside_a_zip(publisher, monkeypatch, tmp_path):
    inner = zipped({"readme.txt": b"hello", "folder/Data.CSV": TABLE})
    publisher.pages["/d.zip"] = zipped({"other.zip": zipped({"x": b"y"}), "inner.zip": inner})
    publish(monkeypatch, publisher, "/d.zip", member="data.csv")
    assert len(datasets.load_dataset("diabetes", data_home=tmp_path).frame) == 2


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (404, "responds with 404"),
        (500, "responds with 500"),
        ((TABLE, len(TABLE) + 100), "IncompleteRead"),
        (b"<html>Sorry</html>", "the download is not the data set"),
        (TABLE[: len(TABLE) // 2], "the download is not the data set"),
        (b"PK\x03\x04 no zip file", "zip file is truncated or corrupt"),
        (zipped({"other.csv": TABLE}), "does not contain"),
        (HEADER.encode() + TABLE.split(b"\n")[1], "1 rows, expected 2"),
        (zipped({"d.csv": TABLE.replace(b"148", b"149")}), f"expected {'0' * 64}"),
    ],
)
def test_what_is_not_the_data_leaves_nothing_behind(publisher, monkeypatch, tmp_path, page, words):
    publisher.pages["/d.csv"] = page
    publish(monkeypatch, publisher, "/d.csv", member="d.csv", sha256="0" * 64 if words.startswith("expected") else None)
    with pytest.raises(FetchError) as caught:
        datasets.load_dataset("diabetes", data_home=tmp_path)
    message = str(caught.value)
    assert words in message
    assert "/d.csv: " in message
    assert f"save it as {tmp_path / 'd.csv'}" in message
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_fetch_leaves_nothing_behind(publisher, monkeypatch, tmp_path):
    publisher.pages["/d.csv"] = TABLE
    publish(monkeypatch, publisher, "/d.csv")

    def interrupt(done, whole):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.load_dataset("diabetes", data_home=tmp_path, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FetchError, match=r"tried .*file"):
        datasets.load_dataset("bank", data_home=tmp_path / "file" / "folder")


def test_a_zip_saved_by_hand_is_read(monkeypatch, tmp_path):
    entry = replace(
        change_card(read_entry("diabetes"), urls=("https://example.org/d+e.zip",), rows=2, sha256=None), member="d.csv"
    )
    monkeypatch.setattr(catalogue, "read_entry", lambda name: entry)
    (tmp_path / "d+e.zip").write_bytes(zipped({"d.csv": TABLE}))
    assert len(datasets.load_dataset("diabetes", data_home=tmp_path, download=False).frame) == 2
    (tmp_path / "d+e.zip").write_bytes(zipped({"d.csv": TABLE})[:-30])
    with pytest.raises(DataError, match="truncated or corrupt"):
        datasets.load_dataset("diabetes", data_home=tmp_path, download=False)
