"""Shields on the command line: made, looked at, replayed, simulated."""

import csv
import hashlib
import json
import random

import pytest

from evenhand.shields import Shield, ShieldSimulationResult
from evenhand.shields.policy import file

CONFIG = """\
{property: demographic_parity, kappa: "0.2", horizon: 20, kind: finite, empty_group: zero, cost: 1.0,
 groups: {a: {rate: 0.3, accept: 0.35, label: 0.4}, b: {rate: 0.7, accept: 0.6, label: 0.6}}}
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "shield.yaml").write_text(CONFIG)
    return tmp_path / "shield.yaml"


@pytest.fixture
def policy(evenhand, config, tmp_path):
    evenhand("shield", "synthesize", "--config", config, "--save", tmp_path / "p.shield", "--quiet")
    return tmp_path / "p.shield"


def test_the_json_of_synthesis(evenhand, config, tmp_path):
    ran = evenhand("shield", "synthesize", "--config", config, "--save", tmp_path / "p.shield", "--json", "-")
    assert list(ran.json) == ["kind", "expected_cost", "states", "bytes", "seconds"]
    policy = file.load_policy(tmp_path / "p.shield")
    assert ran.json["kind"] == "shield"
    assert ran.json["expected_cost"] == policy.expected_cost > 0
    assert ran.json["states"] == policy.states > 1000
    assert ran.json["bytes"] == policy.bytes > 0
    assert ran.json["seconds"] == policy.seconds > 0


def test_synthesis_without_a_file(evenhand, config, tmp_path):
    assert evenhand(f"shield synthesize --config {config} --json {tmp_path / 'made.json'} --quiet").out == ""
    assert json.loads((tmp_path / "made.json").read_text())["kind"] == "shield"
    assert {path.name for path in tmp_path.iterdir()} == {"shield.yaml", "made.json"}


@pytest.mark.parametrize("kind", ["static-fair", "static-bw", "dynamic", "feasible", "greedy"])
def test_every_kind_is_made_and_looked_at(evenhand, config, tmp_path, kind):
    config.write_text(CONFIG.replace("finite", kind))
    out = tmp_path / "p.shield"
    made = evenhand("shield", "synthesize", "--config", config, "--save", out, "--json", "-")
    assert (made.json["expected_cost"] is None) == (kind == "greedy")
    seen = evenhand("shield", "inspect", out)
    assert f"kind {kind}" in " ".join(seen.out.split())
    assert ("Nothing is guaranteed" in seen.out) == (kind == "greedy")


@pytest.mark.parametrize(
    ("change", "complaints"),
    [
        (('"0.2"', '"0,2"'), ["shield.yaml, kappa: kappa '0,2' is not a number"]),
        (("kind: finite", "checks: anytime, empty_grp: zero"), ["no entry 'empty_grp'", "did you mean 'empty_group'?"]),
        (("kind: finite", "start: {a: [9, 9], b: [9, 0]}"), ["no shield can guarantee"]),
    ],
)
def test_bad_configurations(refuses, config, tmp_path, change, complaints):
    config.write_text(CONFIG.replace(*change))
    out = tmp_path / "p.shield"
    refuses([*complaints], "shield synthesize", "--config", config, "--save", out, "--json", "-")
    assert not out.exists()


def test_places_that_cannot_be_written(refuses, config, policy, tmp_path):
    nowhere = tmp_path / "no" / "p"
    refuses("--save: there is no folder", "shield synthesize", "--config", config, "--save", nowhere)
    command = f"shield synthesize --config {config} --save {tmp_path / 'q.shield'} --json {nowhere}"
    refuses("--json: there is no folder", command)
    assert not (tmp_path / "q.shield").exists()
    refuses("--html: there is no folder", "shield inspect", policy, "--html", nowhere)
    refuses("cannot be read", "shield synthesize", "--config", tmp_path / "absent.yaml")


def test_the_json_of_an_inspection(evenhand, policy):
    from evenhand.shields.simulation.inspection import ShieldInspection

    ran = evenhand("shield", "inspect", policy, "--json", "-")
    found = ShieldInspection.from_json(ran.out)
    assert found.verified is True
    assert found.file_bytes == policy.stat().st_size
    assert [end.time for end in found.ends] == [20]
    assert [group.name for group in found.groups] == ["a", "b"]


def test_an_unfair_table_is_exit_code_1(evenhand, policy):
    """As when kappa was edited in the file, and its checksum made anew."""
    head, arrays = file.unpack_container(policy.read_bytes(), location="p")
    head["plan"]["kappa"] = "0.05"
    head["expected_cost"] = 0.001
    policy.write_bytes(file.pack_container(head, arrays))
    ran = evenhand("shield", "inspect", policy, "--json", "-", code=1)
    found = json.loads(ran.out)
    assert found["verified"] is False
    assert found["stated_cost"] == 0.001 < found["expected_cost"]
    text = " ".join(evenhand("shield", "inspect", policy, code=1).out.split())
    assert "every run fair no proved on all ends" in text
    assert f"SHA-256 {hashlib.sha256(policy.read_bytes()).hexdigest()}" in text


def test_a_file_that_is_not_whole_is_not_looked_at(refuses, policy, tmp_path):
    page = tmp_path / "p.html"
    policy.write_bytes(policy.read_bytes()[:-1])
    refuses([str(policy), "it was truncated"], "shield inspect", policy, "--html", page)
    refuses([str(policy), "it was truncated"], "shield replay", policy, policy)
    assert not page.exists()
    refuses(["cannot be read", "shield synthesize"], "shield inspect", tmp_path / "nothing.shield")


def logged(policy, n=20, seed=0):
    shield, rng, rows = Shield(file.load_policy(policy)), random.Random(seed), []
    for i in range(n):
        group = rng.choice("ab")
        recommendation = int(rng.random() < (0.2 if group == "a" else 0.8))
        decision = shield.decide(group, recommendation, id=f"{i}").decision
        rows.append({"id": f"{i}", "group": group, "recommendation": recommendation, "decision": decision})
    assert shield.interventions > 0
    return rows


def in_lines(rows, path):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def in_a_table(rows, path):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(("write", "name"), [(in_lines, "log.jsonl"), (in_a_table, "log.csv")])
def test_a_log_is_replayed(evenhand, policy, tmp_path, write, name):
    rows = logged(policy)
    ran = evenhand("shield", "replay", policy, write(rows, tmp_path / name))
    assert "Identical: 20 decisions, 0 labels" in ran.out
    found = evenhand("shield", "replay", policy, tmp_path / name, "--json", "-")
    assert (found.json["same"], found.json["difference"]) == (True, None)
    assert found.json["interventions"] > 0
    assert found.json["certificate"]["bias"] <= 0.2

    rows[7]["decision"] ^= 1
    ran = evenhand("shield", "replay", policy, write(rows, tmp_path / name), "--json", "-", code=1)
    assert (ran.json["same"], ran.json["decisions"], ran.json["difference"]["entry"]) == (False, 7, 8)
    assert "Different: entry 8" in evenhand("shield", "replay", policy, tmp_path / name, code=1).out


def test_advice_is_replayed_as_advice(evenhand, policy, tmp_path):
    rows = [row | {"decision": row["recommendation"]} for row in logged(policy)]
    evenhand("shield", "replay", policy, in_lines(rows, tmp_path / "log"), "--quiet", code=1)
    assert evenhand("shield", "replay", policy, tmp_path / "log", "--advisory", "--quiet").out == ""


@pytest.mark.parametrize(("write", "name"), [(in_lines, "log.jsonl"), (in_a_table, "log.csv")])
def test_labels_beside_decisions_or_later(evenhand, config, tmp_path, write, name):
    config.write_text(CONFIG.replace("demographic_parity", "equal_opportunity").replace("horizon: 20", "horizon: 8"))
    policy = tmp_path / "p.shield"
    evenhand("shield", "synthesize", "--config", config, "--save", policy, "--quiet")
    shield, rng, beside = Shield(file.load_policy(policy)), random.Random(3), []
    for i in range(8):
        recommendation, label = rng.randint(0, 1), rng.randint(0, 1)
        decision = shield.decide("ab"[i % 2], recommendation, id=f"x{i}").decision
        shield.observe(f"x{i}", label)
        row = {"id": f"x{i}", "group": "ab"[i % 2], "recommendation": recommendation, "decision": decision}
        beside.append(row | {"label": label})
    apart = []
    for row in beside:
        apart += [
            {key: value for key, value in row.items() if key != "label"},
            {"id": row["id"], "label": row["label"]},
        ]
    for rows in (beside, apart):
        ran = evenhand("shield", "replay", policy, write(rows, tmp_path / name), "--json", "-")
        assert (ran.json["decisions"], ran.json["labels"]) == (8, 8)


def test_a_log_that_is_not_there(refuses, policy, tmp_path):
    refuses("log cannot be read", "shield replay", policy, tmp_path / "log.csv")
    refuses("log cannot be read", "shield replay", policy, tmp_path / "log.jsonl")


SIMULATION_CONFIG = """
property: {property}
kappa: "0.1"
horizon: {horizon}
kind: {kind}
groups:
  f: {{rate: 0.5, accept: 0.4, label: 0.5}}
  m: {{rate: 0.5, accept: 0.6, label: 0.5}}
