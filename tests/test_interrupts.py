"""SIGTERM interrupts like Ctrl-C. Handlers are called, as signals may be blocked where tests run."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from evenhand.core.interrupts import InterruptCounter, InterruptGuard, StopSignals, is_interrupted


@pytest.fixture(autouse=True)
def untouched():
    """No other handler than a fresh program has."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def send(number):
    signal.getsignal(number)(number, None)


def test_a_termination_interrupts_and_is_told_from_an_interrupt(interruptible):
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        assert signals.exit_code == 130
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGTERM)
        assert signals.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_must_not_be_left_half_done_counts_terminations(interruptible):
    with StopSignals() as signals:
        with InterruptCounter() as interrupts:
            send(signal.SIGTERM)
            send(signal.SIGINT)
            assert interrupts.count == 2
        assert signals.terminated
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGTERM)


def test_a_handler_of_the_program_is_left_in_place(interruptible):
    def own(number, frame):
        pass

    signal.signal(signal.SIGTERM, own)
    with StopSignals(), InterruptCounter():
        assert signal.getsignal(signal.SIGTERM) is own
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with InterruptCounter():  # a library that is used without the command line ends as its program does
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_threads_leave_signals_alone():
    seen = []

    def work():
        with StopSignals(), InterruptCounter():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_steps_on_other_threads_are_told(interruptible):
    assert not is_interrupted()
    with InterruptCounter(), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(is_interrupted).result()
        send(signal.SIGINT)
        assert pool.submit(is_interrupted).result()
        assert not is_interrupted(grace=60)
        send(signal.SIGINT)
        assert is_interrupted(grace=60)
    assert not is_interrupted()


def catch_interrupt():
    """Do as scikit-learn's MLPClassifier does."""
    with suppress(KeyboardInterrupt):
        send(signal.SIGTERM)


def guarded(function, *arguments):
    with InterruptGuard():
        return function(*arguments)


def test_an_interrupt_that_code_catches_is_raised_again(interruptible):
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            guarded(catch_interrupt)
        assert signals.terminated
    assert guarded(int, "3") == 3
    with pytest.raises(ValueError, match="its own"):
        guarded(float, "its own")


def test_an_error_that_an_interrupt_led_to_is_an_interrupt(interruptible):
    def fail():
        catch_interrupt()
        raise RuntimeError("no compiled object yet")

    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            guarded(fail)
        assert signals.terminated
