"""Monitors: watch decisions while they are made, with intervals and alarms that hold at every moment."""

from evenhand.monitoring.config import MonitorConfig, read_monitor_config
from evenhand.monitoring.events import Event, OutcomeWordError
from evenhand.monitoring.figures import GAUGES, MonitorFigure, format_figures, list_figures
from evenhand.monitoring.lines import LineFault, LineFile, LinePipe, LineReader, event_of_log_entry
from evenhand.monitoring.monitor import Monitor, MonitorUpdate
from evenhand.monitoring.result import (
    Alarm,
    GapHistory,
    MonitoredGap,
    MonitorResult,
    describe_selection,
    list_cautions,
)
from evenhand.monitoring.selection import LabelSelection
from evenhand.monitoring.state import monitor_to_dict, read_state, restore_monitor, write_state
from evenhand.monitoring.webhook import AlarmPoster, post_alarm

__all__ = [
    "GAUGES",
    "Alarm",
    "AlarmPoster",
    "Event",
    "GapHistory",
    "LabelSelection",
    "LineFault",
    "LineFile",
    "LinePipe",
    "LineReader",
    "Monitor",
    "MonitorConfig",
    "MonitorFigure",
    "MonitorResult",
    "MonitorUpdate",
    "MonitoredGap",
    "OutcomeWordError",
    "describe_selection",
    "event_of_log_entry",
    "format_figures",
    "list_cautions",
    "list_figures",
    "monitor_to_dict",
    "post_alarm",
    "read_monitor_config",
    "read_state",
    "restore_monitor",
    "write_state",
]
