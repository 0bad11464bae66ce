"""``evenhand certify`` about a part of the domain, at another threshold, of any model."""

from __future__ import annotations

import numpy as np
import pytest

PEOPLE = """
target: {{name: grade, favourable: high, values: [{labels}]}}
attributes:
  - {{name: age, kind: integer, lower: 18, upper: 70}}
  - {{name: income, kind: real, lower: 0, upper: 100}}
  - {{name: sex, kind: categorical, values: [f, m], protected: true, encoding: code}}
  - {{name: race, kind: categorical, values: [White, Black, Asian Pacific, Other], protected: true, encoding: one-hot}}
"""


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Models with three labels and with two, over whole and real numbers and two protected attributes."""
    folder = tmp_path_factory.mktemp("labelled")
    rng = np.random.default_rng(7)
    for outputs, labels in ((1, "low, high"), (3, "low, middle, high")):
        (folder / f"schema{outputs}.yaml").write_text(PEOPLE.format(labels=labels))
        first = rng.normal(size=(7, 6)) * np.array([0.05, 0.03, *([0.5] * 5)])[:, None]
        np.savez(
            folder / f"model{outputs}.npz",
            W0=first,
            b0=rng.normal(size=6),
            W1=rng.normal(size=(6, outputs)),
            b1=rng.normal(size=outputs),
        )
    return {
        outputs: (folder / f"model{outputs}.npz", "--schema", folder / f"schema{outputs}.yaml") for outputs in (1, 3)
    }


def test_a_part_of_the_domain(evenhand, case):
    where = ["--where", "5 <= grade < 12 and region in {north, 'west'}", "--where", "grade != 5"]
    ran = evenhand("certify", case.model, "--schema", case.schema, *where, "--json", "-")
    assert ran.code == 0
    assert ran.json["where"] == ["5 <= grade < 12 and region in {north, 'west'}", "grade != 5"]
    assert ran.json["population"].startswith("everyone in the domain, uniformly, where 5 <= grade < 12 and region in")
    assert ran.json["method"] == "enumeration"
    assert ran.json["boxes"] == 6 * 2
    assert ran.json["certified"] + ran.json["falsified"] == pytest.approx(1)
    for found in ran.json["counterexamples"]:
        assert 6 <= int(found["unprotected"]["grade"]) < 12
        assert found["unprotected"]["region"] in ("north", "west")


def test_a_part_of_the_data(evenhand, case):
    data = ["--population", "data", "--data", case.data]
    ran = evenhand("certify", case.model, "--schema", case.schema, *data, "--where", "grade >= 6", "--json", "-")
    assert ran.code == 0
    assert ran.json["population"] == "independent attributes, each as in the data, where grade >= 6"
    assert ran.json["certified"] + ran.json["falsified"] == pytest.approx(1)


def test_a_threshold(evenhand, case):
    plain, eager = (
        evenhand("certify", case.model, "--schema", case.schema, *more, "--json", "-").json
        for more in ([], ["--threshold", "0.9"])
    )
    assert (plain["threshold"], plain["positive"]) == (0.5, "yes")
    assert eager["threshold"] == 0.9
    assert eager["counterexamples"] != plain["counterexamples"]
    said = evenhand("certify", case.model, "--schema", case.schema, "--threshold", "0.9").out
    assert "'yes' is given if its probability is greater than 0.9" in said


@pytest.mark.parametrize("method", ["interval", "linear"])
def test_labels_numbers_and_protected_attributes_of_all_kinds(evenhand, labelled, method):
    limits = ["--method", method, "--max-boxes", "2000", "--json", "-"]
    both = evenhand("certify", *labelled[3], *limits).json
    assert both["protected"] == ["sex", "race"]
    assert both["threshold"] is None
    assert {found["first_label"] for found in both["counterexamples"]} <= {"low", "middle", "high"}
    assert both["certified"] + both["falsified"] + both["undecided"] == pytest.approx(1)
    assert both["falsified"] > 0.03
    where = ["--where", "income < 50 and race in {White, 'Asian Pacific'}"]
    race = evenhand("certify", *labelled[3], "--protected", "race", *where, *limits).json
    assert race["certified"] + race["falsified"] > 0.5
    assert race["counterexamples"]
    for found in race["counterexamples"]:
        assert {found["first"]["race"], found["second"]["race"]} == {"White", "Asian Pacific"}
        assert float(found["unprotected"]["income"]) < 50
    one = evenhand("certify", *labelled[1], "--where", "sex == m", "--threshold", "0.4", *limits).json
    assert all(found["first"]["sex"] == "m" for found in one["counterexamples"])
    assert one["certified"] + one["falsified"] > 0.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--where", "grade >= many"], "    grade >= many\n             ^^^^"),
        (["--where", "grade > 99"], "no value of 'grade' meets the conditions"),
        (["--where", "sex == f"], "only one value of sex"),
        (["--threshold", "1.5"], "between 0 and 1"),
    ],
)
def test_bad_questions(evenhand, case, options, said):
    ran = evenhand("certify", case.model, "--schema", case.schema, *options, "--json", "-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert said in ran.err


def test_nobody_in_the_data_lies_in_the_part(evenhand, case, tmp_path):
    (tmp_path / "few.csv").write_text("grade,sex,region,hired\n1,f,north,yes\n2,m,north,no\n")
    data = ["--population", "data", "--data", tmp_path / "few.csv"]
    ran = evenhand("certify", case.model, "--schema", case.schema, *data, "--where", "region == west")
    assert ran.code == 2
    assert "no one in the population has a value of 'region' that the conditions allow" in ran.err


def test_a_threshold_for_three_labels(evenhand, labelled):
    ran = evenhand("certify", *labelled[3], "--threshold", "0.4")
    assert ran.code == 2
    assert "two labels, and this one has 3" in ran.err
