from .analysis import BatchFiles, audit_language_model
from .comparison import LanguageModelComparison, compare_language_models
from .config import LanguageModelConfig
from .forecast import LanguageModelForecast, forecast_language_model
from .result import LanguageModelAudit
from .saved_tests import replay_findings, save_language_tests

__all__ = [
    "BatchFiles",
    "LanguageModelAudit",
    "LanguageModelComparison",
    "LanguageModelConfig",
    "LanguageModelForecast",
    "audit_language_model",
    "compare_language_models",
    "forecast_language_model",
    "replay_findings",
    "save_language_tests",
]
