from .analysis import audit_language_model
from .comparison import LanguageModelComparison, compare_language_models
from .config import LanguageModelConfig
from .file import ScreeningFile, read_screening_file
from .forecast import LanguageModelForecast, forecast_language_model
from .model import ChatQuestion, LanguageModel
from .result import LanguageModelAudit

__all__ = [
    "ChatQuestion",
    "LanguageModel",
    "LanguageModelAudit",
    "LanguageModelComparison",
    "LanguageModelConfig",
    "LanguageModelForecast",
    "ScreeningFile",
    "audit_language_model",
    "compare_language_models",
    "forecast_language_model",
    "read_screening_file",
]
