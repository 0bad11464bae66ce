from .attribute import Attribute
from .constraint import Constraint, parse_constraint
from .counterparts import counterparts_of
from .decisions import RecordedDecisions
from .infer import infer_schema, propose_columns
from .outcome import OutcomeRole, Target
from .people import ColumnRoles, People, PeopleWeights, SampleRoles, decode, encode
from .rules import Dependency
from .schema import Schema, read_schema, schema_to_yaml, write_schema
from .subdomain import Subdomain, parse_subdomain

__all__ = [
    "Attribute",
    "ColumnRoles",
    "Constraint",
    "Dependency",
    "OutcomeRole",
    "People",
    "PeopleWeights",
    "RecordedDecisions",
    "SampleRoles",
    "Schema",
    "Subdomain",
    "Target",
    "counterparts_of",
    "decode",
    "encode",
    "infer_schema",
    "parse_constraint",
    "parse_subdomain",
    "propose_columns",
    "read_schema",
    "schema_to_yaml",
    "write_schema",
]
