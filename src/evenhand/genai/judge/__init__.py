"""Which conditions a prompt asks for: one protocol, and judges that need no model."""

from __future__ import annotations

from evenhand.genai.judge.rules import Judge, JudgeFunctions, KeywordJudge

__all__ = ["Judge", "JudgeFunctions", "KeywordJudge"]
