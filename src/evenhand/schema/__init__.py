"""Data schema: attributes, domains, encodings, who is protected, what is decided."""

from evenhand.schema.arrays import check_index, check_rows, read_column, read_columns, require_column
from evenhand.schema.attribute import AffineEncoding, Attribute, Missing, Value
from evenhand.schema.columns import ColumnRoles, change_target, list_columns, list_names
from evenhand.schema.constraint import Constraint, parse_constraint
from evenhand.schema.counterparts import Counterparts, counterparts_of
from evenhand.schema.decisions import (
    DecisionRoles,
    RecordedDecisions,
    RecordedNumbers,
    describe_groups,
    table_of_decisions,
)
from evenhand.schema.given_labels import GivenLabels, RecordedLabels
from evenhand.schema.infer import infer_schema, propose_columns
from evenhand.schema.people import People, decode, encode
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.recorded import RankingRoles, RecordedRankings, table_of_rankings
from evenhand.schema.review import ColumnProposal
from evenhand.schema.rows import (
    RankedScores,
    Scale,
    ScoredCells,
    ScoreRange,
    ScoreSums,
    count_rows,
    count_scored,
    find_ranked,
    is_lazy,
    is_missing,
    locate_value,
    measure_range,
    plain_value,
)
from evenhand.schema.rules import Dependency, Link, Proposal
from evenhand.schema.schema import Schema, attribute_to_yaml, read_schema, schema_to_yaml, write_schema
from evenhand.schema.subdomain import Runs, Subdomain, list_entries, parse_subdomain
from evenhand.schema.target import NEITHER, OutcomeRole, Target, TargetKind
from evenhand.schema.thresholds import Thresholds, describe_scale, looks_like_points
from evenhand.schema.weights import (
    PeopleWeights,
    SampleRoles,
    add_sample_columns,
    read_weights,
)

__all__ = [
    "NEITHER",
    "AffineEncoding",
    "Attribute",
    "ColumnProposal",
    "ColumnRoles",
    "Constraint",
    "Counterparts",
    "DecisionRoles",
    "Dependency",
    "GivenLabels",
    "GroupProbabilities",
    "Link",
    "Missing",
    "OutcomeRole",
    "People",
    "PeopleWeights",
    "Proposal",
    "RankedScores",
    "RankingRoles",
    "RecordedDecisions",
    "RecordedLabels",
    "RecordedNumbers",
    "RecordedRankings",
    "Runs",
    "SampleRoles",
    "Scale",
    "Schema",
    "ScoreRange",
    "ScoreSums",
    "ScoredCells",
    "Subdomain",
    "Target",
    "TargetKind",
    "Thresholds",
    "Value",
    "add_sample_columns",
    "attribute_to_yaml",
    "change_target",
    "check_index",
    "check_rows",
    "count_rows",
    "count_scored",
    "counterparts_of",
    "decode",
    "describe_groups",
    "describe_scale",
    "encode",
    "find_ranked",
    "infer_schema",
    "is_lazy",
    "is_missing",
    "list_columns",
    "list_entries",
    "list_names",
    "locate_value",
    "looks_like_points",
    "measure_range",
    "parse_constraint",
    "parse_subdomain",
    "plain_value",
    "propose_columns",
    "read_column",
    "read_columns",
    "read_schema",
    "read_weights",
    "require_column",
    "schema_to_yaml",
    "table_of_decisions",
    "table_of_rankings",
    "write_schema",
]
