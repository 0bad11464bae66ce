from .config import MonitorConfig, read_monitor_config
from .events import Event
from .lines import LineFile
from .monitor import Monitor, MonitorUpdate
from .result import Alarm, MonitoredGap, MonitorResult
from .state import read_state, restore_monitor, write_state

__all__ = [
    "Alarm",
    "Event",
    "LineFile",
    "Monitor",
    "MonitorConfig",
    "MonitorResult",
    "MonitorUpdate",
    "MonitoredGap",
    "read_monitor_config",
    "read_state",
    "restore_monitor",
    "write_state",
]
