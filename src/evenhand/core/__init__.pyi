from .config import Config
from .document import Document
from .result import Result

__all__ = ["Config", "Document", "Result"]
