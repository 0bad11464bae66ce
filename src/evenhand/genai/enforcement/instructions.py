"""The words that ask for values in a prompt: by template, placement and language, or by a model that rewrites it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from evenhand.core.coroutines import blocks, call
from evenhand.errors import EvenhandError
from evenhand.genai.backends.generator import Item, WordMatcher
from evenhand.genai.spec.pipeline_config import InstructionConfig, WordingConfig

if TYPE_CHECKING:
    from evenhand.genai.backends.openai_service import OpenAIChat

PROMPT, VALUES, GROUP, VALUE = "{prompt}", "{values}", "{group}", "{value}"

REWRITE = (
    "Rewrite this prompt so that what is made for it shows: {values}. Keep its language and all that it asks for, and "
    "add nothing else. Answer with the new prompt alone."
)


@dataclass(frozen=True)
class InstructionWriter:
    """Puts what must be asked for into a prompt.

    Attributes:
        wording: the words, and where they stand.
        rewriter: rewrites prompts in their place; where it fails, the words are put in.

    >>> words = {"gender": {"woman": "a woman"}}
    >>> writer = InstructionWriter(InstructionConfig(values=words, template="It shows {values}."))
    >>> writer("A leader.", {"gender": ("woman",)})
    'A leader. It shows a woman.'
    """

    wording: InstructionConfig = field(default_factory=InstructionConfig)
    rewriter: OpenAIChat | None = None

    @blocks
    async def __call__(self, prompt: str, must: Mapping[str, Sequence[str]]) -> str:
        """Return the prompt that asks for values; unchanged if nothing must be asked for."""
        if not must:
            return prompt
        return await self._rewrite(prompt, must) or self.insert(prompt, must)

    def insert(self, prompt: str, must: Mapping[str, Sequence[str]]) -> str:
        """Return the prompt with the words put in."""
        wording = self._wording_of(prompt)
        said = wording.template.replace(VALUES, _name_values(wording, must))
        if PROMPT in said:
            return said.replace(PROMPT, prompt)
        return " ".join(filter(None, (said, prompt) if self.wording.placement == "prefix" else (prompt, said)))

    def clause(self, must: Mapping[str, Sequence[str]]) -> str:
        """Return the words alone, for logs; empty if nothing must be asked for."""
        return self.insert("", must).strip() if must else ""

    def _wording_of(self, prompt: str) -> WordingConfig:
        """Return the wording of the language whose words stand most often in a prompt; the general one if none do."""
        found: WordingConfig = self.wording
        most = 0
        for language in self.wording.languages.values():
            known = sum(WordMatcher([word]).is_in(prompt) for word in language.words)
            if known > most:
                found, most = language, known
        return found

    async def _rewrite(self, prompt: str, must: Mapping[str, Sequence[str]]) -> str:
        if self.rewriter is None:
            return ""
        from evenhand.genai.backends.openai_service import quote_text

        question = REWRITE.replace(VALUES, _name_values(self._wording_of(prompt), must))
        try:
            reply = await call(self.rewriter.reply, quote_text("prompt", prompt, question))
        except EvenhandError:
            return ""
        return reply.rpartition("</think>")[2].strip().strip('"').strip()


def _name_values(wording: WordingConfig, must: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for group, values in must.items():
        words = wording.values.get(group, {})
        named = wording.either.join(words.get(value, value) for value in values)
        # Words that somebody chose stand for themselves; a bare value needs its group beside it.
        parts.append(
            named
            if all(value in words for value in values)
            else wording.part.replace(GROUP, group).replace(VALUE, named)
        )
    return wording.also.join(parts)


def clean_item(item: Item, prompt: str, sent: str) -> Item:
    """Return a text without the words that were put into its prompt, should it repeat them; pictures as they are.

    Args:
        item: what was made.
        prompt: as the user wrote it.
        sent: as it was sent.

    >>> made = Item.of_text("A tale (showing: gender woman): she led.")
    >>> clean_item(made, "A tale", "A tale (showing: gender woman)").text
    'A tale: she led.'
    """
    if item.kind != "text" or sent == prompt or not prompt:
        return item
    before, found, after = sent.partition(prompt)
    text = cleaned = item.text
    for added in (before.strip(), after.strip()) if found else ():
        if added:
            pattern = r"\s+".join(map(re.escape, added.split()))
            cleaned = re.sub(rf"[ \t]*{pattern}", "", cleaned, flags=re.IGNORECASE)
    return item if cleaned == text else replace(item, data=cleaned.strip().encode())
