"""Rules, dependencies and links of a schema: refused where they contradict each other, and who stands for whom."""

import copy
import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import SchemaError
from evenhand.schema import Schema, counterparts_of, read_schema, schema_to_yaml, write_schema
from support import scaled

DESCRIBED = {
    "target": {"name": "income", "favourable": ">50K", "values": ["<=50K", ">50K"]},
    "attributes": [
        {"name": "sex", "kind": "categorical", "values": ["Female", "Male"], "protected": True},
        {"name": "relationship", "kind": "categorical", "values": ["Husband", "Wife", "Own-child"], "missing": "keep"},
        {"name": "marital_status", "kind": "categorical", "values": ["Never-married", "Married"]},
        {"name": "education", "kind": "categorical", "values": ["HS-grad", "Bachelors", "no"]},
        {"name": "education_num", "kind": "integer", "lower": 1, "upper": 16},
        {"name": "age", "kind": "integer", "lower": 17, "upper": 90},
    ],
    "rules": [
        "relationship == Husband -> sex == Male",
        "relationship == Wife -> sex == Female",
        "marital_status == Never-married -> relationship not in {Husband, Wife}",
    ],
    "dependencies": [{"between": ["education", "education_num"], "map": {"HS-grad": 9, "Bachelors": 13, "no": 1}}],
    "links": [{"when": "sex", "move": "relationship", "rows": [{"Male": "Husband", "Female": "Wife"}]}],
}
SCHEMA = Schema.parse(DESCRIBED)
LINK = DESCRIBED["links"][0]
DEPENDENCY = DESCRIBED["dependencies"][0]

HUSBAND, WIFE = [1, 0, 1, 1, 13, 40], [0, 1, 1, 1, 13, 40]
SON, DAUGHTER = [1, 2, 0, 0, 9, 20], [0, 2, 0, 0, 9, 20]


def test_the_worked_example():
    """The counterpart of a husband is a wife, that of a son a daughter; a female husband has none and is nobody's."""
    found = counterparts_of(SCHEMA)
    female_husband, unknown = [0, 0, 1, 1, 13, 40], [1, np.nan, 1, 1, 13, 40]
    people, plausible = found.of(np.array([HUSBAND, WIFE, SON, female_husband, unknown], dtype=float))
    assert people[:3].tolist() == [[WIFE, HUSBAND], [WIFE, HUSBAND], [DAUGHTER, SON]]
    assert plausible.tolist() == [[True, True]] * 3 + [[False, False], [True, True]]
    assert found.hub == (0, 1, 2)
    assert found.assignments.tolist() == [[0], [1]]


def test_a_dependency_moves_what_it_determines():
    found = counterparts_of(SCHEMA, ["education"])
    people, plausible = found.of(np.array([HUSBAND], dtype=float))
    assert people[0, :, 4].tolist() == [9, 13, 1]
    assert plausible.all()
    assert found.hub == (3, 4)
    # Both ways where no value repeats; 2 is nobody's number.
    people, plausible = counterparts_of(SCHEMA, ["education_num"]).of(np.array([HUSBAND], dtype=float))
    assert people[0, plausible[0], 3:5].tolist() == [[2, 1], [0, 9], [1, 13]]
    several = {**DEPENDENCY, "map": {"HS-grad": 9, "Bachelors": 13, "no": 9}}
    one_way = Schema.parse({**DESCRIBED, "dependencies": [several]})
    assert counterparts_of(one_way, ["education_num"]).of(np.array([SON], dtype=float))[1].sum() == 1  # herself alone
    people, plausible = counterparts_of(one_way, ["education"]).of(np.array([SON], dtype=float))
    assert people[0, :, 4].tolist() == [9, 13, 9]
    assert plausible.all()


def test_several_protected_attributes_are_assigned_not_moved():
    people, plausible = counterparts_of(SCHEMA, ["sex", "relationship"]).of(np.array([HUSBAND], dtype=float))
    assert people[0, :, :2].tolist() == [[s, r] for s in range(2) for r in range(3)]
    assert plausible[0].tolist() == [False, True, True, True, False, True]


def test_who_obeys_the_rules():
    rows = np.array([HUSBAND, [0, *HUSBAND[1:]], [*SON[:4], 13, 20], [1, 1, 0, 0, 9, 20], [1, np.nan, 0, 0, 9, 20]])
    assert SCHEMA.obeys_rules(rows).tolist() == [True, False, False, False, True]
    assert SCHEMA.constrains_people
    assert not Schema.parse({**DESCRIBED, "rules": [], "dependencies": [], "links": []}).constrains_people


