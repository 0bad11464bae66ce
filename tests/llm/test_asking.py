"""Questions to a service: paid once, whatever ends a run; never beyond the budget; the order of arrival is nothing."""

import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import BudgetError, DataError, FetchError, OptionError
from evenhand.llm import ChatQuestion, LanguageModel
from evenhand.llm.budget import CallBudget
from evenhand.llm.model import QuestionPool, RateGate, question_key, upper_tokens
from evenhand.models.answer_store import AnswerStore
from evenhand.models.language.services import ChatService, ContentRefusedError, ServiceConnection, read_refusal
from fake_chat import RecordingChat, chance_by_words
from llm.screening import screening
from support import ROOT, scaled

PRICE = [1e6, 1e6]
"""A token costs 1."""


def questions(model, many=12, draws=2):
    names = ("Lakisha", "Emily")
    prompts = [model.render({"name": names[n % 2], "years": n // 2}) for n in range(many)]
    return [ChatQuestion(prompt, draw) for prompt in prompts for draw in range(draws)]


@contextlib.contextmanager
def conversation(chances=0.5, *, latency=0.0, faults=None, **file):
    """A service that answers with these chances, and the model of a file about it."""
    double = RecordingChat(chances, latency=latency, faults=faults)
    with double as chat, LanguageModel(screening(chat.url, **file)) as model:
        yield chat, model


def test_outcomes_come_in_the_order_of_the_questions():
    with conversation(chance_by_words(0.4, {"Lakisha": -1.0}), latency=0.001) as (chat, model):
        asked = questions(model)
        told = []
        found = model.ask(asked, told.append)
        shuffled = random.Random(0).sample(range(len(asked)), len(asked))
        with LanguageModel(screening(chat.url, plan={"at_once": 1})) as other:
            again = other.ask([asked[i] for i in shuffled])
        assert [again[shuffled.index(i)] for i in range(len(asked))] == found
        assert (told[-1], chat.most_at_once <= 4) == (1.0, True)
    assert model.spent.calls == len(asked)
    assert {one.kind for one in found} == {"choice"}
    assert {one.label for one in found} == {"yes", "no"}


def test_the_same_question_is_asked_once_and_another_draw_again():
    with RecordingChat() as chat, LanguageModel(screening(chat.url)) as model:
        prompt = model.render({"name": "Emily", "years": 1})
        one = ChatQuestion(prompt)
        first = model.ask([one, one, one._replace(draw=1), one._replace(seed=3)])
        assert (len(chat.paid), len(set(chat.paid))) == (3, 3)
        assert first[0] == first[1]
        assert model.ask([one]) == first[:1]
        assert (len(chat.paid), model.spent.remembered) == (3, 1)
        assert [body.get("seed") for body in sorted(chat.received, key=str)].count(3) == 1


def test_a_run_that_ends_at_any_call_goes_on_without_paying_twice(tmp_path):
    with RecordingChat(chance_by_words(0.4, {"Lakisha": -1.0})) as chat:
        file = screening(chat.url, plan={"at_once": 1})
        with LanguageModel(file) as model:
            whole = model.ask(questions(model, 4))
        chat.paid.clear()
        for stop in range(8):
            kept = tmp_path / f"{stop}.jsonl"
            with LanguageModel(file, answers=kept, calls=stop or None) as model:
                if stop:
                    with pytest.raises(BudgetError, match=f"limit of {stop} calls"):
                        model.ask(questions(model, 4))
            # The last line was written in part when the run was killed.
            content = kept.read_bytes()
            kept.write_bytes(content + b'{"key": "ab')
            with LanguageModel(file, answers=kept) as model:
                assert model.ask(questions(model, 4)) == whole
                assert model.spent.remembered == stop
            assert len(chat.paid) == len(set(chat.paid)) == 8
            chat.paid.clear()


@pytest.mark.full
def test_a_run_that_is_killed_loses_only_what_was_under_way(tmp_path):
    kept = tmp_path / "kept.jsonl"
    with RecordingChat(latency=0.02) as chat:
        file = screening(chat.url, plan={"at_once": 4})
        with LanguageModel(file) as model:
            asked = questions(model, 20)
            whole = model.ask(asked)
        chat.paid.clear()
        code = (
            "import sys; from llm.test_asking import *\n"
            "with LanguageModel(screening(sys.argv[1], plan={'at_once': 4}), answers=Path(sys.argv[2])) as model:\n"
            "    model.ask(questions(model, 20))"
        )
        with subprocess.Popen([sys.executable, "-c", code, chat.url, str(kept)], cwd=ROOT / "tests") as run:
            while len(chat.paid) < 15 and run.poll() is None:
                time.sleep(0.005)
            run.send_signal(signal.SIGKILL)
        with LanguageModel(file, answers=kept) as model:
            assert model.ask(asked) == whole
        twice = len(chat.paid) - len(set(chat.paid))
    assert twice <= 4
    assert model.spent.remembered >= 11


def test_two_runs_share_a_file_of_answers(tmp_path):
    kept = tmp_path / "kept.jsonl"
    with RecordingChat() as chat:
        file = screening(chat.url, answers_file=str(kept))
        with LanguageModel(file) as one:
            first = one.ask(questions(one))
        with LanguageModel(file.model_copy(update={"refused": "excluded"})) as two:
            assert two.ask(questions(two)) == first
            assert two.spent.calls == 0
    assert len(chat.paid) == len(set(chat.paid))
    assert "Lakisha" not in kept.read_text()


@pytest.mark.parametrize("content", ["a\nb\nc\nd\n", '{"kind": "llm"}\n', '{\n  "kind": "llm"\n}'])
def test_a_file_that_holds_something_else_is_not_written_into(content, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text(content)
    with pytest.raises(DataError, match="not an answers file"):
        LanguageModel(screening(), answers=other)
    with pytest.raises(DataError, match="cannot be used"):
        LanguageModel(screening(), answers=tmp_path / "none" / "x.jsonl")
    assert other.read_text() == content


def test_faults_are_asked_again_and_paid_as_far_as_they_may_be():
    faults = {2: 429, 3: 500, 4: "slow", 5: "truncated", 6: "hangs up", 7: 503}
    with conversation(faults=faults, service__timeout=0.3) as (chat, model):
        found = model.ask(questions(model, 6))
        assert {one.kind for one in found} == {"choice"}
        # Three answers came late, broken or not at all; what was refused for a reason that passes is free.
        assert (len(chat.received), model.spent.calls) == (18, 15)
        assert len(chat.paid) == 14  # the slow and the truncated one are charged, the one that hung up is not


def test_a_question_that_stays_open_is_told_and_asked_another_time(tmp_path):
    service = {"model": "m", "backoff": 0.0, "retries": 1}
    with RecordingChat(faults={2: 500, 3: 500}) as chat:
        file = screening(chat.url, service={"url": chat.url, **service}, plan={"at_once": 1})
        with LanguageModel(file, answers=tmp_path / "kept.jsonl") as model:
            found = model.ask(questions(model, 3, 1))
            assert [one.kind for one in found] == ["choice", "failed", "choice"]
            assert model.spent.failed == 1
            assert [one.kind for one in model.ask(questions(model, 3, 1))] == ["choice"] * 3
    assert len(chat.paid) == 3


@pytest.mark.parametrize("status", [401, 404])
def test_a_service_that_cannot_be_used_is_asked_once(status):
    with conversation(faults=dict.fromkeys(range(1, 9), status), plan={"at_once": 1}) as (chat, model):
        with pytest.raises(FetchError, match=f"status {status}"):
            model.ask(questions(model))
        assert (len(chat.received), model.spent.calls) == (1, 0)


def test_a_service_that_is_down_is_not_asked_for_ever():
    with conversation(faults=dict.fromkeys(range(1, 999), 500), service__retries=0) as (chat, model):
        with pytest.raises(FetchError, match="status 500"):
            model.ask(questions(model, 100))
        assert len(chat.received) < 30


def test_the_gate_halves_once_for_what_is_told_at_the_same_time_and_opens_slowly():
    gate = RateGate(16)
    for _ in range(4):
        assert gate.enter()
    gate.slow_down(60.0)
    gate.slow_down(60.0)
    assert gate.limit == 8
    gate._until = 0.0
    gate.slow_down(0.0)
    assert gate.limit == 4
    for _ in range(4):
        gate.leave(answered=True)
    assert gate.limit == 5
    gate.stop()
    assert not gate.enter()


def test_the_bound_of_tokens_covers_every_byte_of_the_request():
    body = {
        "messages": [{"role": "user", "content": "größer \N{GRINNING FACE}"}],
        "response_format": {"type": "x" * 99},
    }
    assert upper_tokens(body) >= len("größer \N{GRINNING FACE}".encode()) + 99


class Provider:
    """A connection to a provider whose calls are billed at random, also if their answer is late, broken or lost.

    Args:
        seed: Seed of the random events.
        fair: Whether calls keep to the maximum of tokens. Otherwise all of them are answered and bill 40 times as much.
    """

    url = "http://127.0.0.1:9/v1"

    def __init__(self, seed, *, fair=True):
        self.chance, self.fair, self.lock = random.Random(seed), fair, threading.Lock()
        self.billed = []

    def post(self, path, body, *, key):
        with self.lock:
            event = self.chance.choice(EVENTS) if self.fair else "answer"
            most = upper_tokens(body), body["max_tokens"]
            tokens = tuple(self.chance.randint(0, limit) if self.fair else 40 * limit for limit in most)
            if event not in FREE:
                self.billed.append(tokens)
        time.sleep(self.chance.random() / 2000)
        error = FetchError(str(event))
        error.retry_after = 0.0
        error.sent, error.timed_out = event != "unreached", event != "unreached"
        if event in ("late", "unreached"):
            raise error
        if isinstance(event, int):
            error.status = event
            raise error
        if event == "filtered":
            raise ContentRefusedError("no", code="content_filter")
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        choices = [] if event == "broken" else [{"message": {"content": "yes"}, "finish_reason": "stop"}]
        return {"choices": choices} | ({} if event == "uncounted" else {"usage": usage})

    @property
    def bill(self):
        return sum(map(sum, self.billed))


FREE = (429, 500, 503, "unreached")
EVENTS = ["answer"] * 10 + ["late", "broken", "uncounted", "filtered", 408, 504, 524, *FREE]


def pool_of(provider, budget, store, at_once):
    return QuestionPool(ChatService(provider, "m"), store, budget, at_once, 6, 0.0, 8)


def bodies_of(many):
    return {str(n): {"messages": [{"role": "user", "content": "x"}], "max_tokens": 8} for n in range(many)}


def ask_all(pool, many):
    """Ask many questions. Return the message of the error that ended the run."""
    try:
        pool.ask(bodies_of(many), lambda share: None)
    except (BudgetError, FetchError) as error:
        return error.message
    return ""


@settings(deadline=None, max_examples=scaled(60))
@given(
    seed=st.integers(0, 10**9),
    at_once=st.integers(1, 8),
    money=st.integers(0, 1500),
    calls=st.none() | st.integers(1, 20),
)
def test_the_bill_stays_within_the_limits_and_is_reported(seed, at_once, money, calls):
    provider, budget = Provider(seed), CallBudget(calls, float(money) or None, (1e6, 1e6))
    message = ask_all(pool_of(provider, budget, AnswerStore(None), at_once), 15)
    spent = budget.spent
    assert provider.bill <= spent.money <= (money or 10**9)
    assert len(provider.billed) == spent.calls <= (calls or 10**9)
    assert spent.money - spent.assumed_money <= provider.bill <= spent.money
    assert spent.assumed or provider.bill == spent.money
    assert not message or str(spent) in message or not spent.calls


@settings(deadline=None, max_examples=scaled(30))
@given(seed=st.integers(0, 10**9), at_once=st.integers(1, 8), money=st.integers(100, 20_000))
def test_a_provider_that_exceeds_its_maximum_is_found_out_by_one_call(seed, at_once, money):
    provider, budget = Provider(seed, fair=False), CallBudget(None, float(money), (1e6, 1e6))
    ask_all(pool_of(provider, budget, AnswerStore(None), at_once), 15)
    assert provider.bill <= max(money, sum(provider.billed[0]))
    assert provider.bill == budget.spent.money


@settings(deadline=None, max_examples=scaled(30))
@given(seed=st.integers(0, 10**9), at_once=st.integers(1, 8), money=st.integers(100, 1500))
def test_resumed_runs_share_a_limit(seed, at_once, money):
    with tempfile.TemporaryDirectory() as folder:
        provider, kept = Provider(seed), Path(folder) / "kept.jsonl"
        plan = {"at_once": at_once, "money": money, "price": PRICE}
        for _ in range(4):
            with LanguageModel(screening(plan=plan), answers=kept) as model:
                model._pool.chat = ChatService(provider, "m")
                with contextlib.suppress(BudgetError, FetchError):
                    model.ask(questions(model, 6))
    assert provider.bill <= money


def test_a_resumed_run_names_what_earlier_ones_paid(tmp_path):
    plan = {"money": 400.0, "price": PRICE}
    with RecordingChat() as chat:
        for _ in range(2):
            with LanguageModel(screening(chat.url, plan=plan), answers=tmp_path / "kept.jsonl") as model:
                with pytest.raises(BudgetError) as raised:
                    model.ask(questions(model, 90, 2))
                assert str(model.spent) in raised.value.message
    assert model.spent.calls == 0
    assert model.spent.remembered_money == sum(chat.tokens) > 0


def test_the_bill_of_an_interrupted_run_includes_calls_in_flight():
    provider, budget = Provider(3), CallBudget(None, None, (1e6, 1e6))
    interrupted, post = threading.Event(), provider.post

    def post_or_wait(path, body, *, key):
        if len(provider.billed) >= 200:  # these calls are in flight when the run is interrupted
            interrupted.wait(60)
        return post(path, body, key=key)

    def interrupt(share):
        interrupted.set()
        raise KeyboardInterrupt

    provider.post = post_or_wait

    with pytest.raises(KeyboardInterrupt) as raised:
        pool_of(provider, budget, AnswerStore(None), 8).ask(bodies_of(4000), interrupt)
    assert len(provider.billed) == budget.spent.calls < 4000
    assert raised.value.__notes__ == [str(budget.spent)]


def test_a_forecast_asks_nothing_and_learns_from_what_was_counted():
    with RecordingChat() as chat, LanguageModel(screening(chat.url, plan={"price": [1.0, 2.0]})) as model:
        asked = questions(model, 4, 1)
        before = model.forecast(asked)
        assert (before.calls, before.tokens_out, len(chat.received)) == (4, 32, 0)
        assert before.money == pytest.approx((before.tokens_in + 2 * 32) / 1e6)
        model.ask(asked[:2])
        after = model.forecast(asked)
        assert (after.calls, after.tokens_in) == (2, 16)  # a word is a token: eight in each prompt


def said(text, finish="stop"):
    return {"choices": [{"message": {"content": text}, "finish_reason": finish}]}


REFUSED_BODIES = [
    (400, {"error": {"code": "content_filter", "message": "no"}}),
    (400, {"error": {"code": "400", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
    (403, {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["hate"], "flagged_input": "x"}}}),
    (400, {"error": {"code": "data_inspection_failed", "message": "no"}}),
    (200, {"error": {"type": "content_policy_violation", "message": "no"}}),
    (200, said(None, "content_filter")),
    (200, said("yes", "SAFETY")),
    (200, {"choices": [{"finish_reason": "content_filter", "index": 0}]}),
    (200, {"choices": [{"message": {"content": None, "refusal": "I cannot."}, "finish_reason": "stop"}]}),
]


@pytest.mark.parametrize(("status", "body"), REFUSED_BODIES)
def test_an_answer_that_a_content_filter_removed_is_refused_and_asked_once(status, body):
    def filtered(path, headers, asked):
        found = RecordingChat.answer(chat, path, headers, asked)
        return found._replace(status=status, body=json.dumps(body).encode()) if b"Lakisha" in asked else found

    with RecordingChat() as chat, LanguageModel(screening(chat.url)) as model:
        chat.answer = filtered
        assert [outcome.kind for outcome in model.ask(questions(model, 2, 1))] == ["refused", "choice"]
        assert len(chat.received) == 2


def test_other_errors_about_a_request_are_no_refusals():
    for error in (
        {"code": "invalid_request_error"},
        {"code": "unknown_parameter", "type": "safety_identifier"},
        {"code": 400},
        {},
    ):
        assert read_refusal({"error": error}) is None
    assert read_refusal({"error": "content_filter"}) is read_refusal([]) is None


def test_a_consensus_is_the_majority_of_fresh_answers():
    with conversation(0.8, consensus=5) as (chat, model), LanguageModel(screening(chat.url)) as single:
        prompt = model.render({"name": "Emily", "years": 1})
        found = model.ask([ChatQuestion(prompt, draw) for draw in range(6)])
        votes = single.ask([ChatQuestion(prompt, draw) for draw in range(30)])
    majority = [sum(one.value for one in votes[i : i + 5]) > 2.5 for i in range(0, 30, 5)]
    assert [one.value == 1 for one in found] == majority
    assert len(set(chat.paid)) == 30


def test_blind_prompts_are_alike_for_everybody():
    from evenhand.datasets import load_name_list, name_lists

    people = load_name_list(name_lists()[0]).people
    file = screening(prompt="{{ person.first }} {{ person.last }}: {{ person.They }} led {{ team }}.")
    with LanguageModel(file.model_copy(update={"blind": True})) as blind, LanguageModel(file) as model:
        row = {"team": 3}
        assert {blind.render(row, one).text for one in people} == {"[first name] [last name]: They led 3."}
        assert len({model.render(row, one).text for one in people}) > 10


def test_a_ranking_has_all_its_candidates():
    template = "{% for one in candidates %}{{ one.number }}. {{ one.years }} years\n{% endfor %}Rank them."
    answers = {"read": "ranking", "candidates": 3}
    with conversation({"2, 1, 3": 1.0}, prompt=template, answers=answers) as (_, model):
        others = [({"years": 1}, None), ({"years": 7}, None)]
        prompt = model.render({"years": 5}, others=others)
        assert prompt.text == "1. 5 years\n2. 1 years\n3. 7 years\nRank them."
        outcomes = model.ask([ChatQuestion(prompt, place=place) for place in (1, 2, 3)])
        assert [outcome.value for outcome in outcomes] == [0.5, 1.0, 0.0]
        with pytest.raises(OptionError, match="ranks 3 candidates, got 2"):
            model.render({"years": 1}, others=others[:1])


def test_the_client_of_openai_asks_what_we_ask():
    openai = pytest.importorskip("openai", reason="needs openai to compare with")
    with RecordingChat(seeds=True) as chat, LanguageModel(screening(chat.url)) as model:
        client = openai.OpenAI(base_url=chat.url, api_key="none", max_retries=0)
        ours = model.ask([ChatQuestion(model.render({"name": "Emily", "years": 1}), seed=n) for n in range(20)])
        bodies = sorted(chat.received, key=lambda body: body["seed"])
        theirs = [client.chat.completions.create(**body).choices[0].message.content for body in bodies]
        client.close()
    assert [one.label for one in ours] == theirs


def test_an_idempotency_key_is_sent():
    with RecordingChat() as chat:
        service = ServiceConnection(chat.url)
        service.post("/chat/completions", {"messages": [{"role": "user", "content": "x"}]}, key="k")
        service.close()
    assert chat.paid == ["k"]


def test_on_other_machines_the_port_tells_services_apart():
    own, other = (
        {question_key(f"http://{host}:{port}/v1", {"model": "m"}, 0) for port in (8000, 8001)}
        for host in ("127.0.0.1", "box.example")
    )
    assert (len(own), len(other)) == (1, 2)
