from .analysis import compile_dossier
from .audited import compile_audited
from .cards import write_card
from .config import DossierConfig, read_dossier_config, write_template
from .result import DossierName, DossierResult

__all__ = [
    "DossierConfig",
    "DossierName",
    "DossierResult",
    "compile_audited",
    "compile_dossier",
    "read_dossier_config",
    "write_card",
    "write_template",
]
