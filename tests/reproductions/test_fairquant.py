"""The papers on FairQuant and MAFT."""

import json

import numpy as np
import pytest
from scipy.stats import f_oneway

from evenhand.errors import DataError
from reproductions import fairquant, maft
from reproductions import maft_networks as benchmarks
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


def verdicts(figures):
    return {(figure.row, figure.measure): figure.verdict for figure in figures}


@pytest.fixture(scope="module")
def german():
    return benchmarks.load_benchmark("G-g")


def people_of(bench, n=20):
    return bench.space.seeds(n, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["adult", "bank", "german", "diabetes", "meps15", "bank_EIDIG_INF_retrained"])
def test_bundled_networks_answer_as_published(name):
    with np.load(shared("data", "testing", "models", f"{name}_check.npz")) as arrays:
        rows, answers, slope = (arrays[key].astype(np.float64) for key in ("X", "prob", "dprob_dx"))
    network = benchmarks.load_network(name)
    assert np.abs(network.probability(rows) - answers).max() < 1e-5
    sign = np.where(answers > 0.5, 1.0, -1.0)[:, None]
    assert np.abs(sign * network.gradient(rows) - slope).max() < 1e-4


def test_bundled_people_and_limits_are_those_of_the_benchmarks():
    for name in (*benchmarks.BUNDLED, *benchmarks.JOINT):
        bench = benchmarks.load_benchmark(name)
        assert bench.with_people == (name[0] != "M")
        assert len(bench.space.protected) == 1 + (name in benchmarks.JOINT)
        if bench.with_people:
            assert bench.source.schema.contains(bench.source.individuals).all()
    rows, labels = benchmarks.load_tested("german")
    right = (benchmarks.load_network("german").decides(rows) == (labels == 1)).mean()
    assert right == pytest.approx(0.7825)
    assert benchmarks.load_tested("meps15") is None


def test_both_algorithms_estimate_the_same(german):
    rows = people_of(german)
    assert np.abs(german.network.estimate(rows, 1.0) - german.network.estimate_one_by_one(rows, 1.0)).max() < 1e-5


def test_estimates_come_near_gradients_where_single_precision_allows(german):
    rows = people_of(german)
    true = german.network.gradient(rows)
    assert maft.cosines(german.network.estimate(rows, 1e-3), true).mean() > 0.999
    assert maft.cosines(german.network.estimate(rows, 1e-9), true).mean() < 0.5
    assert maft.cosines(german.network.gradient(rows, loss=True), true) == pytest.approx(1.0)


def test_similarity_counts_what_is_zero():
    one = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    other = np.array([[0.0, 2.0], [0.0, 0.0], [1.0, 0.0], [2.0, 2.0]])
    assert maft.cosines(one, other) == pytest.approx([0.0, 1.0, 0.0, 1.0])


def test_moves_and_probabilities_of_a_pair():
    pair = np.array([[[1.0, -2.0, 3.0]], [[2.0, 1.0, 3.0]]])
    assert maft.direct(pair).tolist() == [[-1.0, 0.0, -1.0]]
    weights = maft.weigh(pair)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0, 0] / weights[0, 2] == pytest.approx(2.0, rel=1e-5)


def test_the_same_profile_under_two_protected_values_is_two_instances(german):
    oracle = maft.CountingOracle(german)
    profiles, _ = german.space.split(people_of(german, 400))
    network = german.network
    labels = np.stack(
        [network.decides(german.space.rows_as(profiles, np.full(len(profiles), which))) for which in range(4)]
    )
    found = profiles[labels.any(axis=0) & ~labels.all(axis=0)][:1]
    assert len(found) == 1, "no person in the data is discriminated against"
    oracle.own = np.array([0, 3, 3])
    oracle.ask(np.repeat(found, 3, axis=0))
    assert oracle.count_instances() == 2
    assert len(oracle.findings.reportable()) == 1
    assert (oracle.tried, oracle.flipped) == (3, 3)


@pytest.mark.parametrize("method", ["AEQUITAS", "ADF", "EIDIG", "MAFT"])
def test_counts_of_a_search_fit_together(german, method):
    found = maft.run_search(german, method, people_of(german), np.random.default_rng(1), local=20)
    assert found["tried"] >= found["flipped"] >= found["instances"] >= found["profiles"] >= found["plausible"]
    assert found["profiles"] > 0
    again = maft.run_search(german, method, people_of(german), np.random.default_rng(1), local=20)
    assert {**found, "seconds": 0} == {**again, "seconds": 0}


def test_our_own_search_keeps_to_its_questions_and_to_people_who_can_be(german):
    found = maft.run_default(german, 2000, 0, quick=True)
    assert found["queries"] <= 2000
    assert found["plausible"] == found["profiles"] > 0


def test_the_log_of_the_authors_is_copied_truly():
    speeds = {
        (name, method): np.mean([count / seconds for count, seconds in rounds])
        for name, methods in maft.LOGGED.items()
        for method, rounds in methods.items()
    }
    means = {"C-a": (24.9328, 15.1489), "C-r": (26.3779, None), "C-g": (34.0077, None), "G-g": (None, 15.4294)}
    means |= {"G-a": (24.7771, None), "B-a": (None, 20.0250)}
    for name, published in means.items():
        for method, mean in zip(("MAFT", "AEQUITAS"), published, strict=True):
            assert mean is None or speeds[name, method] == pytest.approx(mean, abs=1e-3)


