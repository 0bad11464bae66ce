from .analysis import search
from .config import SearchConfig, TextSearchConfig
from .methods.choice import MethodOptions
from .result import SearchResult
from .save import save_table, save_tests, save_text_tests
from .texts import TextSearchResult, search_texts

__all__ = [
    "MethodOptions",
    "SearchConfig",
    "SearchResult",
    "TextSearchConfig",
    "TextSearchResult",
    "save_table",
    "save_tests",
    "save_text_tests",
    "search",
    "search_texts",
]
