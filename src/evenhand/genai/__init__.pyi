from .assessment.assess import assess_sequences
from .assessment.live import assess_live
from .assessment.result import GenaiAssessment
from .assessment.sequences import RecordedSequence, read_sequences
from .backends.generator import Generator, Item, Playback
from .backends.local_diffusion import LocalDiffusion
from .backends.openai_service import OpenAIChat, OpenAIImages
from .classifiers.classifier import ChatClassifier, Classifier, FunctionClassifier, LexiconClassifier
from .classifiers.confusion import ConfusionMatrix, measure_confusion
from .classifiers.onnx_pictures import OnnxPictures, PictureHead
from .config import AssessmentConfig, BiasMethod, ConfusionConfig
from .enforcement.enforcer import Admission, Enforcer
from .enforcement.guard import AttemptLimits, Guard, GuardedAnswer
from .enforcement.supply import ItemSupply
from .games.feasibility import check_feasibility
from .judges import ChatJudge, FunctionJudge, Judge, KeywordJudge
from .pipeline import Pipeline, build_classifier, build_judge, build_pipeline
from .simulation.result import GenerationSimulationResult, PolicyComparisonResult
from .simulation.simulate import compare_policies, simulate_requests
from .spec.specification import GenerationConfig, Requirement, SimulationConfig, Specification

__all__ = [
    "Admission",
    "AssessmentConfig",
    "AttemptLimits",
    "BiasMethod",
    "ChatClassifier",
    "ChatJudge",
    "Classifier",
    "ConfusionConfig",
    "ConfusionMatrix",
    "Enforcer",
    "FunctionClassifier",
    "FunctionJudge",
    "GenaiAssessment",
    "GenerationConfig",
    "GenerationSimulationResult",
    "Generator",
    "Guard",
    "GuardedAnswer",
    "Item",
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
    "RecordedSequence",
    "Requirement",
    "SimulationConfig",
    "Specification",
    "assess_live",
    "assess_sequences",
    "build_classifier",
    "build_judge",
    "build_pipeline",
    "check_feasibility",
    "compare_policies",
    "measure_confusion",
    "read_sequences",
    "simulate_requests",
]
