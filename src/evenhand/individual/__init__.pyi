from .analysis import FlipConfig, measure_flips
from .changes import ChangeConfig, ChangeResult, measure_changes
from .flips import FlipRate, find_flips
from .number_search import NumberSearchResult, search_numbers
from .result import IndividualResult, Profile
from .search.config import NumberSearchConfig

__all__ = [
    "ChangeConfig",
    "ChangeResult",
    "FlipConfig",
    "FlipRate",
    "IndividualResult",
    "NumberSearchConfig",
    "NumberSearchResult",
    "Profile",
    "find_flips",
    "measure_changes",
    "measure_flips",
    "search_numbers",
]
