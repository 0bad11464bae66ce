from .assessment.assess import assess_sequences
from .assessment.live import assess_live
from .assessment.prompts import estimate_prompt_bias
from .assessment.result import GenaiAssessment
from .assessment.sequences import RecordedSequence, read_sequences
from .backends.generator import Generator, Item
from .backends.local_diffusion import LocalDiffusion
from .backends.openai_service import OpenAIChat, OpenAIImages
from .backends.studio import Studio, StudioPixels
from .classifiers.classifier import ChatClassifier, Classifier, FunctionClassifier, LexiconClassifier
from .classifiers.confusion import ConfusionMatrix, count_confusion, measure_confusion
from .classifiers.onnx_pictures import OnnxPictures
from .config import AssessmentConfig, ConfusionConfig
from .enforcement.enforcer import Admission, Enforcer
from .enforcement.guard import Guard, GuardedAnswer
from .enforcement.instructions import InstructionWriter
from .games.feasibility import check_feasibility
from .judges import ChatJudge, FunctionJudge, Judge, KeywordJudge
from .pipeline import Pipeline, build_classifier, build_judge, build_pipeline
from .simulation.result import GenerationSimulationResult, PolicyOutcome
from .simulation.simulate import simulate_requests
from .spec.pipeline_config import PictureHead
from .spec.specification import GenerationConfig, SimulationConfig, Specification

__all__ = [
    "Admission",
    "AssessmentConfig",
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
    "InstructionWriter",
    "Item",
    "Judge",
    "KeywordJudge",
    "LexiconClassifier",
    "LocalDiffusion",
    "OnnxPictures",
    "OpenAIChat",
    "OpenAIImages",
    "PictureHead",
    "Pipeline",
    "PolicyOutcome",
    "RecordedSequence",
    "SimulationConfig",
    "Specification",
    "Studio",
    "StudioPixels",
    "assess_live",
    "assess_sequences",
    "build_classifier",
    "build_judge",
    "build_pipeline",
    "check_feasibility",
    "count_confusion",
    "estimate_prompt_bias",
    "measure_confusion",
    "read_sequences",
    "simulate_requests",
]
