"""Certificates with values of the wrong type or range are rejected, whatever they are; the checker never crashes."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import tracemalloc
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import integer, random_case, schema_of
from forgery import MAGIC, closed, opened
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_forgeries import small_network
from test_tree_certificate_files import by_hand

from evenhand import certification, checker
from evenhand.checker import reading
from evenhand.checker.question import AskedQuestion
from evenhand.models import AdditiveNetwork, TreeEnsemble
from evenhand.models.additive.network import network_from_dense
from evenhand.population.independent import Marginal, ProductPopulation
from evenhand.schema import Schema
from support import scaled

REMOVED = "(removed)"
VALUES = [None, "x", "", -1, 0, 3, True, 0.5, 1e308, 10**400, math.nan, math.inf, -math.inf]
VALUES += [[], {}, [None], ["x"], [-1.0], {"x": 1}, REMOVED]
DEEPEST = 3
"""Levels of the header in which values are replaced."""


def number_network(layers: int) -> AdditiveNetwork:
    attribute = {"kind": "integer", "lower": 0}
    attributes = [{"name": "a", "upper": 3, **attribute}, {"name": "sex", "upper": 1, "protected": True, **attribute}]
    schema = Schema.parse({"target": {"name": "y", "kind": "number"}, "attributes": attributes})
    parts = [(np.array([[1.0], [0.5]]), np.zeros(1)), (np.ones((1, 1)), np.zeros(1))]
    return network_from_dense(schema, parts[:layers], classes=())


KINDS: dict[str, dict[str, Any]] = {
    "labels of mixed attributes": {"model": lambda: random_case(8, real=True).network},
    "tolerance of a score": {"model": small_network, "tolerance": 0.2},
    "tolerance of a number": {"model": lambda: number_network(2), "tolerance": 0.25},
    "tolerance of a linear number": {"model": lambda: number_network(1), "tolerance": 0.25},
    "outcomes": {"model": small_network, "bands": (0.3, 0.6), "outcomes": 3},
    "trees": {"model": by_hand},
    "bands of trees": {"model": by_hand, "bands": (0.3, 0.6)},
}


@cache
def model_of(kind: str) -> AdditiveNetwork | TreeEnsemble:
    return KINDS[kind]["model"]()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of each kind."""
    folder = tmp_path_factory.mktemp("certificates")
    for number, (kind, options) in enumerate(KINDS.items()):
        asked = {name: value for name, value in options.items() if name != "model"}
        options = {"enumeration": False, "max_boxes": 60, "jobs": 1, "samples": 5, **asked}
        certification.certify(model_of(kind), certificate=folder / f"{number}.cert", **options)
    return folder


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of a value and of all values in it."""
    yield at
    if len(at) < DEEPEST and isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """Return a copy in which the value at a place is another one, or is removed."""
    if not place:
        return new
    changed = copy.deepcopy(value)
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    if new == REMOVED and isinstance(new, str):
        del holder[place[-1]]
    else:
        holder[place[-1]] = new
    return changed


def check(path: Path, kind: str) -> checker.CertificateCheck:
    asked = {name: KINDS[kind][name] for name in ("tolerance", "bands", "where") if name in KINDS[kind]}
    question = AskedQuestion(**asked)
    return checker.check_certificate(path, model_of(kind), question, sample=2, seed=0)


def changed_file(folder: Path, kind: str, part: str, place: tuple[Any, ...], new: Any) -> Path:
    certificate = opened(folder / f"{list(KINDS).index(kind)}.cert")
    if part == "head":
        object.__setattr__(certificate, "head", replaced(certificate.head, place, new))
    else:
        certificate.questions[0].totals = replaced(certificate.totals, place, new)
    path = folder / "changed.cert"
    closed(certificate, path)
    return path


@settings(
    max_examples=scaled(600),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_replaced_value_gets_a_verdict(folder, data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    part = data.draw(st.sampled_from(["head", "head", "head", "totals"]))
    certificate = opened(folder / f"{list(KINDS).index(kind)}.cert")
    held = certificate.head if part == "head" else certificate.totals
    place = data.draw(st.sampled_from(list(places(held))))
    new = data.draw(st.sampled_from(VALUES[:-1] if not place else VALUES))
    found = check(changed_file(folder, kind, part, place, new), kind)
    assert found.verdict in ("confirmed", "restricted", "rejected", "not confirmed")
    assert (found.verdict == "rejected") == (found.fault is not None) == (found.certified is None)


@pytest.mark.parametrize("kind", KINDS)
def test_unchanged_certificates_are_confirmed(folder, kind):
    assert check(folder / f"{list(KINDS).index(kind)}.cert", kind).verdict == "confirmed"


@pytest.mark.parametrize(
    ("kind", "place", "new"),
    [
        ("tolerance of a number", ("tolerance",), None),
        ("tolerance of a linear number", ("tolerance",), None),
        ("tolerance of a score", ("attributes", 0, "first"), -math.inf),
        ("tolerance of a score", ("attributes", 0, "last"), math.nan),
        ("labels of mixed attributes", ("schema", "attributes"), []),
        ("trees", ("schema",), None),
    ],
)
def test_certificates_that_name_no_question_are_rejected(folder, kind, place, new):
    assert check(changed_file(folder, kind, "head", place, new), kind).verdict == "rejected"


def section(tag: bytes, payload: bytes) -> bytes:
    body = tag + len(payload).to_bytes(8, "little") + payload
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("text", [b"[" * 100_000, b"nothing", b'{"a": ' * 50_000, b"\xff\xfe", b""])
def test_headers_that_cannot_be_parsed_are_rejected(tmp_path, text):
    (tmp_path / "c.cert").write_bytes(MAGIC + section(b"HEAD", zlib.compress(text)))
    assert check(tmp_path / "c.cert", "trees").verdict == "rejected"


@pytest.mark.parametrize("cells", [{"form": "bins"}, {"form": "runs", "weights": "listed"}, {"form": "even"}])
def test_billions_of_cells_are_rejected_before_they_are_listed(tmp_path, cells):
    schema = schema_of([{"name": "x", "kind": "real", "lower": 0, "upper": 1}, integer("p", 0, 1, protected=True)])
    network = network_from_dense(schema, [(np.array([[1.0], [0.5]]), np.array([-0.7]))])
    path = tmp_path / "c.cert"
    certification.certify(network, certificate=path, enumeration=False, max_boxes=5, jobs=1, samples=5)
    certificate = opened(path)
    certificate.head["attributes"][0] |= {"cells": 2**31 - 1} | cells
    certificate.cells = [] if cells["form"] == "even" else [zlib.compress(bytes(2**25))] * 3
    certificate.kinds = ["<u4"]
    closed(certificate, path)
    marginals = Marginal(schema["x"], np.array([0.3, 0.7])), Marginal(schema["p"], np.array([0.5, 0.5]))
    question = AskedQuestion(population=ProductPopulation("some people", schema, marginals))
    tracemalloc.start()
    found = checker.check_certificate(path, network, question)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.verdict == "rejected"
    assert "too many" in str(found.fault)
    assert peak < 5e7


def test_blocks_that_unpack_to_too_much_are_rejected_before_they_fill_the_memory(folder, tmp_path, monkeypatch):
    it = opened(folder / "1.cert")
    head = section(b"HEAD", zlib.compress(json.dumps(it.head).encode()))
    boxes = (60_000).to_bytes(4, "little") + bytes(60_000 * (2 * len(it.kinds) + 8))
    data = MAGIC + head + 500 * section(b"BOXS", zlib.compress(boxes))
    assert len(data) < 1e6
    (tmp_path / "c.cert").write_bytes(data)
    monkeypatch.setattr(reading, "MAX_UNPACKED", 2**23)
    tracemalloc.start()
    found = check(tmp_path / "c.cert", "tolerance of a score")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.verdict == "rejected"
    assert "8,388,608 bytes" in str(found.fault)
    assert peak < 5e7
