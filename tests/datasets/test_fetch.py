"""The catalogue of data sets, and how their files are fetched and checked."""

import gzip
import hashlib
import io
import lzma
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

import pandas as pd
import pytest

from evenhand import datasets
from evenhand.datasets import catalogue
from evenhand.datasets.entry import DESCRIPTIONS, read_entry
from evenhand.datasets.preparation import prepare_dataset, table_hash
from evenhand.errors import DataError, FetchError, OptionError
from evenhand.schema import counterparts_of, decode, encode
from support import shared

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


NAMES = ("adult", "german", "compas", "bank", "law-school", "communities-crime", "diabetes", "heart", "students")
NAMES += ("meps15",)
NAMES += ("discrim-eval-explicit", "discrim-eval-implicit")
BUNDLED = {"adult": (48_842, 13, 11_687), "german": (1_000, 20, 700)}

# name -> (copies beside the checkout, people, people left out, people with the favourable label)
COPIES = {
    "bank": (("bank-full.csv", "bank_marketing.csv"), 45_211, 0, 5_289),
    "compas": (("compas_two_years.csv",), 6_172, 0, 3_363),
    "law-school": (("law_school_lsac.csv",), 21_985, 422, 20_855),
    "communities-crime": (("communities_crime.csv",), 1_994, 0, 1_001),
}


def tight(schema, people):
    """Attributes whose domain is wider than what occurs."""
    return [
        attribute.name
        for i, attribute in enumerate(schema.attributes)
        if (people.individuals[:, i].min(), people.individuals[:, i].max()) != (attribute.first, attribute.last)
    ]


