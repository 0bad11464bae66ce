from .analysis import measure_decisions, measure_groups
from .breakdown import Breakdown, Gap, Group, ProxyRates
from .config import GroupConfig
from .rankings.analysis import measure_rankings
from .rankings.config import RankingConfig
from .rankings.recorded import RankingRoles
from .rankings.result import RankingResult
from .result import GroupMetrics, LabelSet, NumberOutcome
from .roles import DecisionRoles

__all__ = [
    "Breakdown",
    "DecisionRoles",
    "Gap",
    "Group",
    "GroupConfig",
    "GroupMetrics",
    "LabelSet",
    "NumberOutcome",
    "ProxyRates",
    "RankingConfig",
    "RankingResult",
    "RankingRoles",
    "measure_decisions",
    "measure_groups",
    "measure_rankings",
]
