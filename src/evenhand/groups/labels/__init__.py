"""Several labels by group: each against the rest, how they are confused, and grades in an order."""

from evenhand.groups.labels.analysis import measure_labels, measure_recorded_labels, size_groups
from evenhand.groups.labels.names import LABEL_GAP_TITLES, LABEL_TITLES, RATE_TITLES
from evenhand.groups.labels.wording import (
    describe_labels,
    label_answers,
    label_blocks,
    label_sentences,
    label_terms,
)

__all__ = [
    "LABEL_GAP_TITLES",
    "LABEL_TITLES",
    "RATE_TITLES",
    "describe_labels",
    "label_answers",
    "label_blocks",
    "label_sentences",
    "label_terms",
    "measure_labels",
    "measure_recorded_labels",
    "size_groups",
]
