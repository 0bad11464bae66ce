"""What the first use costs is compared with committed figures, and no command is left out."""

import importlib.util

import pytest

from support import ROOT

SPEC = importlib.util.spec_from_file_location("first_use", ROOT / "benchmarks" / "first_use.py")
first_use = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(first_use)


@pytest.mark.parametrize("figure", first_use.COMPARED)
def test_what_costs_half_as_much_again_is_named(figure, capsys):
    last = {"audit": {"ratio": 10.0, "megabytes": 200.0}, "help": {"ratio": 1.0, "megabytes": 50.0}}
    grown = {"audit": last["audit"] | {figure: 1.51 * last["audit"][figure]}, "help": last["help"]}
    (complaint,) = first_use.show(grown, last)
    assert complaint.startswith(f"audit: {figure}")
    assert first_use.show(last, last) == []
    assert first_use.show({"new": {"ratio": 3.0, "megabytes": 9.0}}, last) == []


def test_seconds_by_the_clock_are_only_shown(capsys):
    last = {"audit": {"ratio": 10.0, "clock_seconds": 5.0}}
    assert first_use.show({"audit": {"ratio": 10.0, "clock_seconds": 50.0}}, last) == []
    assert "50.0 (5.0)" in capsys.readouterr().out


def test_a_hundredth_of_a_second_is_noise(capsys):
    last = {"import": {"ratio": 0.12, "megabytes": 26.0}}
    assert first_use.show({"import": {"ratio": 0.6, "megabytes": 30.0}}, last) == []
    assert len(first_use.show({"import": {"ratio": 0.7, "megabytes": 30.0}}, last)) == 1
