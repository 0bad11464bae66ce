"""Performance and group metrics: selection rates, error rates and calibration of every group, and the gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.groups.analysis import (
        GroupConfig,
        add_proxies,
        measure_decisions,
        measure_groups,
        measure_recorded_decisions,
    )
    from evenhand.groups.breakdown import Breakdown, Gap, Group
    from evenhand.groups.custom import BootstrapSettings, DecidedPeople, add_metrics, read_metrics
    from evenhand.groups.gaps import small_group_notes, title_gap
    from evenhand.groups.kept import KeptDecisions
    from evenhand.groups.label_coverage import LabelCount, LabelCoverage, find_caution
    from evenhand.groups.label_result import LabelBreakdown, LabelGap, LabelGroup, LabelMetrics
    from evenhand.groups.labels import (
        LABEL_GAP_TITLES,
        LABEL_TITLES,
        RATE_TITLES,
        describe_labels,
        label_answers,
        label_blocks,
        label_sentences,
        label_terms,
        measure_labels,
        measure_recorded_labels,
        size_groups,
    )
    from evenhand.groups.membership import Membership, group_by_attribute
    from evenhand.groups.metrics import number_combinations
    from evenhand.groups.names import (
        DECISION_METRICS,
        GAP_NAMES,
        GAP_TITLES,
        METRIC_NAMES,
        METRIC_TITLES,
        OVERALL_NAMES,
    )
    from evenhand.groups.number_words import (
        NUMBER_GAP_TITLES,
        NUMBER_TITLES,
        describe_outcome,
        number_answers,
        number_blocks,
        number_sentences,
    )
    from evenhand.groups.numbers import measure_numbers, measure_recorded_numbers
    from evenhand.groups.proxies import (
        ProxyDifference,
        ProxyRate,
        ProxyRates,
        measure_proxies,
        proxy_answers,
        proxy_blocks,
        proxy_sentences,
    )
    from evenhand.groups.result import (
        DRAWN,
        SMALL,
        CalibrationBin,
        GroupMetrics,
        NumberOutcome,
        QuantileCurve,
        breakdown_blocks,
        calibration_blocks,
        confidence_levels,
        describe_weights,
        four_fifths_sentence,
        gap_answers,
        headline_sentences,
        label_notes,
        overall_table,
        rule_notes,
        small_notes,
        threshold_section,
        weighted_by,
    )
    from evenhand.groups.threshold_rates import RatesOfGroup, ThresholdRates
    from evenhand.groups.thresholds import Curve, ThresholdCurves, format_threshold, threshold_answers, threshold_table

__all__ = [
    "DECISION_METRICS",
    "DRAWN",
    "GAP_NAMES",
    "GAP_TITLES",
    "LABEL_GAP_TITLES",
    "LABEL_TITLES",
    "METRIC_NAMES",
    "METRIC_TITLES",
    "NUMBER_GAP_TITLES",
    "NUMBER_TITLES",
    "OVERALL_NAMES",
    "RATE_TITLES",
    "SMALL",
    "BootstrapSettings",
    "Breakdown",
    "CalibrationBin",
    "Curve",
    "DecidedPeople",
    "Gap",
    "Group",
    "GroupConfig",
    "GroupMetrics",
    "KeptDecisions",
    "LabelBreakdown",
    "LabelCount",
    "LabelCoverage",
    "LabelGap",
    "LabelGroup",
    "LabelMetrics",
    "Membership",
    "NumberOutcome",
    "ProxyDifference",
    "ProxyRate",
    "ProxyRates",
    "QuantileCurve",
    "RatesOfGroup",
    "ThresholdCurves",
    "ThresholdRates",
    "add_metrics",
    "add_proxies",
    "breakdown_blocks",
    "calibration_blocks",
    "confidence_levels",
    "describe_labels",
    "describe_outcome",
    "describe_weights",
    "find_caution",
    "format_threshold",
    "four_fifths_sentence",
    "gap_answers",
    "group_by_attribute",
    "headline_sentences",
    "label_answers",
    "label_blocks",
    "label_notes",
    "label_sentences",
    "label_terms",
    "measure_decisions",
    "measure_groups",
    "measure_labels",
    "measure_numbers",
    "measure_proxies",
    "measure_recorded_decisions",
    "measure_recorded_labels",
    "measure_recorded_numbers",
    "number_answers",
    "number_blocks",
    "number_combinations",
    "number_sentences",
    "overall_table",
    "proxy_answers",
    "proxy_blocks",
    "proxy_sentences",
    "read_metrics",
    "rule_notes",
    "size_groups",
    "small_group_notes",
    "small_notes",
    "threshold_answers",
    "threshold_section",
    "threshold_table",
    "title_gap",
    "weighted_by",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
