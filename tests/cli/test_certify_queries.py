"""``evenhand certify`` about a part of the domain, at another threshold, of any model."""

from __future__ import annotations

import pytest


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
def test_bad_questions(evenhand, case, options, said):
    ran = evenhand("certify", case.model, "--schema", case.schema, *options, "--json", "-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert said in ran.err
