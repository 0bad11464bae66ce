"""Streams of requests on which the published enforcement is run: deadlines, generators, and requests in flight."""

from __future__ import annotations

from typing import NamedTuple

from evenhand.genai import GenerationConfig

REQUESTS = 20_000
QUICK_REQUESTS = 4_000
"""Requests of a simulation."""

IN_FLIGHT = (1, 16, 64)
"""Requests under way at once; the published algorithm is stated for one."""

CONDITION_SHARE = 0.8
"""Share of the requests for which a condition holds."""


class StreamSetting(NamedTuple):
    """What is asked for, and what the generator shows by itself.

    Attributes:
        name: in the tables.
        repeated: one tuple of deadlines per specification.
        likes: one tuple of probabilities per concept group.
        about: condition and groups of each specification, by position.
    """

    name: str
    repeated: tuple[tuple[int, ...], ...]
    likes: tuple[tuple[float, ...], ...]
    about: tuple[tuple[int, tuple[int, ...]], ...] = ((0, (0,)),)

    def configuration(self) -> GenerationConfig:
        """Return the setting as a configuration file would describe it."""
        return GenerationConfig.read(
            {
                "conditions": [
                    {"name": f"condition {i}", "share": CONDITION_SHARE} for i in sorted({one for one, _ in self.about})
                ],
                "groups": {
                    f"group {g}": [f"value {g}.{k}" for k in range(len(likes))] for g, likes in enumerate(self.likes)
                },
                "specifications": [
                    {"condition": f"condition {condition}", "repeated": list(repeated)}
                    | (
                        {"group": f"group {groups[0]}"}
                        if len(groups) == 1
                        else {"paired": [f"group {g}" for g in groups]}
                    )
                    for (condition, groups), repeated in zip(self.about, self.repeated, strict=True)
                ],
                "simulation": {"generator": {f"group {g}": list(likes) for g, likes in enumerate(self.likes)}},
            }
        )

    @property
    def deadlines(self) -> str:
        """The deadlines in words, those of each specification."""
        return "; ".join(
            f"{own[0]} for each" if len(set(own)) == 1 else ", ".join(map(str, own)) for own in self.repeated
        )

    @property
    def promised(self) -> bool:
        """Whether the paper says of it that no deadline is missed: one specification, every deadline above n."""
        return len(self.repeated) == 1 and min(self.repeated[0]) > len(self.repeated[0])


UNIFORM, SKEWED = ((0.2,) * 5,), ((0.7, 0.2, 0.06, 0.04),)
BINARY, THREE = (0.9, 0.1), (0.05, 0.85, 0.1)

SETTINGS = (
    StreamSetting("mostly one value", ((8,) * 4,), ((0.1, 0.1, 0.1, 0.7),)),
    StreamSetting("equal", ((10,) * 5,), UNIFORM),
    StreamSetting("unequal", ((6, 8, 10, 12, 16),), UNIFORM),
    StreamSetting("four ages", ((5, 6, 6, 9),), ((0.05, 0.85, 0.05, 0.05),)),
    StreamSetting("short and long", ((3, 7, 20, 50),), SKEWED),
    StreamSetting("two conditions", ((8, 9, 10, 20), (12,) * 4), SKEWED, ((0, (0,)), (1, (0,)))),
    StreamSetting("two conditions, short", ((5, 5, 6), (5, 7, 5)), (THREE,), ((0, (0,)), (1, (0,)))),
    StreamSetting("three attributes", ((3, 4), (3, 5, 6), (4, 6, 8, 10)), (BINARY, THREE, *SKEWED),
                  ((0, (0,)), (0, (1,)), (1, (2,)))),
    StreamSetting("pairs", ((6, 8, 10, 12, 14, 16),), (BINARY, THREE), ((0, (0, 1)),)),
    StreamSetting("pairs and one of them", ((12,) * 6, (8, 9)), (BINARY, THREE), ((0, (0, 1)), (1, (0,)))),
)  # fmt: skip
"""Deadlines are equal, unequal, or shorter than the number of values. The published claim is about the first
four, one request at a time."""
