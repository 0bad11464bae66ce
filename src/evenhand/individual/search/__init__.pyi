from .analysis import search
from .config import SearchConfig, TextSearchConfig
from .result import SearchResult
from .save import replay_cases, save_tests
from .texts import TextSearchResult, search_texts

__all__ = [
    "SearchConfig",
    "SearchResult",
    "TextSearchConfig",
    "TextSearchResult",
    "replay_cases",
    "save_tests",
    "search",
    "search_texts",
]
