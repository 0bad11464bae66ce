"""The field's data sets by name, each with its schema, and reading tables of people in general."""

from evenhand.datasets.catalogue import Dataset, dataset_card, dataset_cards, dataset_names, load_dataset
from evenhand.datasets.entry import DatasetCard
from evenhand.datasets.identity.balance import check_name_list
from evenhand.datasets.identity.lists import IdentityCategory, resolve_categories
from evenhand.datasets.identity.names import NameList, Person, load_name_list, name_lists
from evenhand.datasets.identity.pronouns import Pronouns, pronouns_in
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
from evenhand.datasets.rows import MOST_IN_MEMORY, is_text_table, names_rows, open_data
from evenhand.datasets.store import data_home, find_table
from evenhand.datasets.tables import read_frame, read_words

__all__ = [
    "MOST_IN_MEMORY",
    "Dataset",
    "DatasetCard",
    "IdentityCategory",
    "NameList",
    "Person",
    "Pronouns",
    "SwapTemplate",
    "TermMention",
    "TermSwapper",
    "TextFinding",
    "TextSide",
    "check_name_list",
    "clearest_findings",
    "data_home",
    "dataset_card",
    "dataset_cards",
    "dataset_names",
    "find_table",
    "is_text_table",
    "load_dataset",
    "load_name_list",
    "name_lists",
    "names_rows",
    "open_data",
    "pronouns_in",
    "read_frame",
    "read_words",
    "resolve_categories",
    "text_finding",
    "words_of",
]
