"""Screening files for tests, and the double that answers them."""

from evenhand.llm import ScreeningFile


def screening(url="http://127.0.0.1:9/v1", **changes):
    """Return a file about one yes-or-no question; ``a__b`` changes entry b of a."""
    found = {
        "service": {"url": url, "model": "m", "backoff": 0.001, "timeout": 10.0, "options": {"max_tokens": 8}},
        "prompt": "{{ name }}: {{ years }} years. Invite? Answer yes or no.",
        "answers": {"choices": ["yes", "no"], "favourable": "yes"},
        "plan": {"at_once": 4},
    }
    for name, value in changes.items():
        outer, _, inner = name.partition("__")
        (found[outer] if inner else found)[inner or outer] = value
    return ScreeningFile.model_validate(found)