def test_without_rules_only_the_protected_attribute_changes():
    plain = Schema.parse({key: DESCRIBED[key] for key in ("target", "attributes")})
    found = counterparts_of(plain)
    people, plausible = found.of(np.array([HUSBAND, SON], dtype=float))
    assert found.hub == (0,)
    assert plausible.all()
    assert people[:, :, 0].tolist() == [[0, 1], [0, 1]]
    assert (people[:, :, 1:] == np.array([HUSBAND, SON])[:, None, 1:]).all()


def test_yaml_round_trip(tmp_path):
    path = tmp_path / "schema.yaml"
    write_schema(SCHEMA, path)
    assert read_schema(path) == SCHEMA
    assert schema_to_yaml(read_schema(path)) == path.read_text()
    assert path.read_text().endswith(
        """\
rules:
  - relationship == Husband -> sex == Male
  - relationship == Wife -> sex == Female
  - marital_status == Never-married -> relationship not in {Husband, Wife}
dependencies:
  - {between: [education, education_num], map: {HS-grad: 9, Bachelors: 13, 'no': 1}}
links:
  - {when: sex, move: relationship, rows: [{Male: Husband, Female: Wife}]}
"""
    )
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA


def test_json_round_trip_though_its_keys_are_texts():
    described = {
        "target": {"name": "t", "favourable": 1},
        "attributes": [
            {"name": "married", "kind": "categorical", "values": [True, False], "protected": True},
            {"name": "tie", "kind": "categorical", "values": [1, 2, "1"]},
            {"name": "number", "kind": "integer", "lower": 1, "upper": 2},
        ],
        "dependencies": [{"between": ["number", "tie"], "map": {1: 1, 2: "1"}}],
        "links": [{"when": "married", "move": "tie", "rows": [{True: 1, False: 2}]}],
    }
    schema = Schema.parse(described)
    again = Schema.parse(json.loads(schema.model_dump_json()))
    everybody = np.array(list(itertools.product(range(2), range(3), (1, 2))), dtype=float)
    assert schema.obeys_rules(everybody).tolist() == again.obeys_rules(everybody).tolist()
    for one, other in zip(counterparts_of(schema).of(everybody), counterparts_of(again).of(everybody), strict=True):
        assert (one == other).all()
    assert Schema.parse(json.loads(SCHEMA.model_dump_json())) == SCHEMA


