"""What several tests share: optional real data, skipping clearly without it, and what the short run leaves out."""

import contextlib
import os
import random
import socket
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from evenhand.schema import Schema

ROOT = Path(__file__).resolve().parent.parent
FULL_EXAMPLES = 100
"""What Hypothesis tries where a test does not say how many: the measure of every profile."""


def shared(*parts: str) -> Path:
    """A file or folder of the real data beside the checkout; skips the test where it is absent."""
    base = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared"))
    path = base.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"real data not here: {'/'.join(parts)} (point EVENHAND_SHARED to the folder that holds it)")
    return path


def needs(extra: str) -> pytest.MarkDecorator:
    """Mark what is asked of a method only where its library is at hand; without it, that is said first."""
    return pytest.mark.skipif(find_spec(extra) is None, reason=f"needs the extra {extra}")


def scaled(number: int) -> int:
    """Return how many examples to try of the ``number`` that the full run tries: the profile's share, at least ten."""
    return max(min(number, 10), number * settings.default.max_examples // FULL_EXAMPLES)


def shortened(cases: Iterable[Any], to: int | Callable[[Any], bool] = 1) -> list[Any]:
    """Return the cases of a parametrized test, all marked ``full`` but the first ones, or those that ``to`` says."""
    return [
        case
        if (to(case) if callable(to) else number < to)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.full)
        for number, case in enumerate(cases)
    ]


def free_port() -> int:
    """Return a free port, below those that systems give to connections.

    Of those, one that is free now may be taken before it is listened on, even by a caller who knocks there meanwhile.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def leaves_but_clocks(found: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of a result's JSON by path, without those that say how long something took."""
    if isinstance(found, dict):
        items = [(f"{path}.{key}", value) for key, value in found.items() if key not in ("seconds", "cpu_seconds")]
    elif isinstance(found, list):
        items = [(f"{path}[{number}]", value) for number, value in enumerate(found)]
    else:
        return {path: found}
    return {key: leaf for place, value in items for key, leaf in leaves_but_clocks(value, place).items()}


def small_schema(
    values: str | list[Any] = "no yes",
    *,
    target: str = "hired",
    favourable: Any = None,
    rules: Iterable[str] = (),
    links: Iterable[Any] = (),
    **attributes: Any,
) -> Schema:
    """Describe a target, whose last label is favourable unless another is named, and attributes.

    ``sex="f m *"`` has two categories and is protected, ``race=[1, 2]`` has two numbers as categories, ``grade=(0, 4)``
    is an integer, ``pay=(0.0, 1.0)`` is real, and ``age={"kind": ...}`` is an attribute as it stands in a schema.
    """
    labels = values.split() if isinstance(values, str) else values
    described: list[dict[str, object]] = []
    for name, domain in attributes.items():
        if isinstance(domain, str):
            words = domain.split()
            categories = [word for word in words if word != "*"]
            domain = {"kind": "categorical", "values": categories, "protected": len(categories) < len(words)}
        elif isinstance(domain, list):
            domain = {"kind": "categorical", "values": domain}
        elif isinstance(domain, tuple):
            kind = "integer" if isinstance(domain[0], int) else "real"
            domain = {"kind": kind, "lower": domain[0], "upper": domain[1]}
        described.append({"name": name, **domain})
    about = {"name": target, "favourable": labels[-1] if favourable is None else favourable, "values": labels}
    return Schema.parse({"target": about, "attributes": described, "rules": list(rules), "links": list(links)})


def draw_frame(rng: np.random.Generator, n: int, **columns: Any) -> Any:
    """Draw a data frame: ``grade=(0, 4)`` are whole numbers from 0 to 4, ``sex="f m"`` words; others are the cells."""
    import pandas as pd

    cells = {}
    for name, domain in columns.items():
        if isinstance(domain, str):
            domain = rng.choice(domain.split(), n)
        elif isinstance(domain, tuple):
            domain = rng.integers(domain[0], domain[1] + 1, n)
        cells[name] = domain
    return pd.DataFrame(cells)
