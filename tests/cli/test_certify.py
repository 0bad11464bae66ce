"""``evenhand certify`` and ``check-certificate``: parts of the domain, thresholds, trees, forged files."""

import numpy as np
import pandas as pd
import pytest


def test_a_part_of_the_domain(evenhand, case):
    where = ["--where", "5 <= grade < 12 and region in {north, 'west'}", "--where", "grade != 5"]
    ran = evenhand("certify", case.model, "--schema", case.schema, *where, "--json", "-")
    assert ran.json["where"] == ["5 <= grade < 12 and region in {north, 'west'}", "grade != 5"]
    assert ran.json["population"].startswith("everyone in the domain, uniformly, where 5 <= grade < 12 and region in")
    assert ran.json["method"] == "enumeration"
    assert ran.json["boxes"] == 6 * 2
    assert ran.json["certified"] + ran.json["falsified"] == pytest.approx(1)
    for found in ran.json["counterexamples"]:
        assert 6 <= int(found["unprotected"]["grade"]) < 12
        assert found["unprotected"]["region"] in ("north", "west")


def test_a_threshold(evenhand, case):
    plain, eager = (
        evenhand("certify", case.model, "--schema", case.schema, *more, "--json", "-").json
        for more in ([], ["--threshold", "0.9"])
    )
    assert (plain["threshold"], plain["positive"]) == (0.5, "yes")
    assert eager["threshold"] == 0.9
    assert eager["counterexamples"] != plain["counterexamples"]
    said = evenhand("certify", case.model, "--schema", case.schema, "--threshold", "0.9").out
    assert "'yes' is predicted if its probability is greater than 0.9" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--where", "grade >= many"], "    grade >= many\n             ^^^^"),
        (["--where", "grade > 99"], "no value of 'grade' meets the conditions"),
        (["--where", "sex == f"], "only one value of sex"),
        (["--threshold", "1.5"], "between 0 and 1"),
    ],
)
def test_bad_questions(refuses, case, options, said):
    refuses(said, "certify --json -", case.model, "--schema", case.schema, *options)


LOANS = """
target: {name: granted, favourable: yes, values: [no, yes]}
attributes:
  - {name: age, kind: integer, lower: 18, upper: 70}
  - {name: income, kind: integer, lower: 0, upper: 100}
  - {name: sex, kind: categorical, values: [f, m], protected: true}
""".replace("yes,", "'yes',").replace("[no, yes]", "['no', 'yes']")


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    """A LightGBM model that gives men the loan more often, its schema, and its people."""
    lightgbm = pytest.importorskip("lightgbm", reason="needs lightgbm")
    folder = tmp_path_factory.mktemp("lent")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 71, 800), "income": rng.integers(0, 101, 800)})
    frame["sex"] = rng.choice(["f", "m"], 800)
    wanted = frame["income"] + 20 * (frame["sex"] == "m") + rng.normal(0, 5, 800) > 60
    inputs = np.stack([frame["age"], frame["income"], frame["sex"] == "m"], axis=1).astype(float)
    model = lightgbm.LGBMClassifier(n_estimators=10, num_leaves=6, verbose=-1, n_jobs=1).fit(inputs, wanted)
    model.booster_.save_model(folder / "model.txt")
    (folder / "schema.yaml").write_text(LOANS)
    frame["granted"] = np.where(wanted, "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    return folder


def test_certify(evenhand, lent):
    ran = evenhand("certify", lent / "model.txt", "--schema", lent / "schema.yaml", "--json", "-")
    assert ran.json["method"] == "enumeration"
    assert ran.json["undecided"] < 1e-9
    assert 0.05 < ran.json["falsified"] < 0.5
    assert ran.json["counterexamples"]


def test_audit(evenhand, lent):
    ran = evenhand(
        "audit --time-limit 6 --json -", lent / "model.txt", lent / "people.csv", "--schema", lent / "schema.yaml"
    )
    (certificate,) = ran.json["certificates"]
    assert certificate["falsified"] > 0.05
    assert ran.json["model"]["white_box"] is True


YEARS = """
target: {name: hired, favourable: 1, values: [0, 1]}
attributes:
  - {name: years, kind: integer, lower: 0, upper: 30}
  - {name: sex, kind: categorical, values: [f, m], protected: true, encoding: code}
"""


def test_certify_and_check(evenhand, refuses, tmp_path):
    """An honest certificate gives 0, the same about another model 1, no certificate 2."""
    schema, model, other, file = (tmp_path / name for name in ("s.yaml", "m.npz", "o.npz", "c.cert"))
    schema.write_text(YEARS)
    weights = {"W0": [[0.1, -0.2], [0.5, 0.3]], "b0": [-1.0, 2.0], "W1": [[1.0], [-1.0]], "b1": [0.5]}
    np.savez(model, **{name: np.array(value) for name, value in weights.items()})
    np.savez(other, **{name: np.array(value) * (1 + 2.0**-40) for name, value in weights.items()})
    evenhand(f"certify {model} --schema {schema} --certificate {file} --quiet")
    good = evenhand(f"check-certificate {file} {model} --schema {schema} --all --json -")
    assert (good.json["kind"], good.json["verdict"], good.json["draws"]) == ("certificate-check", "confirmed", None)
    stated = evenhand(f"check-certificate {file} {model}", code=4)
    assert "domain: as the certificate states it" in " ".join(stated.out.split())
    same = evenhand(f"check-certificate {file} {model} --schema {schema} --sample 20")
    assert "confirmed: sex of" in same.out
    bad = evenhand(f"check-certificate {file} {other}", code=1)
    assert "another model" in bad.out
    refuses("not a certificate", f"check-certificate {schema} {model}")
