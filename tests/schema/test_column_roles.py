"""Roles of columns that contradict each other, or the schema, are refused."""

import pandas as pd
import pytest

from evenhand.errors import OptionError
from evenhand.schema import infer_schema
from evenhand.schema.people import ColumnRoles

FRAME = pd.DataFrame({"age": [20, 30, 40, 50], "sex": list("fmfm"), "hired": ["yes", "no", "yes", "no"]})
SCHEMA = infer_schema(FRAME, target="hired", protected=["sex"], favourable="yes")


@pytest.mark.parametrize(
    "roles",
    [
        {"schema": SCHEMA, "ignore": ["age"]},
        {"schema": SCHEMA, "ignore": ["hired"]},
        {"target": "hired", "protected": ["sex"], "favourable": "yes", "ignore": ["hired"]},
        {"schema": SCHEMA, "unfavourable": ["yes"]},
        {"schema": SCHEMA, "unfavourable": ["no", "maybe"]},
    ],
)
def test_contradictions_are_refused(roles):
    with pytest.raises(OptionError):
        ColumnRoles(**roles).read(FRAME)


@pytest.mark.parametrize("roles", [{"ignore": ["name"]}, {"unfavourable": ["no"]}])
def test_what_a_schema_agrees_with_is_taken(roles):
    people = ColumnRoles(schema=SCHEMA, **roles).read(FRAME.assign(name=list("abcd")))
    assert people.schema == SCHEMA
    assert len(people) == 4
