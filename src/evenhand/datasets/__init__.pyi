from .catalogue import Dataset, dataset_card, dataset_cards, dataset_names, load_dataset
from .entry import DatasetCard
from .identity.balance import check_name_list
from .identity.lists import IdentityCategory, TermRow, read_categories
from .identity.names import NameList, load_name_list, name_lists
from .identity.swapping import SwapTemplate
from .rows import open_data
from .store import data_home
from .tables import read_frame

__all__ = [
    "Dataset",
    "DatasetCard",
    "IdentityCategory",
    "NameList",
    "SwapTemplate",
    "TermRow",
    "check_name_list",
    "data_home",
    "dataset_card",
    "dataset_cards",
    "dataset_names",
    "load_dataset",
    "load_name_list",
    "name_lists",
    "open_data",
    "read_categories",
    "read_frame",
]
