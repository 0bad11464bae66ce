from .analysis import measure_decisions, measure_groups, measure_recorded_decisions
from .breakdown import Breakdown, Gap, Group
from .config import GroupConfig
from .custom import add_metrics
from .labels import measure_labels, measure_recorded_labels
from .numbers import measure_numbers, measure_recorded_numbers
from .proxies.result import ProxyRates
from .rankings.analysis import measure_rankings
from .rankings.config import RankingConfig
from .rankings.result import RankingResult
from .result import GroupMetrics, LabelMetrics, NumberOutcome

__all__ = [
    "Breakdown",
    "Gap",
    "Group",
    "GroupConfig",
    "GroupMetrics",
    "LabelMetrics",
    "NumberOutcome",
    "ProxyRates",
    "RankingConfig",
    "RankingResult",
    "add_metrics",
    "measure_decisions",
    "measure_groups",
    "measure_labels",
    "measure_numbers",
    "measure_rankings",
    "measure_recorded_decisions",
    "measure_recorded_labels",
    "measure_recorded_numbers",
]
