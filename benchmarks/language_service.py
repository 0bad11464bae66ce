"""How many questions a second reach a language model: the pool against a double with 20 ms of latency.

The double runs in the same process, so these figures are a floor. Its share of what latency alone allows, and processor
seconds per thousand calls, depend less on what else the machine does than calls per second::

    python benchmarks/language_service.py
"""

from __future__ import annotations

import time

from evenhand.models import ChatQuestion, LanguageModel, ScreeningFile
from evenhand.testing import FakeChat

LATENCY = 0.02
CALLS = 4000
WANTED = 200.0
"""Calls per second at 16 at once."""


def measure(at_once: int) -> tuple[float, float]:
    """Return calls per second, and processor seconds per thousand calls, those of the double included."""
    with FakeChat(0.4, latency=LATENCY) as chat:
        file = ScreeningFile.model_validate({
            "service": {"url": chat.url, "model": "m", "options": {"max_tokens": 8}},
            "prompt": "{{ years }} years. Invite? Answer yes or no.",
            "answers": {"choices": ["yes", "no"], "favourable": "yes"},
            "plan": {"at_once": at_once},
        })  # fmt: skip
        with LanguageModel.of(file) as model:
            prompt = model.render({"years": 3})
            many = CALLS if at_once > 1 else CALLS // 16
            began, processor = time.perf_counter(), time.process_time()
            model.ask([ChatQuestion(prompt, draw) for draw in range(many)])
            seconds, used = time.perf_counter() - began, time.process_time() - processor
        assert len(chat.paid) == len(set(chat.paid)) == many
    return many / seconds, 1000 * used / many


def main() -> None:
    """Print a line for each number of questions at once."""
    print(f"{'at once':>8} {'calls/s':>9} {'of what latency allows':>23} {'processor s / 1,000 calls':>26}")
    for at_once in (1, 4, 16, 32):
        speed, processor = measure(at_once)
        note = "" if at_once != 16 else f"  at least {WANTED:g} wanted: {'yes' if speed >= WANTED else 'no'}"
        print(f"{at_once:>8} {speed:>9.0f} {speed * LATENCY / at_once:>23.2f} {processor:>26.2f}{note}")


if __name__ == "__main__":
    main()
