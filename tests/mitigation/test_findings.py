import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitigate_cases import SCHEMA, Decider, population

from evenhand import individual, subgroups
from evenhand.certification import Certificate
from evenhand.errors import DataError
from evenhand.individual import find_flips, search
from evenhand.individual.flips import build_variants
from evenhand.mitigation import Findings
from evenhand.mitigation.findings import parse_entry, profiles_from_table
from evenhand.models import Subject
from evenhand.population import uniform_population
from evenhand.schema import Attribute, encode

JOB, OWNER, ROOMS, INCOME, AGE, SEX, RACE = range(7)
BIASED = Decider(SCHEMA, lambda x: 0.3 * (x[:, INCOME] > 0.6) + 0.2 * (x[:, SEX] == 1) + 0.05 * x[:, ROOMS])
PEOPLE = population(SCHEMA, 400, 1, BIASED.predict)


@pytest.fixture(scope="module")
def searched():
    return search.search(BIASED, PEOPLE, budget=4000, samples=0, seed=3)


@pytest.fixture(scope="module")
def compared():
    return subgroups.find_subgroups(BIASED, PEOPLE)


def flips(profiles):
    columns, assignments = SCHEMA.positions(profiles.protected), SCHEMA.assignments(profiles.protected)
    labels = BIASED.predict(build_variants(profiles.individuals, columns, assignments))
    return find_flips(labels.reshape(len(profiles.individuals), -1))


def written(path, result):
    path.write_text(result.to_json())
    return path


def test_the_json_of_a_search_has_its_examples(searched, tmp_path):
    findings = Findings.read([written(tmp_path / "found.json", searched)], SCHEMA)
    (read,) = findings.profiles
    assert len(read.individuals) == len(searched.examples) == 20
    assert findings.sources == (str(tmp_path / "found.json"),)
    rest = [JOB, OWNER, ROOMS, AGE, SEX, RACE]
    known = {row.tobytes(): row for row in profiles_from_table(searched.table).individuals[:, rest]}
    assert all(row.tobytes() in known for row in read.individuals[:, rest])
    assert flips(read).all()


def test_the_examples_of_flip_rates(tmp_path):
    config = individual.FlipConfig(protected=("sex",), samples=500)
    result = individual.measure_flips(BIASED, PEOPLE, uniform_population(SCHEMA), config)
    (read,) = Findings.read([written(tmp_path / "rates.json", result)], SCHEMA).profiles
    assert read.protected == ("sex",)
    assert 0 < len(read.individuals) <= len(result.examples)
    assert flips(read).all()


def test_profiles_are_counted_once_and_by_what_was_varied(searched, tmp_path):
    first = written(tmp_path / "a.json", searched)
    only = search.search(BIASED, PEOPLE, protected=["sex"], budget=2000, samples=0)
    read = Findings.read([first, first, written(tmp_path / "b.json", only)], SCHEMA)
    assert [one.protected for one in read.profiles] == [("sex", "race"), ("sex",)]
    assert [len(one.individuals) for one in read.profiles] == [20, 20]


def test_subgroups_that_stand_out_the_widest_gap_first(compared, tmp_path):
    read = Findings.read([written(tmp_path / "gaps.json", compared)], SCHEMA)
    alone = [one for one in compared.findings if one.found and one.under is None]
    assert list(read.subgroups) == [finding.rules for finding in sorted(alone, key=lambda finding: -abs(finding.gap))]
    assert read.subgroups[0] in ({"sex": ("male",)}, {"sex": ("female",)})
    assert not read.profiles
    assert len(Findings.read([compared, compared], SCHEMA).subgroups) == len(alone)


def test_a_subgroup_that_was_asked_about():
    config = subgroups.SubgroupConfig(attributes=("race",), judged=("sex == 'male' and race == 3",))
    result = subgroups.find_subgroups(BIASED, PEOPLE, config)
    read = Findings.read([result], SCHEMA)
    assert read.subgroups == ({"sex": ("male",), "race": ("3",)},)


def test_an_audit_holds_all_of_it(tmp_path):
    from evenhand import auditing
    from evenhand.schema import decode

    frame = decode(SCHEMA, PEOPLE.individuals)
    frame["credit"] = np.array(BIASED.classes)[PEOPLE.labels]
    people = encode(SCHEMA, frame)
    assert (people.individuals == PEOPLE.individuals).all()
    result = auditing.audit(Subject(BIASED, people), auditing.AuditConfig(time_limit=60, samples=500, searched=500))
    read = Findings.read([written(tmp_path / "report.json", result)], SCHEMA)
    assert ("sex",) in {one.protected for one in read.profiles}
    assert all(flips(one).all() for one in read.profiles)
    assert read.subgroups[0] in ({"sex": ("male",)}, {"sex": ("female",)})
    direct = Findings.read([result], SCHEMA)
    assert direct.subgroups == read.subgroups


