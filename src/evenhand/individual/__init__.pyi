from .analysis import FlipConfig, measure_flips
from .changes import ChangeConfig, ChangeResult, measure_changes
from .flips import FlipRate, find_flips
from .result import IndividualResult, Profile

__all__ = [
    "ChangeConfig",
    "ChangeResult",
    "FlipConfig",
    "FlipRate",
    "IndividualResult",
    "Profile",
    "find_flips",
    "measure_changes",
    "measure_flips",
]
