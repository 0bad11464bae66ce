"""FairQuant run again: bundled networks, both Bank domains, the running example, and tables of hand-made figures."""

import json

import numpy as np
import pytest

from evenhand.errors import DataError
from reproductions import fairquant
from reproductions.common import Context, read_results, reproduce
from support import shared

ABSENT = {"BM-2", "GC-3", "AC-3", "AC-9", *(f"compas-{i}" for i in range(1, 8))}


def run(undecided, falsified=0.0, seconds=1.0, counterexamples=3, unfair=(0.0, 1.0)):
    return {
        "certified": 1 - undecided - falsified,
        "falsified": falsified,
        "undecided": undecided,
        "unfair": list(unfair),
        "counterexamples": counterexamples,
        "cpu_seconds": seconds,
        "stopped_by": "depth",
    }


def both(interval, linear):
    return {"as published, interval": interval, "as published, linear": linear}


def select(figures, measure):
    return {figure.row: figure for figure in figures if figure.measure == measure}


def test_bundled_networks_are_the_published_ones():
    known = json.loads(shared("data", "certify", "expected.json").read_text("utf-8"))["networks"]
    for name, network in fairquant.NETWORKS.items():
        paper = known.get(name, {}).get("paper")
        if paper is not None:
            assert float(network["certified"]) == paper["certified_pct"]
            assert float(network["undecided"]) == paper["undecided_pct"]
            assert int(network["counterexamples"]) == paper["counterexamples"]
        if name in ABSENT:
            continue
        with np.load(shared("data", "certify", f"{name}.npz")) as arrays:
            layers = fairquant.read_layers(name)
            for i, (weights, bias) in enumerate(layers):
                assert (weights == arrays[f"W{i}"]).all()
                assert (bias == arrays[f"b{i}"]).all()
            assert len(arrays.files) == 2 * len(layers)


def test_domains_are_the_published_ones():
    known = json.loads(shared("data", "certify", "domains.json").read_text("utf-8"))
    for family, name in {"AC": "adult", "GC": "german", "BM": "bank", "compas": "compas"}.items():
        bounds = {one["name"]: (one["lower"], one["upper"]) for one in known[name]["attributes"]}
        found = fairquant.PUBLISHED["domains"][family]["bounds"]
        assert {attribute: tuple(ends) for attribute, ends in found.items()} == bounds
    faulty = [[one["lower"], one["upper"]] for one in known["bank_as_published"]["attributes"]]
    assert faulty == fairquant.PUBLISHED["bank_as_published"]


def test_the_faulty_bank_domain_compares_age_at_0_and_10():
    right, faulty = (fairquant.load_network("BM-6", faulty_bank=one) for one in (False, True))
    assert (faulty.parts[0].slope == 10 * right.parts[0].slope).all()
    assert [one.upper for one in faulty.schema.attributes][:3] == [1, 2, 6]
    assert faulty.schema.protected == right.schema.protected == ("age",)


def test_a_network_that_is_not_bundled_is_taken_from_the_data_folder(tmp_path):
    with pytest.raises(DataError, match="neither bundled nor in the data folder"):
        fairquant.certify_network("GC-3", Context(data_home=tmp_path))
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "GC-3.npz", W0=rng.normal(size=(20, 9)), b0=np.zeros(9), W1=np.ones((9, 1)), b1=np.zeros(1))
    sizes = fairquant.measure_sizes(Context(data_home=tmp_path))
    assert sizes["GC-3"] == {"inputs": 20, "hidden layers": 1, "hidden neurons": 9}
    assert {*fairquant.NETWORKS} - {*sizes} == ABSENT - {"GC-3"}
    np.savez(tmp_path / "GC-3.npz", W0=np.ones((3, 9)), b0=np.zeros(9))
    with pytest.raises(DataError, match="20 inputs"):
        fairquant.load_network("GC-3", tmp_path)
    (tmp_path / "GC-3.npz").write_text("no network")
    with pytest.raises(DataError, match="expected a network"):
        fairquant.load_network("GC-3", tmp_path)


def test_a_quick_run_finds_what_was_committed_of_sizes_and_the_running_example():
    found, kept = (
        reproduce(fairquant.PAPER, ["I", "figure 2", "figure 3"], Context(quick=True)),
        read_results("fairquant"),
    )
    for number in ("Figure 2", "Figure 3"):
        assert found["tables"][number] == kept["tables"][number]
        assert {one["verdict"] for one in found["tables"][number]} == {"agrees"}
    sizes = [one for one in found["tables"]["Table I"] if one["row"] not in ABSENT and one["measure"] != "accuracy"]
    assert len(sizes) == 3 * 21
    assert {one["verdict"] for one in sizes} == {"agrees"}