def test_names_and_cards():
    assert datasets.dataset_names() == NAMES
    assert [card.name for card in datasets.dataset_cards()] == list(NAMES)
    assert {path.stem for path in DESCRIPTIONS.glob("*.yaml")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_agrees_with_the_schema(name, tmp_path):
    card = datasets.dataset_card(name, data_home=tmp_path)
    schema = read_entry(name).schema
    assert card.columns == (*card.attributes, *card.extra, card.target)
    assert len(set(card.columns)) == len(card.columns)
    assert card.attributes == schema.names
    assert card.protected == schema.protected != ()
    assert card.favourable == schema.target.favourable
    assert card.place == ("bundled" if name in BUNDLED else "to be fetched")
    assert (card.path is None) == (name in BUNDLED)
    assert card.licence
    assert card.citation
    assert card.publisher.startswith("https://")
    assert all(url.startswith("https://") for url in card.urls)
    assert type(card).model_validate_json(card.model_dump_json()) == card


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled(name):
    rows, attributes, favourable = BUNDLED[name]
    data = datasets.load_dataset(name, download=False)
    people = encode(data.schema, data.frame)
    assert data.frame.columns.tolist() == list(data.card.columns)
    assert len(data.frame) == len(people) == rows == data.card.rows
    assert people.dropped == 0
    assert len(data.schema.attributes) == attributes
    assert int(people.favourable.sum()) == favourable
    assert tight(data.schema, people) == []
    back = decode(data.schema, people.individuals, like=data.frame)
    pd.testing.assert_frame_equal(back, data.frame[list(data.schema.names)])


def test_adult_keeps_the_not_stated_and_codes_as_published_networks_do():
    data = datasets.load_dataset("adult")
    assert (data.frame["native_country"] == "?").sum() == 857
    assert data.frame["split"].value_counts().to_dict() == {"train": 32_561, "test": 16_281}
    assert not data.frame["income"].str.endswith(".").any()
    stated = data.frame[~data.frame.isin(["?"]).any(axis=1)]
    assert len(stated) == 45_222
    for attribute in data.schema.attributes:
        if attribute.kind == "categorical":
            alphabetical = tuple(sorted(stated[attribute.name].unique()))
            assert attribute.values[: len(alphabetical)] == alphabetical


def test_adult_says_who_is_plausible():
    data = datasets.load_dataset("adult")
    people = encode(data.schema, data.frame)
    obeying = data.schema.obeys_rules(people.individuals)
    wrong = data.frame[~obeying]
    assert len(wrong) == 4  # three male wives and a female husband
    assert sorted(zip(wrong["sex"], wrong["relationship"], strict=True)) == [
        ("Female", "Husband"),
        *[("Male", "Wife")] * 3,
    ]
    counterparts, plausible = counterparts_of(data.schema, ["sex"]).of(people.individuals[obeying])
    assert plausible.all()
    moved = counterparts[:, :, data.schema.position("relationship")]
    values = data.schema["relationship"].values or ()
    assert {(values[int(one)], values[int(two)]) for one, two in moved} == {
        ("Wife", "Husband"),
        *((value, value) for value in values if value not in ("Wife", "Husband")),
    }


def test_german_sex_is_derived():
    frame = datasets.load_dataset("german").frame
    assert frame.groupby("personal_status_sex")["sex"].unique().map(list).to_dict() == {
        "A91": ["male"],
        "A92": ["female"],
        "A93": ["male"],
        "A94": ["male"],
    }
    assert frame["sex"].value_counts().to_dict() == {"male": 690, "female": 310}


def test_bundled_files_are_small_and_attributed():
    folder = files("evenhand.datasets") / "bundled"
    sizes = {file.name: len(file.read_bytes()) for file in folder.iterdir()}
    assert set(sizes) == {"adult.csv.xz", "german.csv.xz", "NOTICE.md"}
    assert sum(sizes.values()) < 1_000_000
    notice = (folder / "NOTICE.md").read_text()
    assert "CC BY 4.0" in notice
    assert "10.24432/C5XW20" in notice
    assert "10.24432/C5NC77" in notice


@pytest.mark.parametrize(("name", "copy"), [("adult", "adult.csv.xz"), ("german", "german_credit.csv.xz")])
def test_bundled_equals_the_copy_beside_the_checkout(name, copy):
    other = pd.read_csv(shared("data", "tabular", copy), keep_default_na=False)
    frame = datasets.load_dataset(name).frame
    assert set(frame.columns) == set(other.columns)
    pd.testing.assert_frame_equal(frame, other[frame.columns])


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_read_and_fit_their_schema(name, tmp_path):
    copies, rows, dropped, favourable = COPIES[name]
    for copy in copies:
        home = tmp_path / copy
        home.mkdir()
        packed = shared("data", "tabular", copy + ".xz").read_bytes()
        (home / (copy + ".gz")).write_bytes(gzip.compress(lzma.decompress(packed), 1))
        data = datasets.load_dataset(name, data_home=home, download=False)
        assert data.card.place == "here"
        assert data.card.path == str(home / (copy + ".gz"))
        assert data.frame.columns.tolist() == list(data.card.columns)
        assert len(data.frame) == data.card.rows
        people = encode(data.schema, data.frame)
        assert (len(people), people.dropped, int(people.favourable.sum())) == (rows, dropped, favourable)
        assert tight(data.schema, people) == []


def test_a_folder_of_copies_serves_as_data_home(monkeypatch):
    monkeypatch.setenv("EVENHAND_DATA_HOME", str(shared("data", "tabular")))
    assert len(datasets.load_dataset("compas", download=False).frame) == 6_172


def test_a_tampered_copy_is_refused(tmp_path):
    text = lzma.decompress(shared("data", "tabular", "communities_crime.csv.xz").read_bytes())
    head, first, rest = text.split(b"\n", 2)
    (tmp_path / "communities_crime.csv").write_bytes(b"\n".join([head, first.replace(b"0.19", b"0.18", 1), rest]))
    with pytest.raises(DataError) as caught:
        datasets.load_dataset("communities-crime", data_home=tmp_path)
    expected = datasets.dataset_card("communities-crime").sha256
    found = table_hash(
        prepare_dataset(read_entry("communities-crime"), (tmp_path / "communities_crime.csv").read_bytes(), "")
    )
    assert expected != found
    assert expected in str(caught.value)
    assert found in str(caught.value)
    assert "communities_crime.csv" in str(caught.value)


def test_absent_and_not_to_be_fetched(tmp_path):
    with pytest.raises(FetchError) as caught:
        datasets.load_dataset("bank", data_home=tmp_path, download=False)
    message = str(caught.value)
    assert "tried" not in message
    assert f"save it as {tmp_path / 'bank+marketing.zip'}" in message
    assert "`data_home=FOLDER`" in message
    assert "bank-full.csv" in message


def test_an_unknown_name_suggests_another():
    with pytest.raises(OptionError, match=r"did you mean 'law-school'\?"):
        datasets.load_dataset("lawschool")


def test_where_data_files_are_kept(tmp_path, monkeypatch):
    monkeypatch.delenv("EVENHAND_DATA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert datasets.dataset_card("bank").path == str(tmp_path / "evenhand" / "bank+marketing.zip")
    monkeypatch.setenv("EVENHAND_DATA_HOME", str(tmp_path / "mine"))
    assert datasets.dataset_card("bank").path == str(tmp_path / "mine" / "bank+marketing.zip")
    assert datasets.dataset_card("bank", data_home=tmp_path).path == str(tmp_path / "bank+marketing.zip")
