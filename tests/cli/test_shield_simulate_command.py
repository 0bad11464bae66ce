"""`evenhand shield simulate` as a user runs it."""

import json

import pytest

from evenhand.shields import ShieldSimulationResult

CONFIG = """
property: {property}
kappa: "0.1"
horizon: {horizon}
kind: {kind}
groups:
  f: {{rate: 0.5, accept: 0.4, label: 0.5}}
  m: {{rate: 0.5, accept: 0.6, label: 0.5}}
"""


@pytest.fixture
def config(tmp_path):
    def write(kept="demographic_parity", horizon=20, kind="finite", more=""):
        path = tmp_path / "shield.yaml"
        path.write_text(CONFIG.format(property=kept, horizon=horizon, kind=kind) + more)
        return path

    return write


def test_json_is_what_scripts_read(evenhand, config):
    ran = evenhand("shield", "simulate", "--config", config(), "--runs", "200", "--json", "-")
    assert ran.err == ""
    found = ran.json
    assert (found["kind"], found["runs"], found["fair_share"], found["assumption_share"]) == (
        "shield-simulation",
        200,
        1.0,
        1.0,
    )
    assert found["fair_share_unshielded"] < 0.8
    assert found["interventions_mean"] == found["cost_mean"] > 0
    assert found["kappa"] == "0.1"
    assert ShieldSimulationResult.from_json(ran.out).runs == 200
    again = evenhand("shield", "simulate", "--config", config(), "--runs", "200", "--json", "-").json
    assert again | {"seconds": 0} == found | {"seconds": 0}


def test_people_and_a_model(evenhand, config, case, tmp_path):
    page, file = tmp_path / "page.html", tmp_path / "out.json"
    ran = evenhand(
        f"shield simulate --protected sex --runs 300 --seed 3 --config {config()} --html {page} --json {file}",
        *case.arguments,
    )
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
def test_bad_input_is_one_message_and_code_2(refuses, config, case, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    given = [{"MODEL": case.model, "DATA": case.data}.get(one, one) for one in arguments]
    if "MODEL" in arguments:
        given += ["--schema", case.schema]
    refuses(said, "shield simulate", "--config", config(), *given)


def test_a_configuration_that_is_none(refuses, tmp_path):
    refuses("none.yaml", "shield simulate", "--config", tmp_path / "none.yaml")


def test_workers_are_processes_or_a_cluster(evenhand, refuses, config):
    simulate = ("shield", "simulate", "--config", config())
    evenhand(*simulate, "--runs", 40, "--workers", 1)
    for wrong, said in (("many", "got 'many'"), ("0", "number of worker processes"), ("dask://127.0.0.1:1", "Dask")):
        refuses(said, *simulate, "--workers", wrong)


def test_kinds_in_place_of_the_one_in_the_file(evenhand, config, tmp_path):
    page = tmp_path / "kinds.html"
    ran = evenhand(
        "shield simulate --shield-kind dynamic --shield-kind finite --runs 30 --json - --config "
        f"{config()} --html {page}"
    )
    assert [one["shield"] for one in ran.json["simulations"]] == ["dynamic", "finite"]
    assert "<svg" in page.read_text()
    alone = evenhand(
        "shield", "simulate", "--config", config(), "--shield-kind", "dynamic", "--runs", "30", "--json", "-"
    )
    assert (alone.json["kind"], alone.json["shield"], alone.json["periods"]) == ("shield-simulation", "dynamic", 10)
    wrong = evenhand("shield", "simulate", "--config", config(), "--shield-kind", "energetic", code=2)
    assert "one of finite" in wrong.err