def test_counterexamples_of_a_certificate_are_profiles(tmp_path):
    said = {"job": "NA", "owner": "False", "rooms": "7", "income": "1.23457", "age": "30 to 50", "race": "2"}
    estimate = {"unfair": 0.1, "low": 0, "high": 1, "confidence": 0.95, "n": 10}
    certificate = Certificate(
        certified=0.5,
        falsified=0.1,
        undecided=0.4,
        estimate=estimate,
        boxes=1,
        cpu_seconds=0,
        method="linear",
        population="all",
        stopped_by="time",
        protected=("sex",),
        seed=0,
        seconds=0,
        counterexamples=[
            {
                "unprotected": said,
                "first": {"sex": "female"},
                "second": {"sex": "male"},
                "first_label": "no",
                "second_label": "yes",
            }
        ],
    )
    (read,) = Findings.read([written(tmp_path / "proof.json", certificate)], SCHEMA).profiles
    assert read.protected == ("sex",)
    # Six digits of the income's upper end are beyond it: they stand for the end.
    assert read.individuals.tolist() == [[1, 1, 7, 1.23456789, 1, 0, 1]]


@given(st.data())
def test_what_an_attribute_says_is_read_back(data):
    attribute = data.draw(st.sampled_from(SCHEMA.attributes))
    if attribute.kind == "real":
        number = data.draw(st.floats(attribute.first, attribute.last))
        back = parse_entry(attribute, attribute.text(number), "here")
        assert attribute.contains(np.array([back])).all()
        assert math.isclose(back, number, rel_tol=1e-5, abs_tol=1e-300)
    else:
        position = float(data.draw(st.integers(int(attribute.first), int(attribute.last))))
        assert parse_entry(attribute, attribute.text(position), "here") == position


def test_missing_is_a_value_where_it_is_kept():
    kept = Attribute(name="rooms", kind="integer", lower=1, upper=9, missing="keep")
    assert math.isnan(parse_entry(kept, "missing", "here"))
    assert math.isnan(parse_entry(kept, None, "here"))
    named = Attribute(name="job", kind="categorical", values=("missing", "clerk"), missing="keep")
    assert parse_entry(named, "missing", "here") == 0
    with pytest.raises(DataError, match="expected a number, got 'missing'"):
        parse_entry(SCHEMA["rooms"], "missing", "here")


def change(result, **changes):
    plain = json.loads(result.to_json())
    for path, value in changes.items():
        place = plain
        *before, last = path.split("__")
        for key in before:
            place = place[int(key) if key.isdigit() else key]
        place[last] = value
    return plain


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"examples__3__unprotected__job": "pilot"}, "example 4: 'job': expected one of {none, NA"),
        ({"examples__0__unprotected__rooms": "12"}, "'rooms': expected an integer from 1 to 9, got '12'"),
        ({"examples__0__unprotected__rooms": "2.5"}, "'rooms': expected an integer from 1 to 9, got '2.5'"),
        ({"examples__0__unprotected__rooms": "many"}, "'rooms': expected a number, got 'many'"),
        ({"examples__0__unprotected__height": "tall"}, "an attribute 'height', which the data do not have"),
        ({"examples__0__unprotected": {"job": "NA"}}, "no attribute 'owner', which the data have"),
        ({"profiles": "many"}, "not a SearchResult: profiles"),
        ({"kind": "individual-text"}, "expected findings about people in rows, got findings about texts"),
        ({"kind": "groups"}, "the file does not contain findings"),
    ],
)
def test_a_file_that_is_about_something_else(searched, tmp_path, changes, says):
    assert refused_file(tmp_path, says, json.dumps(change(searched, **changes)).encode()).hint


def refused_file(folder, says, content):
    path = folder / "found.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        Findings.read([str(path)], SCHEMA)
    assert says in str(caught.value)
    assert str(path) in caught.value.location
    return caught.value


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"kind": "individual", ', "expected JSON: "),
        (b"[]", "the file does not contain findings"),
        (b"\xff\xfe\x00", "the file does not contain findings"),
        (b"\x80\x04 a pickle", "the file does not contain findings"),
        (b'{"kind": ["individual"]}', "the file does not contain findings"),
        (b'{"kind": "audit", "searches": [{"kind": "individual", "queries": 3}]}', "not a SearchResult"),
        (b'{"kind": "audit", "searches": 3}', "the file does not contain findings"),
        (None, "the file cannot be read: No such file"),
    ],
)
def test_a_broken_file(tmp_path, content, says):
    refused_file(tmp_path, says, content)


def test_subgroups_that_do_not_fit(compared, tmp_path):
    path = tmp_path / "gaps.json"

    def refused(found):
        path.write_text(json.dumps(found))
        with pytest.raises(DataError) as caught:
            Findings.read([path], SCHEMA)
        return str(caught.value)

    assert "'height', which the data do not have" in refused(change(compared, findings__0__rules={"height": ["tall"]}))
    assert "'sex': expected one of {" in refused(change(compared, findings__0__rules={"sex": ["other"]}))
    ranged = {"sex": {"low": 1, "high": 2, "closed": True}}
    assert "'sex' is not a number in the schema" in refused(change(compared, findings__0__rules=ranged))
    assert "'rooms': expected a number, got '3 to 4'" in refused(
        change(compared, findings__0__rules={"rooms": ["3 to 4"]})
    )
    assert "expected gaps of the favourable label" in refused(change(compared, measure="false-negative"))


def test_a_search_that_found_nothing(tmp_path):
    fair = Decider(SCHEMA, lambda x: x[:, INCOME])
    result = search.search(fair, PEOPLE, budget=500, samples=0)
    assert not Findings.read([result, written(tmp_path / "found.json", result)], SCHEMA)
    assert not Findings.read([], SCHEMA)
