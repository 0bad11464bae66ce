"""The field's data sets by name, each with its schema, and reading tables of people in general."""

from evenhand.datasets.catalogue import Dataset, dataset_card, dataset_cards, dataset_names, load_dataset
from evenhand.datasets.entry import DatasetCard
from evenhand.datasets.identity.lists import IdentityCategory, resolve_categories
from evenhand.datasets.identity.swapping import (
    SwapTemplate,
    TermMention,
    TermSwapper,
    TextFinding,
    TextSide,
    clearest_findings,
    text_finding,
    words_of,
)
from evenhand.datasets.tables import MISSING_MARKS, read_frame

__all__ = [
    "MISSING_MARKS",
    "Dataset",
    "DatasetCard",
    "IdentityCategory",
    "SwapTemplate",
    "TermMention",
    "TermSwapper",
    "TextFinding",
    "TextSide",
    "clearest_findings",
    "dataset_card",
    "dataset_cards",
    "dataset_names",
    "load_dataset",
    "read_frame",
    "resolve_categories",
    "text_finding",
    "words_of",
]
