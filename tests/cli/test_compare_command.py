"""``evenhand compare``: two reports in, a page, Markdown, JSON and an exit code out."""

import json

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import evenhand as package
from evenhand import datasets, view


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Two models of German credit, audited on the same people."""
    german = datasets.load_dataset("german")
    people = german.frame[["age", "duration", "credit_amount", "sex"]].assign(
        sex=lambda frame: (frame["sex"] == "male").astype(int)
    )
    good = (german.frame[german.schema.target.name] == german.schema.target.favourable).astype(int)
    folder = tmp_path_factory.mktemp("reports")
    models = {"linear": LogisticRegression(max_iter=2000), "tree": DecisionTreeClassifier(max_depth=4, random_state=0)}
    for name, model in models.items():
        model.fit(people[:500], good[:500])
        found = package.audit(
            model, people[500:], good[500:], protected=["sex"], keep_decisions=True, max_boxes=1, model_name=name
        )
        view.write_report(found, folder / name)
    return folder


def test_two_models_on_german_credit(evenhand, reports, tmp_path):
    asked = ("compare", reports / "linear", reports / "tree" / "report.json")
    ran = evenhand(
        *asked, "--json", tmp_path / "c.json", "--html", tmp_path / "c.html", "--markdown", tmp_path / "c.md"
    )
    assert ran.code == 0, ran.err
    assert "tree, data, compared with linear, data" in " ".join(ran.out.split())
    found = json.loads((tmp_path / "c.json").read_text())
    assert (found["kind"], found["pairing"], found["schema_version"]) == ("comparison", "paired", 1)
    audits = [json.loads((reports / name / "report.json").read_text()) for name in ("linear", "tree")]
    values = [one["groups"]["overall"]["accuracy"]["value"] for one in audits]
    line = next(line for line in found["lines"] if line["name"] == "accuracy")
    assert line["change"]["value"] == pytest.approx(values[1] - values[0])
    assert line["pairing"] == "paired"
    flips = next(line for line in found["lines"] if line["name"] == "flip_rate")
    assert flips["pairing"] == "same people"
    assert "| number | before | after | change | verdict |" in (tmp_path / "c.md").read_text()
    page = (tmp_path / "c.html").read_text()
    assert "Evenhand compare" in page


def test_gates_decide_the_exit_code(evenhand, reports):
    asked = ("compare", reports / "linear", reports / "tree", "--quiet")
    assert evenhand(*asked, "--fail-on", "selection_rate > 1").code == 0
    ran = evenhand(*asked, "--fail-on", "accuracy > -1")
    assert ran.code == 1
    assert "this holds: accuracy > -1" in ran.err


@pytest.mark.parametrize(
    ("after", "options", "words"),
    [
        ("nowhere", [], "no such file"),
        ("broken.json", [], "not a AuditResult"),
        ("linear", ["--fail-on", "wrose > 0"], "did you mean 'worse'"),
        ("linear", ["--fail-on", "exposure_ratio < 1"], "this audit has no number called 'exposure_ratio'"),
        ("linear", ["--confidence", "2"], "--confidence"),
        ("linear", ["--markdown", "nowhere/c.md"], "there is no folder"),
    ],
)
def test_bad_input_is_one_message(refuses, reports, after, options, words):
    (reports / "broken.json").write_text('{"kind": "certificate"}')
    page = reports / "refused.html"
    refuses(words, "compare", reports / "linear", reports / after, "--html", page, *options)
    assert not page.exists()