def row(**values):
    return {**LINK, "rows": [values]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rules": ["relationship == Husbend -> sex == Male"]}, "rules, number 1: .*did you mean 'Husband'"),
        ({"rules": ["sexx == Male"]}, "did you mean 'sex'"),
        ({"rules": "sex == Male"}, "rules: expected a list"),
        ({"dependencies": [{**DEPENDENCY, "between": ["education", "education_nun"]}]}, "did you mean 'education_num'"),
        ({"dependencies": [{**DEPENDENCY, "map": {"HS-grd": 9}}]}, "number 1: 'HS-grd' is not .*mean 'HS-grad'"),
        ({"dependencies": [{**DEPENDENCY, "map": {"HS-grad": 99}}]}, "99 is not a value of .* 1 to 16"),
        ({"dependencies": [{**DEPENDENCY, "map": {"HS-grad": "9"}}]}, "'9' is not a value"),
        ({"dependencies": [DEPENDENCY, DEPENDENCY]}, "number 2: education and education_num already have"),
        ({"dependencies": [{**DEPENDENCY, "betwen": []}]}, "did you mean 'between'"),
        ({"links": [row(Male="Wife", Female="Husband")]}, "row 1 pairs 'Male' with 'Wife', which the rule .* forbids"),
        ({"links": [row(Male="Husband", Femal="Wife")]}, "'Femal' is not a value of 'sex'.*did you mean 'Female'"),
        ({"links": [row(Male="Husband")]}, "row 1 has 1 value"),
        ({"links": [LINK, LINK]}, "'relationship' is already moved by links, number 1"),
        ({"links": [{**LINK, "move": "sex"}]}, "expected two attributes, got 'sex' twice"),
        (
            {"links": [LINK, {"when": "relationship", "move": "sex", "rows": [{"Husband": "Male", "Wife": "Female"}]}]},
            "cycle: sex moves with relationship, relationship moves with sex",
        ),
        (
            {"links": [{**LINK, "rows": [*LINK["rows"], {"Male": "Own-child", "Female": "Wife"}]}]},
            "'Wife' is in row 1 and in row 2",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(changed, message):
    with pytest.raises(SchemaError, match=f"(?s){message}"):
        Schema.parse({**copy.deepcopy(DESCRIBED), **changed})


@st.composite
def small_schemas(draw):
    """Schemas of few values with rules over any two attributes, links in a chain or beside each other, a dependency."""
    sizes = [draw(st.integers(2, 3)), 3, 3, *(draw(st.integers(2, 3)) for _ in range(3))]
    names = "abcdef"
    attributes = [
        {"name": name, "kind": "categorical", "values": [f"{name}{i}" for i in range(size)]}
        for name, size in zip(names, sizes, strict=True)
    ]
    rules = []
    for _ in range(draw(st.integers(0, 4))):
        one, two = draw(st.permutations(range(6)))[:2]
        value, other = (f"{names[i]}{draw(st.integers(0, sizes[i] - 1))}" for i in (one, two))
        rules.append(f"{names[one]} == {value} -> {names[two]} != {other}")
    links = []
    for move, above in ((1, (0,)), (2, (0, 1))):
        if draw(st.booleans()):
            when = draw(st.sampled_from(above))
            free, rows = list(range(3)), []
            for _ in range(draw(st.integers(1, 2))):
                keys = draw(st.lists(st.integers(0, sizes[when] - 1), min_size=2, unique=True))
                picked = (
                    draw(st.lists(st.sampled_from(free), min_size=1, max_size=len(keys), unique=True)) if free else []
                )
                if picked:
                    values = [picked[i % len(picked)] for i in range(len(keys))]
                    rows.append({f"{names[when]}{k}": f"{names[move]}{v}" for k, v in zip(keys, values, strict=True)})
                    free = [value for value in free if value not in picked]
            links.append({"when": names[when], "move": names[move], "rows": rows})
    dependencies = []
    if draw(st.booleans()):
        one = draw(st.integers(0, 4))
        listed = draw(st.lists(st.integers(0, sizes[one] - 1), min_size=1, unique=True))
        known = {f"{names[one]}{key}": f"f{draw(st.integers(0, sizes[5] - 1))}" for key in listed}
        dependencies.append({"between": [names[one], "f"], "map": known})
    described = {"target": {"name": "t", "favourable": 1}, "attributes": attributes}
    try:
        return Schema.parse({**described, "rules": rules, "dependencies": dependencies, "links": links})
    except SchemaError:  # a link onto what a rule forbids
        return Schema.parse({**described, "rules": [], "dependencies": dependencies, "links": links})


def identity(schema, person):
    """What stays of a person when "a" changes, in words: rows of links in place of values; None for what follows."""
    words = dict(zip(schema.names, (schema[n].text(v) for n, v in zip(schema.names, person, strict=True)), strict=True))
    stays, moved = dict(words), {"a"}
    for link in schema.links:  # in the order of the chain
        if link.when in moved:
            row = [i for i, row in enumerate(link.rows) if row.get(words[link.when]) == words[link.move]]
            stays[link.move] = row[0] if row else words[link.move]
            moved.add(link.move)
    for one, other in (dependency.between for dependency in schema.dependencies):
        if one in moved:
            stays[other] = None
    return tuple(value for name, value in stays.items() if name != "a")


@settings(max_examples=scaled(150), deadline=None)
@given(small_schemas())
def test_as_by_comparing_everybody_with_everybody(schema):
    everybody = np.array(list(itertools.product(*(attribute.domain() for attribute in schema.attributes))))
    plausible = everybody[schema.obeys_rules(everybody)]
    found = counterparts_of(schema, ["a"])
    people, exists = found.of(plausible)
    by_identity = {}
    for person in plausible:
        by_identity.setdefault((person[0], identity(schema, person)), []).append(tuple(person))
    assert all(len(same) == 1 for same in by_identity.values())
    by_hub = {}
    for person, counterparts, there in zip(plausible, people, exists, strict=True):
        stays = identity(schema, person)
        for value, counterpart, real in zip(found.assignments[:, 0], counterparts, there, strict=True):
            expected = by_identity.get((value, stays))
            assert [tuple(counterpart)] * int(real) == (expected or [])
        # Whether there is a counterpart depends on the hub alone, and nothing outside it changes.
        assert by_hub.setdefault(tuple(person[list(found.hub)]), there.tolist()) == there.tolist()
        rest = [column for column in range(6) if column not in found.hub]
        assert (counterparts[:, rest] == person[rest]).all()


@settings(max_examples=scaled(100), deadline=None)
@given(small_schemas())
def test_a_counterpart_obeys_the_rules_and_is_mutual(schema):
    everybody = np.array(list(itertools.product(*(attribute.domain() for attribute in schema.attributes))))
    found = counterparts_of(schema, ["a"])
    people, exists = found.of(everybody)
    assert schema.obeys_rules(people[exists]).all()
    assert (exists.any(axis=1) == schema.obeys_rules(everybody)).all()
    for value in range(people.shape[1]):
        there = exists[:, value]
        back, known = found.of(people[there, value])
        own = everybody[there, 0].astype(int)
        places = np.arange(len(own))
        assert known[places, own].all()
        assert (back[places, own] == everybody[there]).all()
