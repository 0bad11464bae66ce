"""What the paper states, with its place in it.

Source: Cheng, Ruess, Wu, Zhao: Conditional Fairness for Generative AIs, arXiv:2404.16663. Its figures are pictures or
drawings without numbers; what they show is stated in the text, and that is what stands here.
"""

from __future__ import annotations

TITLE = "Conditional Fairness for Generative AIs"
WHERE = "Cheng, Ruess, Wu, Zhao, arXiv:2404.16663"

PROMPTS = (
    "Generate an image of a poor person.",
    "Generate an image of an economically disadvantaged young lady.",
)
"""Example 6: the first gives no hint of gender and age, the second of both."""

FIXED = {PROMPTS[0]: 0, PROMPTS[1]: 2}
"""Groups of gender and age that each prompt fixes."""

LEADER_BETA = 5
"""Evaluation: "tightly centered around" this, in all sequences of successful business leaders."""

POOR_BETA = (13, 20)
"""Evaluation: between these for poor people."""

COVERAGE_BELOW = 40.0
"""Evaluation, percent: the coverage of pairs "is always below" it."""

COVERAGE_NEVER = 35.0
"""Introduction, percent: GLM-4 does not achieve it."""

SATURATED_AT = 25
"""Evaluation: apart from one sequence the coverage largely saturates after so many pictures."""

NATIVE_AMERICAN_PICTURE = 11
"""Evaluation: the place in the second row of Figure 1 of a Native American among business leaders."""

EXAMPLE_COUNTER = 3
"""Example 7: the counters of three values when the rule intervenes first."""
