"""FairQuant run again: bundled networks, both Bank domains, the running example, and tables of hand-made figures."""

import json

import numpy as np
import pytest

from evenhand.errors import DataError
from reproductions import load_paper
from reproductions.comparison import PieceContext, reproduce_paper
from reproductions.fairquant import PAPER, networks, pieces, published, tables
from support import shared

ABSENT = {"BM-2", "GC-3", "AC-3", "AC-9", *(f"compas-{i}" for i in range(1, 8))}


def quiet(what, share):
    pass


def run(undecided, falsified=0.0, seconds=1.0, counterexamples=3, unfair=(0.0, 1.0)):
    return {
        "certified": 1 - undecided - falsified, "falsified": falsified, "undecided": undecided, "unfair": list(unfair),
        "counterexamples": counterexamples, "boxes": 9, "cpu_seconds": seconds, "method": "linear",
        "stopped_by": "depth",
    }  # fmt: skip


def both(interval, linear):
    return {"as published, interval": interval, "as published, linear": linear}


def figures(table, measure):
    return {figure.row: figure for figure in table.figures if figure.measure == measure}


def test_bundled_networks_are_the_published_ones():
    known = json.loads(shared("data", "certify", "expected.json").read_text("utf-8"))["networks"]
    for network in published.NETWORKS:
        paper = known.get(network.name, {}).get("paper")
        if paper is not None:
            assert network.fairquant.certified == paper["certified_pct"]
            assert network.fairquant.undecided == paper["undecided_pct"]
            assert network.fairquant.counterexamples == paper["counterexamples"]
        if network.name in ABSENT:
            continue
        with np.load(shared("data", "certify", f"{network.name}.npz")) as arrays:
            layers = networks._read_layers(network.name, None)
            for i, (weights, bias) in enumerate(layers):
                assert (weights == arrays[f"W{i}"]).all()
                assert (bias == arrays[f"b{i}"]).all()
            assert len(arrays.files) == 2 * len(layers)


def test_domains_are_the_published_ones():
    known = json.loads(shared("data", "certify", "domains.json").read_text("utf-8"))
    for family, name in {"AC": "adult", "GC": "german", "BM": "bank", "compas": "compas"}.items():
        bounds = {one["name"]: (one["lower"], one["upper"]) for one in known[name]["attributes"]}
        assert networks.DOMAINS[family].bounds == bounds
    faulty = tuple((one["lower"], one["upper"]) for one in known["bank_as_published"]["attributes"])
    assert faulty == networks.BANK_AS_PUBLISHED


def test_the_faulty_bank_domain_compares_age_at_0_and_10():
    right, faulty = (networks.load_network("BM-6", None, faulty_bank=one) for one in (False, True))
    assert (faulty.parts[0].slope == 10 * right.parts[0].slope).all()
    assert [one.upper for one in faulty.schema.attributes][:3] == [1, 2, 6]
    assert faulty.schema.protected == right.schema.protected == ("age",)


def test_a_network_that_is_not_bundled_is_taken_from_the_data_folder(tmp_path):
    with pytest.raises(DataError, match="neither bundled nor in the data folder"):
        pieces.run_network("GC-3", PieceContext(data_home=tmp_path), quiet)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "GC-3.npz", W0=rng.normal(size=(20, 9)), b0=np.zeros(9), W1=np.ones((9, 1)), b1=np.zeros(1))
    sizes = pieces.run_sizes(PieceContext(data_home=tmp_path), quiet)
    assert sizes["GC-3"] == {"inputs": 20, "hidden layers": 1, "hidden neurons": 9}
    assert {name for name, found in sizes.items() if "missing" in found} == ABSENT - {"GC-3"}
    np.savez(tmp_path / "GC-3.npz", W0=np.ones((3, 9)), b0=np.zeros(9))
    with pytest.raises(DataError, match="20 inputs"):
        networks.load_network("GC-3", tmp_path)
    (tmp_path / "GC-3.npz").write_text("no network")
    with pytest.raises(DataError, match="expected a network"):
        networks.load_network("GC-3", tmp_path)


def test_sizes_agree_with_table_1():
    table = tables.compare_sizes({"sizes": pieces.run_sizes(PieceContext(), quiet)})
    assert table.verdict == "agrees"
    assert {figure.row for figure in table.figures if figure.verdict == "not compared"} == {
        network.name for network in published.NETWORKS
    }  # all accuracies
    assert figures(table, "hidden neurons")["BM-4"].verdict == "agrees"
    assert figures(table, "hidden neurons")["GC-3"].verdict == "not compared"


