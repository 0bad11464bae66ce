"""Mitigate what was found: retrain on it, or train fairly, and prove the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.mitigation.alternatives import (
        AlternativeCandidate,
        AlternativeNumbers,
        AlternativesConfig,
        AlternativeSearch,
        AlternativesResult,
        find_alternatives,
        reweighing_weights,
    )
    from evenhand.mitigation.analysis import Mitigation, forecast_queries, mitigate
    from evenhand.mitigation.candidate import Candidate, MitigationTask, Trial
    from evenhand.mitigation.comparison import compare_candidates
    from evenhand.mitigation.config import MitigationConfig
    from evenhand.mitigation.findings import Findings, FoundProfiles, FoundSubgroup, concern_texts
    from evenhand.mitigation.learners import Learner, ResumableLearner, find_learner
    from evenhand.mitigation.methods.registry import FROM_FINDINGS, METHODS, TRAINED, load_methods
    from evenhand.mitigation.metrics import FairnessMetric, FlipMetric, GroupGapMetric, SubgroupGapMetric
    from evenhand.mitigation.refutation import (
        RefutationConfig,
        RefutationResult,
        read_search_record,
        refute_alternatives,
        save_witness,
    )
    from evenhand.mitigation.result import (
        PART_TITLES,
        CandidateResult,
        Change,
        ChangeVerdict,
        ComparisonLine,
        MitigationResult,
        Regression,
        SplitSizes,
    )
    from evenhand.mitigation.split import Split, TrainingSet, put_in_one_table, split_people
    from evenhand.mitigation.training.encoding import FeatureEncoding
    from evenhand.mitigation.training.fair_classifier import FairClassifier

__all__ = [
    "FROM_FINDINGS",
    "METHODS",
    "PART_TITLES",
    "TRAINED",
    "AlternativeCandidate",
    "AlternativeNumbers",
    "AlternativeSearch",
    "AlternativesConfig",
    "AlternativesResult",
    "Candidate",
    "CandidateResult",
    "Change",
    "ChangeVerdict",
    "ComparisonLine",
    "FairClassifier",
    "FairnessMetric",
    "FeatureEncoding",
    "Findings",
    "FlipMetric",
    "FoundProfiles",
    "FoundSubgroup",
    "GroupGapMetric",
    "Learner",
    "Mitigation",
    "MitigationConfig",
    "MitigationResult",
    "MitigationTask",
    "RefutationConfig",
    "RefutationResult",
    "Regression",
    "ResumableLearner",
    "Split",
    "SplitSizes",
    "SubgroupGapMetric",
    "TrainingSet",
    "Trial",
    "compare_candidates",
    "concern_texts",
    "find_alternatives",
    "find_learner",
    "forecast_queries",
    "load_methods",
    "mitigate",
    "put_in_one_table",
    "read_search_record",
    "refute_alternatives",
    "reweighing_weights",
    "save_witness",
    "split_people",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