def test_a_network_is_certified_by_both_methods(monkeypatch):
    monkeypatch.setattr(fairquant, "QUICK_SECONDS", 0.2)
    found = fairquant.certify_network("BM-6", Context(quick=True))
    assert list(found) == [
        f"{domain}, {method}" for domain in ("as published", "as meant") for method in ("interval", "linear")
    ]
    for one in found.values():
        assert one["certified"] + one["falsified"] + one["undecided"] == pytest.approx(1)
    table = list(fairquant.compare_networks({"BM-6": found}))
    assert select(table, "undecided, on the Bank domain that was meant")["BM-6"].ours is not None
    assert select(table, PROOFS)["all networks"].ours.value == 0


PROOFS = "proved shares that contradict the estimate which the other method makes from a sample"


def test_an_interrupted_proof_is_not_kept(monkeypatch, tmp_path):
    certified = fairquant.certify(fairquant.load_network("AC-8"), max_boxes=1, jobs=1)
    stopped = certified.model_copy(update={"stopped_by": "interrupt"})
    monkeypatch.setattr(fairquant, "certify", lambda *args, **options: stopped)
    with pytest.raises(KeyboardInterrupt):
        fairquant.certify_network("AC-8", Context(quick=True))


def test_figures_are_judged_by_the_published_method():
    values = {
        "AC-1": both(run(0.0931), run(0.01)),
        "AC-2": both(run(0.1), run(0.01, counterexamples=0)),
        "AC-6": both(run(0.5, falsified=0.01), run(0.3)),
        "AC-8": both(run(0.3, counterexamples=0), run(0.2, counterexamples=0)),
    }
    table = list(fairquant.compare_networks(values))
    verdicts = {row: figure.verdict for row, figure in select(table, "undecided").items() if figure.ours}
    assert verdicts == {"AC-1": "agrees", "AC-2": "better", "AC-6": "differs", "AC-8": "better"}
    assert select(table, "falsified")["AC-6"].verdict == "better"
    assert select(table, "undecided, by Fairify")["AC-1"].verdict == "better"
    found = select(table, "a counterexample was found (1) or not (0)")
    assert (found["AC-2"].verdict, found["AC-8"].verdict) == ("agrees", "differs")
    assert all(figure.note for figure in table if figure.verdict in ("differs", "not compared"))


def test_times_are_compared_by_their_order():
    rows = {name: row["time"] for name, row in fairquant.NETWORKS.items() if row["tool_seconds"] and name[:2] == "AC"}
    seconds = {name: float(time[:-1]) * (60 if time.endswith("m") else 1) for name, time in rows.items()}
    measure = "rank correlation of our times with the published ones"
    for sign, verdict in ((1, "agrees"), (-1, "differs")):
        found = {name: both(run(0.5, seconds=value**sign), run(0.5)) for name, value in seconds.items()}
        (figure,) = select(fairquant.compare_networks(found), measure).values()
        assert figure.verdict == verdict
        assert sign * figure.ours.value > 0.98
    assert select(fairquant.compare_networks({}), measure) == {}


@pytest.mark.parametrize(
    ("interval", "linear", "count"),
    [
        (run(0.5, falsified=0.2), run(0.5, unfair=(0.05, 0.1)), 1),
        (run(0.01), run(0.5, unfair=(0.05, 0.1)), 1),
        (run(0.1), run(0.5, unfair=(0.05, 0.1)), 0),
    ],
)
def test_a_proof_beyond_the_estimate_is_counted(interval, linear, count):
    (figure,) = select(fairquant.compare_networks({"AC-1": both(interval, linear)}), PROOFS).values()
    assert (figure.ours.value, figure.verdict) == (count, "differs" if count else "not compared")


def test_every_network_on_which_both_tools_finished_is_drawn():
    table = list(fairquant.compare_drawing({"AC-1": both(run(0.08), run(0.01))}))
    rows = [(figure.row, figure.at) for figure in table if figure.measure == "undecided"]
    assert len(rows) == 2 * 29
    assert {at for _, at in rows} == {float(at) for at in range(1, 30)}
