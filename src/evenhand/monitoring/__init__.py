"""Monitors: watch decisions while they are made, with intervals and alarms that hold at every moment."""

from evenhand.monitoring.config import MonitorConfig, read_monitor_config
from evenhand.monitoring.lines import LineFile, LinePipe, LineReader, event_of_log_entry
from evenhand.monitoring.monitor import Monitor, MonitorUpdate
from evenhand.monitoring.result import Alarm, GapHistory, MonitoredGap, MonitorResult
from evenhand.monitoring.state import read_state, write_state
from evenhand.monitoring.webhook import post_alarm

__all__ = [
    "Alarm",
    "GapHistory",
    "LineFile",
    "LinePipe",
    "LineReader",
    "Monitor",
    "MonitorConfig",
    "MonitorResult",
    "MonitorUpdate",
    "MonitoredGap",
    "event_of_log_entry",
    "post_alarm",
    "read_monitor_config",
    "read_state",
    "write_state",
]
