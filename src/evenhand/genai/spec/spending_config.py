"""Prices of a generator, and budgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from evenhand.errors import OptionError
from evenhand.genai.spec.entries import ConfigPart, list_to_tuple

Money: TypeAlias = Annotated[float, Field(ge=0)]
Cap: TypeAlias = Annotated[float, Field(gt=0)]


class PriceConfig(ConfigPart):
    """Prices of a generator, in any currency.

    Attributes:
        item: Price of each picture or text.
        call: Price of each call, whether it succeeds or not.
        tokens: Price of a million input tokens and of a million output tokens.
    """

    item: Money = 0.0
    call: Money = 0.0
    tokens: Annotated[tuple[Money, Money], BeforeValidator(list_to_tuple)] = (0.0, 0.0)

    def cost(self, *, calls: int, items: int, usage: Mapping[str, Any]) -> float:
        """Compute the cost of calls, of their items and of the tokens that they report."""
        counts = (
            next((count for name in names if isinstance(count := usage.get(name), int | float)), 0)
            for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
        )
        tokens = sum(count * price for count, price in zip(counts, self.tokens, strict=True))
        return calls * self.call + items * self.item + tokens / 1e6


class BudgetConfig(ConfigPart):
    """Maximum cost of a generator, in the currency of the prices.

    Attributes:
        request: Maximum cost of one requested item, including all attempts and candidates. If it does not allow
            another attempt, no item is delivered.
        hour: Maximum cost of a guard of the service per clock hour.
        day: Maximum cost of a guard of the service in 24 hours, including the current hour.
    """

    request: Cap | None = None
    hour: Cap | None = None
    day: Cap | None = None

    def check(self, price: PriceConfig) -> None:
        """Raise an OptionError if a budget has no effect or does not allow any item."""
        cost = price.cost(calls=1, items=1, usage={})
        for name in ("request", "hour", "day"):
            cap = getattr(self, name)
            if cap is None:
                continue
            if price == PriceConfig():
                hint = "write the price of the generator, such as price: {item: 0.04}"
                raise OptionError("a budget needs a price", location="guard.price", hint=hint)
            if cap < cost:
                raise OptionError(
                    f"{cap:g} does not cover one item, which costs {cost:g}",
                    location=f"guard.budget.{name}",
                    hint="raise the budget, or correct the price",
                )