def test_the_running_example_agrees():
    found = reproduce_paper(PAPER, tables=["figure 2", "figure 3"])
    assert [table.verdict for table in found.tables] == ["agrees", "agrees"]
    assert all(figure.default is not None for table in found.tables for figure in table.figures)


def test_a_network_is_certified_by_both_methods(monkeypatch):
    monkeypatch.setattr(pieces, "QUICK_SECONDS", 0.2)
    found = pieces.run_network("BM-6", PieceContext(quick=True), quiet)
    assert list(found) == [f"{domain}, {method}" for domain in ("as published", "as meant") for method in
                           ("interval", "linear")]  # fmt: skip
    for one in found.values():
        assert one["certified"] + one["falsified"] + one["undecided"] == pytest.approx(1)
        assert one["cpu_seconds"] < 20
    assert tables._count_contradictions(found) == 0
    table = tables.compare_networks({"BM-6": found})
    assert figures(table, "undecided, on the Bank domain that was meant")["BM-6"].ours is not None


def test_an_interrupted_proof_is_not_kept(monkeypatch, tmp_path):
    certified = pieces.certify(networks.load_network("AC-8", None), max_boxes=1, jobs=1)
    stopped = certified.model_copy(update={"stopped_by": "interrupt"})
    monkeypatch.setattr(pieces, "certify", lambda *args, **options: stopped)
    paper = PAPER._replace(pieces=tuple(one for one in PAPER.pieces if one.name in ("sizes", "AC-8")))
    found = reproduce_paper(paper, context=PieceContext(quick=True), folder=tmp_path)
    assert found.interrupted
    assert {path.stem for path in tmp_path.glob("*.json")} == {"sizes"}


def test_figures_are_judged_by_the_published_method():
    values = {
        "AC-1": both(run(0.0931), run(0.01)),
        "AC-2": both(run(0.1), run(0.01, counterexamples=0)),
        "AC-6": both(run(0.5, falsified=0.01), run(0.3)),
        "AC-8": both(run(0.3, counterexamples=0), run(0.2, counterexamples=0)),
    }
    table = tables.compare_networks(values)
    verdicts = {row: figure.verdict for row, figure in figures(table, "undecided").items() if figure.ours}
    assert verdicts == {"AC-1": "agrees", "AC-2": "better", "AC-6": "differs", "AC-8": "better"}
    assert figures(table, "falsified")["AC-6"].verdict == "better"
    assert figures(table, "undecided, by Fairify")["AC-1"].verdict == "better"
    assert figures(table, "a counterexample was found (1) or not (0)")["AC-2"].verdict == "agrees"
    assert figures(table, "a counterexample was found (1) or not (0)")["AC-8"].verdict == "differs"
    assert table.because.startswith("Of the 4 networks that are here, the published method leaves 2 less undecided")
    assert "1 as much and 1 more; the default method leaves 4 no more undecided" in table.because
    assert all(figure.because for figure in table.figures if figure.verdict in ("differs", "not compared"))


def test_times_are_compared_by_their_order():
    names = [name for name in published.TOOL_SECONDS if name.startswith("AC")]
    by_name = {network.name: network.fairquant.seconds for network in published.NETWORKS}
    alike = {name: both(run(0.5, seconds=by_name[name] / 9), run(0.5)) for name in names}
    reverse = {name: both(run(0.5, seconds=1 / by_name[name]), run(0.5)) for name in names}
    (figure,) = tables._time_order(alike)
    assert (figure.verdict, figure.ours.value) == ("agrees", 1)
    (figure,) = tables._time_order(reverse)
    assert figure.verdict == "differs"
    assert list(tables._time_order({})) == []


def test_a_proof_beyond_the_estimate_is_counted():
    assert tables._count_contradictions(both(run(0.5, falsified=0.2), run(0.5, unfair=(0.05, 0.1)))) == 1
    assert tables._count_contradictions(both(run(0.01), run(0.5, unfair=(0.05, 0.1)))) == 1
    assert tables._count_contradictions(both(run(0.1), run(0.5, unfair=(0.05, 0.1)))) == 0


def test_every_network_on_which_both_tools_finished_is_drawn():
    table = tables.compare_drawn({"AC-1": both(run(0.08), run(0.01))})
    rows = [(figure.row, figure.at) for figure in table.figures if figure.measure == "undecided"]
    assert len(rows) == 2 * 29
    assert {at for _, at in rows} == {float(at) for at in range(1, 30)}
    assert table.verdict == "better"


def test_every_table_stands_without_its_pieces():
    for table in PAPER.tables:
        compared = table.compare({})
        assert compared.number == table.number
        assert compared.verdict == "not compared"
        assert compared.because or compared.figures
    assert load_paper("fairquant") is PAPER
