"""Conditional fairness of generative AI: which values must appear among the items asked for, and how it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.genai.answer_cache import CachedClassifier, CachedJudge
    from evenhand.genai.assessment.assess import assess_sequences
    from evenhand.genai.assessment.check import ConfigurationCheck, check_configuration
    from evenhand.genai.assessment.evaluation import (
        ItemColumns,
        evaluate_config,
        read_condition_sequences,
        read_fixed_groups,
    )
    from evenhand.genai.assessment.live import assess_live
    from evenhand.genai.assessment.prompts import (
        PromptBias,
        PromptFinding,
        answers_by_prompt,
        ask_fixed_groups,
        estimate_prompt_bias,
        judge_prompt_bias,
    )
    from evenhand.genai.assessment.result import (
        GenaiAssessment,
        GroupFinding,
        SequenceFinding,
        SpecificationVerdict,
        ValueFinding,
        format_coverage,
    )
    from evenhand.genai.assessment.sequences import RecordedSequence, read_sequences
    from evenhand.genai.backends.generator import (
        Generator,
        Item,
        Playback,
        Resumable,
        add_instruction,
        add_usage,
        parse_instruction,
    )
    from evenhand.genai.backends.local_diffusion import LocalDiffusion
    from evenhand.genai.backends.openai_service import OpenAIChat, OpenAIImages, detect_media_type
    from evenhand.genai.backends.studio import Studio, StudioPixels
    from evenhand.genai.classifiers.classifier import ChatClassifier, Classifier, FunctionClassifier, LexiconClassifier
    from evenhand.genai.classifiers.confusion import (
        ConfusionMatrix,
        ConfusionResult,
        count_confusion,
        measure_confusion,
    )
    from evenhand.genai.classifiers.onnx_pictures import OnnxPictures, PictureHead
    from evenhand.genai.config import AssessmentConfig, BiasMethod, ConfusionConfig
    from evenhand.genai.enforcement.enforcer import Admission, BrokenAssumption, Enforcer, Instruction, ItemOutcome
    from evenhand.genai.enforcement.generate import GenerationRun, generate_items
    from evenhand.genai.enforcement.guard import (
        AnswerSeries,
        AnswerStatus,
        AttemptLimits,
        EnforcerProtocol,
        Guard,
        GuardedAnswer,
    )
    from evenhand.genai.enforcement.instructions import InstructionWriter, clean_item
    from evenhand.genai.enforcement.supply import (
        ItemAttempt,
        ItemSupply,
        SeveralGenerator,
        known_values,
    )
    from evenhand.genai.games.feasibility import Feasibility, SpecificationFeasibility, check_feasibility
    from evenhand.genai.judges import ChatJudge, FunctionJudge, Judge, KeywordJudge
    from evenhand.genai.pipeline import (
        Pipeline,
        build_classifier,
        build_instruct,
        build_judge,
        build_pipeline,
        check_studio_values,
    )
    from evenhand.genai.simulation.result import GenerationSimulationResult, PolicyComparisonResult
    from evenhand.genai.simulation.simulate import (
        PublishedCountdown,
        compare_policies,
        parse_policies,
        simulate_requests,
    )
    from evenhand.genai.spec.specification import (
        GenerationConfig,
        RequestCondition,
        Requirement,
        SimulationConfig,
        Specification,
    )
    from evenhand.services import ContentRefusedError, ServiceConnection

__all__ = [
    "Admission",
    "AnswerSeries",
    "AnswerStatus",
    "AssessmentConfig",
    "AttemptLimits",
    "BiasMethod",
    "BrokenAssumption",
    "CachedClassifier",
    "CachedJudge",
    "ChatClassifier",
    "ChatJudge",
    "Classifier",
    "ConfigurationCheck",
    "ConfusionConfig",
    "ConfusionMatrix",
    "ConfusionResult",
    "ContentRefusedError",
    "Enforcer",
    "EnforcerProtocol",
    "Feasibility",
    "FunctionClassifier",
    "FunctionJudge",
    "GenaiAssessment",
    "GenerationConfig",
    "GenerationRun",
    "GenerationSimulationResult",
    "Generator",
    "GroupFinding",
    "Guard",
    "GuardedAnswer",
    "Instruction",
    "InstructionWriter",
    "Item",
    "ItemAttempt",
    "ItemColumns",
    "ItemOutcome",
    "ItemSupply",
    "Judge",
    "KeywordJudge",
    "LexiconClassifier",
    "LocalDiffusion",
    "OnnxPictures",
    "OpenAIChat",
    "OpenAIImages",
    "PictureHead",
    "Pipeline",
    "Playback",
    "PolicyComparisonResult",
    "PromptBias",
    "PromptFinding",
    "PublishedCountdown",
    "RecordedSequence",
    "RequestCondition",
    "Requirement",
    "Resumable",
    "SequenceFinding",
    "ServiceConnection",
    "SeveralGenerator",
    "SimulationConfig",
    "Specification",
    "SpecificationFeasibility",
    "SpecificationVerdict",
    "Studio",
    "StudioPixels",
    "ValueFinding",
    "add_instruction",
    "add_usage",
    "answers_by_prompt",
    "ask_fixed_groups",
    "assess_live",
    "assess_sequences",
    "build_classifier",
    "build_instruct",
    "build_judge",
    "build_pipeline",
    "check_configuration",
    "check_feasibility",
    "check_studio_values",
    "clean_item",
    "compare_policies",
    "count_confusion",
    "detect_media_type",
    "estimate_prompt_bias",
    "evaluate_config",
    "format_coverage",
    "generate_items",
    "judge_prompt_bias",
    "known_values",
    "measure_confusion",
    "parse_instruction",
    "parse_policies",
    "read_condition_sequences",
    "read_fixed_groups",
    "read_sequences",
    "simulate_requests",
]

__getattr__, __dir__ = doors.open_when_used(__name__)
