"""What a generator charges, and what may be spent on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from evenhand.errors import OptionError
from evenhand.genai.spec.entries import ConfigPart, list_to_tuple

Money: TypeAlias = Annotated[float, Field(ge=0)]
Cap: TypeAlias = Annotated[float, Field(gt=0)]


class PriceConfig(ConfigPart):
    """What the generator charges, in any currency.

    Attributes:
        item: for each picture or text that it makes.
        call: for each call, whatever comes of it.
        tokens: of a million tokens read and of a million written, as the generator counts them.
    """

    item: Money = 0.0
    call: Money = 0.0
    tokens: Annotated[tuple[Money, Money], BeforeValidator(list_to_tuple)] = (0.0, 0.0)

    def cost(self, *, calls: int, items: int, usage: Mapping[str, Any]) -> float:
        """Return what calls, the items that they made and the tokens that they counted cost."""
        read, written = (
            next((found for name in names if isinstance(found := usage.get(name), int | float)), 0)
            for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
        )
        return calls * self.call + items * self.item + (read * self.tokens[0] + written * self.tokens[1]) / 1e6


class BudgetConfig(ConfigPart):
    """What may be spent on the generator at most, in the currency of the prices.

    Attributes:
        request: for one item that is asked for, all attempts and candidates together.
        hour: by the service for this guard, in an hour by the clock.
        day: the same in 24 hours, the one under way included.
        when_spent: what happens if a request may not pay for another attempt: ``refuse``: there is no item;
            ``deliver``: the last one is delivered, and the broken promise is counted.
    """

    request: Cap | None = None
    hour: Cap | None = None
    day: Cap | None = None
    when_spent: Literal["refuse", "deliver"] = "refuse"

    def check(self, price: PriceConfig) -> None:
        """Raise an OptionError where a cap could never be kept, or would let nothing pass."""
        least = price.cost(calls=1, items=1, usage={})
        for name in ("request", "hour", "day"):
            cap = getattr(self, name)
            if cap is None:
                continue
            if price == PriceConfig():
                hint = "write what the generator charges: price: {item: 0.04}"
                raise OptionError("a budget needs a price", location="guard.price", hint=hint)
            if cap < least:
                raise OptionError(
                    f"{cap:g} does not pay for one item, which costs {least:g}",
                    location=f"guard.budget.{name}",
                    hint="raise it, or correct price",
                )