"""


@pytest.fixture
def simulation_config(tmp_path):
    def write(kept="demographic_parity", horizon=20, kind="finite", more=""):
        path = tmp_path / "shield.yaml"
        path.write_text(SIMULATION_CONFIG.format(property=kept, horizon=horizon, kind=kind) + more)
        return path

    return write


def test_json_is_what_scripts_read(evenhand, simulation_config):
    ran = evenhand("shield", "simulate", "--config", simulation_config(), "--runs", "200", "--json", "-")
    assert ran.err == ""
    found = ran.json
    assert (found["kind"], found["runs"]) == ("shield-simulation", 200)
    assert found["fair_share"] == found["assumption_share"] == 1.0
    assert found["fair_share_unshielded"] < 0.8
    assert found["interventions_mean"] == found["cost_mean"] > 0
    assert found["kappa"] == "0.1"
    assert ShieldSimulationResult.from_json(ran.out).runs == 200
    again = evenhand("shield", "simulate", "--config", simulation_config(), "--runs", "200", "--json", "-").json
    assert again | {"seconds": 0} == found | {"seconds": 0}


def test_people_and_a_model(evenhand, simulation_config, case, tmp_path):
    page, file = tmp_path / "page.html", tmp_path / "out.json"
    command = f"shield simulate --protected sex --runs 300 --seed 3 --html {page} --json {file} --config"
    ran = evenhand(command, simulation_config(), *case.arguments)
    for said in (
        "Simulation of a shield (finite) on model.npz and people.csv",
        "fair after the shield    100 %",
        "fair before the shield",
        "accuracy lost",
        "next: ",
        str(page),
    ):
        assert said in ran.out
    found = json.loads(file.read_text())
    assert found["seed"] == 3
    assert found["groups"] == ["f", "m"]
    assert found["utility_loss"]["kind"] == "estimated"
    assert found["accuracy_unshielded"]["value"] - found["accuracy"]["value"] == pytest.approx(
        found["utility_loss"]["value"]
    )
    assert "<h1>Simulation of a shield (finite) on model.npz and people.csv</h1>" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model.npz"], "got MODEL alone"),
        (["MODEL", "DATA"], "name one attribute: --protected NAME"),
        (["--arrivals", "sideways"], "there is no order 'sideways'"),
        (["--periods", "3"], "ends at its horizon"),
        (["--html", "no/where.html"], "there is no folder"),
        (["MODEL", "DATA", "--protected", "region"], "'region' has no value 'f'"),
        (["MODEL", "DATA", "--protected", "grade"], "grade"),
        (["MODEL", "DATA", "--protected", "sexx"], "sexx"),
    ],
)
def test_bad_input_is_one_message_and_code_2(refuses, simulation_config, case, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    given = [{"MODEL": case.model, "DATA": case.data}.get(one, one) for one in arguments]
    if "MODEL" in arguments:
        given += ["--schema", case.schema]
    refuses(said, "shield simulate", "--config", simulation_config(), *given)


def test_a_configuration_that_is_none(refuses, tmp_path):
    refuses("none.yaml", "shield simulate", "--config", tmp_path / "none.yaml")


def test_workers_are_processes_or_a_cluster(evenhand, refuses, simulation_config):
    simulate = ("shield", "simulate", "--config", simulation_config())
    evenhand(*simulate, "--runs", 40, "--workers", 1)
    for wrong, said in (("many", "got 'many'"), ("0", "number of worker processes"), ("dask://127.0.0.1:1", "Dask")):
        refuses(said, *simulate, "--workers", wrong)


def test_kinds_in_place_of_the_one_in_the_file(evenhand, simulation_config, tmp_path):
    page = tmp_path / "kinds.html"
    ran = evenhand(
        "shield simulate --shield-kind dynamic --shield-kind finite --runs 30 --json - --config "
        f"{simulation_config()} --html {page}"
    )
    assert [one["shield"] for one in ran.json["simulations"]] == ["dynamic", "finite"]
    assert "<svg" in page.read_text()
    alone = evenhand(
        "shield", "simulate", "--config", simulation_config(), "--shield-kind", "dynamic", "--runs", "30", "--json", "-"
    )
    assert (alone.json["kind"], alone.json["shield"], alone.json["periods"]) == ("shield-simulation", "dynamic", 10)
    wrong = evenhand("shield", "simulate", "--config", simulation_config(), "--shield-kind", "energetic", code=2)
    assert "one of finite" in wrong.err
