from .analysis import compile_dossier
from .cards import write_card
from .config import DossierConfig, read_dossier_config, write_template
from .result import DossierResult

__all__ = ["DossierConfig", "DossierResult", "compile_dossier", "read_dossier_config", "write_card", "write_template"]