def test_runs_of_the_authors_programs_are_copied_truly():
    known = json.loads(shared("data", "testing", "expected.json").read_text("utf-8"))
    runs = {
        (one["bench"], one["method"]): one["uniq_profiles"]
        for one in known["effectiveness"] + known["keras_runs"]
        if (one["g"], one["l"]) == (100, 100)
    }
    for name, counts in maft.PUBLISHED["program"].items():
        assert {method: runs[name, method] for method in counts} == counts
    for name, similar in maft.PUBLISHED["similarities"].items():
        row = known["gradient_similarity"][name]
        assert [row["grad_h1.0"], row["dir_h1.0"], row["prob_h1.0"]] == list(similar.values())


def run_of(instances):
    counted = {"instances": 1, "profiles": 1, "plausible": 1 / 4, "tried": 2, "flipped": 1.5, "queries": 8}
    return {name: int(factor * instances) for name, factor in counted.items()} | {"seconds": 1.0}


def numbers_of(**runs):
    return {"runs": runs, "seeds": 1000, "local": 1000}


def test_long_counts_are_compared_with_the_log():
    logged = [run_of(count) for count, _ in maft.LOGGED["C-a"]["MAFT"]]
    few = [run_of(one) for one in (100_000, 101_000, 99_000)]
    piece = numbers_of(AEQUITAS=[run_of(6200)] * 3, ADF=few, EIDIG=few, MAFT=logged, default=[run_of(9)] * 3)
    found = list(maft.compare_numbers({"numbers-C-a": piece}))
    assert verdicts(found)["C-a, MAFT", "instances"] == "agrees"
    assert verdicts(found)["C-a, ADF", "instances"] == "not compared"
    fewer = numbers_of(AEQUITAS=few, ADF=few, EIDIG=few, MAFT=few, default=[run_of(9)] * 3)
    found = list(maft.compare_numbers({"numbers-C-a": fewer}))
    assert verdicts(found)["C-a, MAFT", "instances"] == "differs"
    small = {**fewer, "seeds": 200, "local": 200}
    found = list(maft.compare_numbers({"numbers-C-a": small}))
    assert verdicts(found)["C-a, MAFT", "instances"] == "not compared"


def test_a_mean_of_runs_has_students_interval():
    own, half = maft.average([11.0, 12.0, 13.0]), 4.3027 / 3**0.5
    assert (own.value, own.low, own.high) == pytest.approx((12.0, 12.0 - half, 12.0 + half), abs=1e-3)
    assert maft.average([1.0, 9.0]).low == 0
    assert maft.average([5.0]).low is None


@pytest.fixture
def checkout(tmp_path):
    """As the authors' repository has Heart Health: a table of codes, and a network of Keras."""
    h5py = pytest.importorskip("h5py", reason="Keras files are read with h5py (extra keras)")
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.integers(2, 7, 200), rng.integers(0, 2, (200, 2)), rng.integers(0, 2, 200)])
    place = tmp_path / "datasets" / "heart_disease"
    place.parent.mkdir()
    place.write_text("0,1,2,3\n" + "".join(",".join(map(str, row)) + "\n" for row in rows), "utf-8")
    model = tmp_path / "models" / "original_models" / "heart_model.h5"
    model.parent.mkdir(parents=True)
    units = ((3, 4, "relu"), (4, 1, "sigmoid"))
    layers = [
        {"class_name": "Dense", "config": {"name": f"dense_{i}", "units": after, "activation": name, "use_bias": True}}
        for i, (_, after, name) in enumerate(units)
    ]
    with h5py.File(model, "w") as file:
        config = {"class_name": "Sequential", "config": {"name": "sequential", "layers": layers}}
        file.attrs["model_config"] = json.dumps(config)
        for i, (before, after, _) in enumerate(units):
            group = file.create_group(f"model_weights/dense_{i}/dense_{i}")
            group["kernel:0"] = rng.normal(size=(before, after)).astype(np.float32)
            group["bias:0"] = np.zeros(after, dtype=np.float32)
    return tmp_path


def test_a_checkout_of_the_authors_brings_the_benchmarks_that_are_not_bundled(checkout):
    bench = benchmarks.load_benchmark("H-a", data_home=checkout)
    assert bench.space.protected == ("0",)
    assert len(bench.source.individuals) == 120
    assert bench.source.schema.contains(bench.source.individuals).all()
    rows = bench.source.individuals
    assert (bench.model.predict(rows) == bench.network.decides(rows)).all()
    found = maft.measure_slopes("H-g", Context(quick=True, data_home=checkout))
    assert found["people"] == 120


def test_a_quick_run_finds_the_networks_as_committed_and_names_those_that_need_a_checkout():
    found, kept = reproduce(maft.PAPER, ["table 1", "table 2"], Context(quick=True)), read_results("maft")
    assert {number: found["tables"][number] for number in ("Table 1", "Table 2")} == {
        number: kept["tables"][number] for number in ("Table 1", "Table 2")
    }
    assert "not bundled" in found["left_out"]["checkout"]
    rows = {one["row"]: one for one in found["tables"]["Table 2"] if one["measure"] == "accuracy"}
    assert (rows["German Credit"]["verdict"], rows["Heart Health"]["verdict"]) == ("agrees", "not compared")
    assert "checkout" in rows["Students"]["note"]


def test_equal_means_are_tested_as_by_scipy():
    rng = np.random.default_rng(5)
    groups = [rng.normal(shift, 1.0, size).tolist() for shift, size in ((0.0, 7), (0.4, 12), (1.0, 5))]
    assert maft.equal_means_p_value(groups) == pytest.approx(f_oneway(*groups).pvalue, rel=1e-9)
    assert maft.equal_means_p_value([[1.0, 1.0], [1.0, 1.0]]) == 1.0
    assert maft.equal_means_p_value([[1.0, 1.0], [2.0, 2.0]]) == 0.0
