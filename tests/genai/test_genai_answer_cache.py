"""Answers of judges and classifiers that are remembered: by content and by who answered, bounded, shared in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenhand.core.coroutines import call
from evenhand.errors import FetchError
from evenhand.genai import GenerationConfig, Item, build_classifier, build_judge
from evenhand.genai.backends.studio import Studio
from evenhand.models.answer_store import AnswerStore, ModelReply
from genai_upstream import Upstream

PICTURE = Studio(seed=1).generate("a leader")
AGES = ["child", "adult", "elderly"]
OTHER = Studio(seed=2).generate("a leader")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as service:
        yield service


def configured(upstream: Upstream, cache: dict[str, Any] | None, *, model: str = "m", **more: Any) -> GenerationConfig:
    remote = {"kind": "chat", "url": upstream.url, "model": model, **({"cache": cache} if cache is not None else {})}
    return GenerationConfig.read(
        {
            "conditions": [{"name": "leader", "judge": "Does it name 'leader'?"}],
            "specifications": [
                {"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": 4}
            ],
            "classifier": {**remote, **more},
            "judge": remote,
        }
    )


def questions(upstream: Upstream) -> int:
    return len(upstream.asked("/chat/completions"))


def test_the_same_question_is_asked_once_and_another_one_again(upstream: Upstream) -> None:
    looks = build_classifier(configured(upstream, {}))
    first = looks.classify(PICTURE)
    assert looks.classify(Item("image", bytes(PICTURE.data), "image/png")) == first
    assert questions(upstream) == 1
    looks.classify(OTHER)
    assert questions(upstream) == 2
    assert build_classifier(configured(upstream, None)).classify(PICTURE) == first
    assert questions(upstream) == 3, "nothing is remembered unless it is to be"


def test_a_judge_remembers_conditions_and_what_is_fixed(upstream: Upstream) -> None:
    judge = build_judge(configured(upstream, {}))
    for _ in range(2):
        assert judge.conditions("a leader") == {"leader"}
        assert judge.fixed_groups("an elderly leader") == {"age"}
        assert judge.fixed_groups("a leader") == frozenset()
    assert questions(upstream) == 3


def test_the_file_is_shared_with_another_run_and_not_with_another_judge(upstream: Upstream, tmp_path: Path) -> None:
    cache = {"file": "answers.jsonl"}
    first = build_classifier(configured(upstream, cache), folder=tmp_path).classify(PICTURE)
    # As an assessment does after the service has looked, in an event loop or not.
    again = build_classifier(configured(upstream, cache), folder=tmp_path)
    assert asyncio.run(call(again.classify, PICTURE)) == first
    assert questions(upstream) == 1
    build_classifier(configured(upstream, cache, model="another"), folder=tmp_path).classify(PICTURE)
    build_classifier(configured(upstream, cache, questions={"age": "How old?"}), folder=tmp_path).classify(PICTURE)
    build_classifier(configured(upstream, cache, options={"seed": 1}), folder=tmp_path).classify(PICTURE)
    assert questions(upstream) == 4
    assert PICTURE.data[:8] not in (tmp_path / "answers.jsonl").read_bytes()


def test_errors_are_not_remembered(upstream: Upstream) -> None:
    looks = build_classifier(configured(upstream, {}))
    upstream.failures = [400]
    with pytest.raises(FetchError):
        looks.classify(PICTURE)
    assert looks.classify(PICTURE)["age"]
    assert questions(upstream) == 2


def reply(text: str) -> ModelReply:
    return ModelReply(text, False, "", {}, None)


def test_what_was_used_longest_ago_is_forgotten_first(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    store = AnswerStore(file, most=3)
    for name in "abc":
        store.keep(name, reply(name))
    assert store.get("a") == reply("a")
    store.keep("d", reply("d"))
    assert [store.get(name) is not None for name in "abcd"] == [True, False, True, True]
    for k in range(100):
        store.keep(f"n{k}", reply("x"))
        assert len(store) == 3
        assert file.read_bytes().count(b"\n") <= 7
    store.close()
    again = AnswerStore(file, most=3)
    assert [again.get(f"n{k}") is not None for k in (96, 97, 98, 99)] == [False, True, True, True]
    again.close()


def test_without_a_bound_nothing_is_forgotten() -> None:
    store = AnswerStore(None)
    for k in range(50):
        store.keep(str(k), reply("x"))
    assert len(store) == 50


def test_an_observer_is_told_what_was_remembered(upstream: Upstream) -> None:
    looks: Any = build_classifier(configured(upstream, {}))
    told: list[bool] = []
    looks.cache.observers.append(told.append)
    for item in (PICTURE, PICTURE, OTHER):
        looks.classify(item)
    assert told == [False, True, False]
