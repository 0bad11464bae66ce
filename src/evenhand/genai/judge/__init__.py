"""What a prompt asks for and what it fixes: one protocol, a model that is asked over HTTP, and judges without one."""

from __future__ import annotations

from evenhand.genai.judge.chat import ChatJudge
from evenhand.genai.judge.rules import Judge, JudgeFunctions, KeywordJudge

__all__ = ["ChatJudge", "Judge", "JudgeFunctions", "KeywordJudge"]
