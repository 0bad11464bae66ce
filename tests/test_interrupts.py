"""SIGTERM interrupts like Ctrl-C. Handlers are called, as signals may be blocked where tests run."""

import signal
import threading

import pytest

from evenhand.interrupts import InterruptCounter, StopSignals


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
