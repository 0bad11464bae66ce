"""Instructions, which request values in a prompt by a template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evenhand.genai.backends.generator import Item
from evenhand.genai.spec.pipeline_config import InstructionConfig

PROMPT, VALUES, GROUP, VALUE = "{prompt}", "{values}", "{group}", "{value}"


@dataclass(frozen=True)
class InstructionWriter:
    """Writer of instructions.

    Attributes:
        wording: Words of the instruction.

    >>> words = {"gender": {"woman": "a woman"}}
    >>> writer = InstructionWriter(InstructionConfig(values=words, template="It shows {values}."))
    >>> writer("A leader.", {"gender": ("woman",)})
    'A leader. It shows a woman.'
    """

    wording: InstructionConfig = field(default_factory=InstructionConfig)

    def __call__(self, prompt: str, must: Mapping[str, Sequence[str]]) -> str:
        """Add an instruction to a prompt. The prompt is unchanged if no value is required."""
        if not must:
            return prompt
        wording, parts = self.wording, []
        for group, values in must.items():
            words = wording.values.get(group, {})
            names = wording.either.join(words.get(value, value) for value in values)
            # Configured words stand alone. The name of a value requires its group.
            if not all(value in words for value in values):
                names = wording.part.replace(GROUP, group).replace(VALUE, names)
            parts.append(names)
        text = wording.template.replace(VALUES, wording.also.join(parts))
        if PROMPT in text:
            return text.replace(PROMPT, prompt)
        return " ".join(filter(None, (prompt, text)))

    def clause(self, must: Mapping[str, Sequence[str]]) -> str:
        """Return the instruction on its own, for logs. Empty if no value is required."""
        return self("", must).strip()


def clean_item(item: Item, prompt: str, sent: str) -> Item:
    """Remove repetitions of the instruction from a text. Pictures are unchanged.

    Args:
        item: Generated item.
        prompt: Prompt of the user.
        sent: Prompt that was sent.

    >>> made = Item.of_text("A tale (showing: gender woman): she led.")
    >>> clean_item(made, "A tale", "A tale (showing: gender woman)").text
    'A tale: she led.'
    """
    if item.kind != "text" or not prompt:
        return item
    prefix, match, suffix = sent.partition(prompt)
    text = cleaned = item.text
    for instruction in (prefix.strip(), suffix.strip()) if match else ():
        if instruction:
            pattern = r"\s+".join(map(re.escape, instruction.split()))
            cleaned = re.sub(rf"[ \t]*{pattern}", "", cleaned, flags=re.IGNORECASE)
    return item if cleaned == text else replace(item, data=cleaned.strip().encode())
