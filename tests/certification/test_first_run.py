"""The first run on a machine: no prover is compiled that takes too long for the time limit, and it is named."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numba.core.event
import numpy as np
import pandas as pd
import pytest
from numba.core.dispatcher import Dispatcher
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from evenhand import auditing, certification
from evenhand.auditing import config as audit_config
from evenhand.certification import proof_run
from evenhand.core import interrupts, kernels
from evenhand.errors import LimitError
from evenhand.models import Subject
from evenhand.schema.people import ColumnRoles

MODELS = {
    "forest": lambda: RandomForestClassifier(20, max_depth=6, random_state=0),
    "linear": lambda: LogisticRegression(),
    "network": lambda: MLPClassifier((4, 4), random_state=0, max_iter=20),
}


@pytest.fixture(autouse=True)
def frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, so that only compiling depends on the time limit."""
    monkeypatch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: 0.0)


def subject(kind: str, *, small: bool) -> Subject:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.integers(0, 2, 300), "points": rng.integers(0, 10, 300)})
    if not small:  # too many people to ask about all of them
        frame = frame.assign(income=rng.normal(0, 1, 300), age=rng.normal(0, 1, 300), debt=rng.normal(0, 1, 300))
    target = (frame["points"] + 2 * frame["sex"] + rng.normal(0, 1, 300) > 6).astype(int)
    with warnings.catch_warnings(action="ignore"):  # the network is not trained to the end
        fitted = MODELS[kind]().fit(frame, target)
    people = ColumnRoles("hired", ["sex"], favourable=1).read(frame.assign(hired=target))
    return Subject(fitted, people)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The provers that count as compiled: none, unless a test adds some. No kernel of a prover may be compiled."""
    provers: set[str] = set()
    monkeypatch.setattr(proof_run, "_has_kernels", provers.__contains__)
    monkeypatch.setattr(audit_config, "COMPILE_SHARE", 0.5)
    began: list[str] = []

    class Recorder(numba.core.event.Listener):
        def on_start(self, event: numba.core.event.Event) -> None:
            began.append(event.data["dispatcher"].py_func.__module__)

        def on_end(self, event: numba.core.event.Event) -> None:
            pass

    with numba.core.event.install_listener("numba:compile", Recorder()):
        yield provers
    assert not [name for name in began if name.startswith("evenhand.certification") and not provers]


@pytest.mark.parametrize("kind", ["forest", "network"])
def test_without_compiled_provers_an_audit_names_the_certificate_that_is_not_run(kind, compiled):
    result = auditing.audit(subject(kind, small=False), time_limit=3, samples=100, searched=0)
    assert result.certificates == ()
    [skipped] = [part for part in result.not_run if part.what.startswith("certification")]
    assert "not compiled" in skipped.reason
    assert [rate.protected for rate in result.individual.rates if rate.flips is not None]


def test_models_of_one_score_need_no_compiled_prover(compiled):
    result = auditing.audit(subject("linear", small=False), time_limit=3, samples=100, searched=0)
    assert result.certificates[0].undecided < 0.01
    assert result.settings["proofs_by"] == "the distribution of scores"


@pytest.mark.parametrize("kind", MODELS)
def test_small_domains_need_no_compiled_prover(kind, compiled):
    result = auditing.audit(subject(kind, small=True), time_limit=3, samples=100, searched=0)
    [certificate] = result.certificates
    assert certificate.method == "enumeration"
    assert certificate.undecided == pytest.approx(0.0, abs=1e-9)
    assert result.not_run == ()
    assert result.settings["proofs_by"] == "enumeration"


@pytest.mark.parametrize("kind", ["forest", "network"])
@pytest.mark.parametrize("limits", [{"time_limit": 3.0, "compile_limit": 1.5}, {"compile_limit": 1.0, "max_boxes": 9}])
def test_without_compiled_provers_certify_reports_the_limit(kind, limits, compiled):
    network = subject(kind, small=False).white_box
    with pytest.raises(LimitError) as caught:
        certification.certify(network, samples=1, **limits)
    assert caught.value.exit_code == 3
    assert caught.value.hint is not None


@pytest.mark.parametrize(("ready", "compile_limit"), [({"linear"}, 1.0), (set(), 30.0), (set(), float("inf"))])
def test_uses_a_prover_that_is_ready_or_affordable(ready, compile_limit, compiled):
    compiled |= ready | {"any kernel may be compiled here"}
    network = subject("network", small=False).white_box
    assert certification.certify(network, max_boxes=20, samples=1, compile_limit=compile_limit).boxes > 0


def test_default_compile_limit_is_half_the_time_limit():
    limit = audit_config.COMPILE_SHARE
    assert auditing.AuditConfig(time_limit=8).compile_limit == 8 * limit
    assert auditing.AuditConfig().compile_limit == float("inf")


def test_compiling_pauses_time_limits(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(interrupts.time, "perf_counter", lambda: now[0])
    compile_signature = Dispatcher.compile

    def compile_for_a_minute(kernel: Dispatcher, signature: object) -> object:
        now[0] += 60
        return compile_signature(kernel, signature)

    monkeypatch.setattr(Dispatcher, "compile", compile_for_a_minute)
    inner = kernels.compile_kernel(internal=True)(lambda x: x + 1)

    @kernels.compile_kernel()
    def outer(x: int) -> int:
        return inner(x)

    before = interrupts.RUNNING_SECONDS()
    assert outer(1) == 2
    assert now[0] >= 220
    now[0] += 5
    assert interrupts.RUNNING_SECONDS() == pytest.approx(before + 5)
