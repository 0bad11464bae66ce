"""The question for other verifiers: the network's margins, and satisfiable if somebody is treated unfairly."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cases import random_case, real_network, worked_example
from hypothesis import given
from hypothesis import strategies as st

from evenhand.certification.query.enumeration import decode_points, enumerate_domain
from evenhand.certification.query.question import query_of
from evenhand.certification.vnnlib import pair_layers, write_pair_question
from evenhand.errors import OptionError


def outputs(layers, inputs):
    for number, (weights, bias) in enumerate(layers):
        inputs = (np.maximum(inputs, 0.0) if number else inputs) @ weights + bias
    return inputs


def test_the_worked_example_by_hand():
    layers = pair_layers(query_of(worked_example()))
    assert outputs(layers, np.array([[0.0, 2.0]])) == pytest.approx(np.array([[0.28, -0.32]]))
    assert layers[0][0].shape == (2, 2)


@given(st.integers(0, 10_000))
def test_every_person_has_the_margins_of_the_network(seed):
    query = query_of(random_case(seed).network)
    points = decode_points(query, np.arange(min(query.points, 200)))
    found = outputs(pair_layers(query), points.astype(float))
    wanted = np.concatenate([query.margins(query.first(points), p) for p in range(len(query.biases))], axis=1)
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_property_is_satisfied_by_those_who_are_treated_unfairly(seed, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    network = next(
        found for number in range(100) if len((found := random_case(100 * seed + number).network).classes) == 2
    )
    onnx_file, property_file = write_pair_question(network, tmp_path / "question")
    query, text = query_of(network), property_file.read_text()
    points = decode_points(query, np.arange(query.points))
    session = runtime.InferenceSession(str(onnx_file))
    found = np.concatenate([session.run(None, {"X": point[None].astype(np.float32)})[0] for point in points])
    # Ties and what float32 rounds to a tie satisfy the property and are no certain findings.
    clear = np.abs(found).min(axis=1) > 1e-4
    satisfied = [solves(text, point, margins) for point, margins in zip(points, found, strict=True)]
    assert (np.array(satisfied) == (enumerate_domain(query).status == 2))[clear].all()
    assert not solves(text, points[0] - 1.0, found[0])


def solves(text, inputs, margins):
    """Return whether the assertions of a property hold, read from its text."""
    values = {f"X_{i}": value for i, value in enumerate(inputs)} | {f"Y_{i}": value for i, value in enumerate(margins)}

    def evaluate(tokens):
        token = tokens.pop(0)
        if token != "(":
            return values.get(token) if token in values else float(token)
        operator, operands = tokens.pop(0), []
        while tokens[0] != ")":
            operands.append(evaluate(tokens))
        tokens.pop(0)
        return {
            "and": all, "or": any, "assert": all, "<=": lambda two: two[0] <= two[1], ">=": lambda two: two[0] >= two[1]
        }[operator](operands)  # fmt: skip

    stated = [line for line in text.splitlines() if line.startswith("(assert")]
    return all(evaluate(re.findall(r"[()]|[^\s()]+", line)) for line in stated)


def test_a_real_network_is_written(tmp_path):
    pytest.importorskip("onnx", reason="needs the extra onnx")
    _, property_file = write_pair_question(real_network("GC-1", "age"), tmp_path)
    assert property_file.read_text().count("declare-const X_") == 19


def test_other_questions_are_refused(tmp_path):
    several = next(found for number in range(100) if len((found := random_case(number).network).classes) > 2)
    with pytest.raises(OptionError, match="are about two labels"):
        write_pair_question(several, tmp_path)
