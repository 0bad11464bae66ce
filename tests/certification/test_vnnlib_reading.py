"""Questions of VNN-LIB files: what is written is read back, and answered as by asking about everybody."""

from __future__ import annotations

import numpy as np
import pytest
from cases import prove, random_case, worked_example
from hypothesis import assume, given
from hypothesis import strategies as st

from evenhand.certification import read_pair_question, write_pair_question
from evenhand.certification.query.boxes import FAIR, UNDECIDED, UNFAIR
from evenhand.certification.query.enumeration import enumerate_domain
from evenhand.certification.query.question import query_of
from evenhand.certification.vnnlib import WHOLE_INPUTS
from evenhand.errors import EvenhandError, ModelError, OptionError

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")

FIRST = (np.array([[1.0, -1.0], [2.0, -0.5], [1.5, 0.0]]), np.array([-12.25, 9.0]))
LAST = (np.array([[1.0], [-0.5]]), np.array([0.0]))


def score(grade, interviews, sex):
    """The hiring network of the documentation, by hand."""
    return max(0.0, grade + 2 * interviews + 1.5 * sex - 12.25) - 0.5 * max(0.0, 9 - grade - 0.5 * interviews)


def write_copies(file, layers, end=None):
    """Two copies of a dense network side by side, with MatMul and Add as benchmarks have them."""
    helper, arrays = onnx.helper, onnx.numpy_helper
    nodes, weights, name = [], [], "input"
    for i, (matrix, bias) in enumerate(layers):
        if i:
            nodes.append(helper.make_node("Relu", [name], [f"relu{i}"]))
            name = f"relu{i}"
        weights.append(arrays.from_array(np.kron(np.eye(2), matrix).astype(np.float32), f"W{i}"))
        weights.append(arrays.from_array(np.tile(bias, 2).astype(np.float32), f"b{i}"))
        nodes.append(helper.make_node("MatMul", [name, f"W{i}"], [f"product{i}"]))
        nodes.append(helper.make_node("Add", [f"product{i}", f"b{i}"], [f"sum{i}"]))
        name = f"sum{i}"
    if end is not None:
        nodes.append(helper.make_node(end, [name], ["end"]))
        name = "end"
    sizes = 2 * len(layers[0][0]), 2 * len(layers[-1][1])
    takes, gives = (
        helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [1, size])
        for each, size in zip(("input", name), sizes, strict=True)
    )
    graph = helper.make_graph(nodes, "copies", [takes], [gives], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)
    return file


def pair_text(condition, grades=(0, 20), outputs=2):
    bounds = [grades, (0, 5), (0, 0), grades, (0, 5), (1, 1)]
    lines = [f"(declare-const X_{i} Real)" for i in range(6)]
    lines += [f"(declare-const Y_{j} Real)" for j in range(outputs)]
    for i, (low, high) in enumerate(bounds):
        lines += [f"(assert (<= X_{i} {high}.0))", f"(assert (>= X_{i} {low}.0))"]
    lines += [
        "; the same grade,",
        "(assert (<= X_0 X_3))",
        "(assert (>= X_0 X_3))",
        "(assert (= X_1 X_4)) ; interviews",
    ]
    return "\n".join([*lines, condition, ""])


EITHER = "(assert (or (and (>= Y_0 0.0) (<= Y_1 0.0))\n (and (<= Y_0 0.0) (>= Y_1 0.0))))"


@pytest.fixture
def asked(tmp_path):
    """Return a question about two copies of the hiring network."""

    def read(text, layers=(FIRST, LAST), end=None):
        (tmp_path / "pair.vnnlib").write_text(text)
        return read_pair_question(write_copies(tmp_path / "copies.onnx", layers, end), tmp_path / "pair.vnnlib")

    return read


@given(st.integers(0, 10_000))
def test_what_is_written_is_read_back(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("question")
    # Whole weights are the same in float32.
    network = random_case(seed, whole=True).network
    assume(len(network.classes) == 2 and not query_of(network).constant)
    write_pair_question(network, folder)
    question = read_pair_question(folder)
    status = enumerate_domain(query_of(network)).status
    found = prove(question.network)
    shares = [(status == each).mean() for each in (FAIR, UNFAIR, UNDECIDED)]
    assert [found.certified, found.falsified, found.undecided] == pytest.approx(shares, abs=1e-9)
    verdict = question.conclude(found)
    # A score of zero satisfies the property, and is undecided.
    assert verdict.answer in (["sat"] if shares[1] else ["unknown", "sat"] if shares[2] else ["unsat"])
    assert verdict.answer != "sat" or question.asked.holds(verdict.values)


def test_the_worked_example_with_its_words_and_over_the_reals(tmp_path):
    _, file = write_pair_question(worked_example(), tmp_path)
    whole = read_pair_question(tmp_path)
    assert whole.conclude(prove(whole.network)).answer == "sat"
    file.write_text(file.read_text().replace(WHOLE_INPUTS, ""))
    reals = read_pair_question(tmp_path)
    assert [each.kind for each in reals.network.schema.attributes] == ["real", "real", "categorical"]
    people = np.array([[x, y, p] for x in range(5) for y in range(6) for p in range(2)], dtype=float)
    assert reals.network.logits(people) == pytest.approx(whole.network.logits(people), rel=1e-6, abs=1e-6)
    assert whole.written.logits(people[:, :2])[::2, 0] == pytest.approx(whole.network.logits(people)[::2, 0], abs=1e-6)


@pytest.mark.parametrize("condition", [EITHER, "(assert (and (<= Y_0 0)))\n(assert (>= Y_1 0))"])
def test_two_copies_as_in_benchmarks(asked, condition):
    question = asked(pair_text(condition))
    verdict = question.conclude(prove(question.network, max_boxes=400))
    assert verdict.answer == "sat"
    x = verdict.values
    assert (x["X_0"], x["X_1"], x["X_2"], x["X_5"]) == (x["X_3"], x["X_4"], 0.0, 1.0)
    assert [score(*(x[f"X_{i}"] for i in one)) for one in ((0, 1, 2), (3, 4, 5))] == pytest.approx([x["Y_0"], x["Y_1"]])
    assert verdict.text().startswith(f"sat\n((X_0 {x['X_0']!r})\n (X_1 ")
    # Of grades up to 1 nobody has a positive score.
    question = asked(pair_text(condition, grades=(0, 1)))
    assert question.conclude(prove(question.network)).text() == "unsat"


def test_the_direction_that_never_happens_is_not_found(asked):
    question = asked(pair_text("(assert (>= Y_0 0.0))\n(assert (<= Y_1 0.0))"))
    verdict = question.conclude(prove(question.network, max_boxes=400))
    assert verdict.answer == "unknown"
    assert "no listed pair satisfies the property" in verdict.text()


def test_two_outputs_and_another_threshold(asked):
    two = (np.hstack([-LAST[0], LAST[0]]), np.zeros(2))
    condition = "(assert (or (and (>= Y_0 Y_1) (<= Y_2 Y_3)) (and (<= Y_0 Y_1) (>= Y_2 Y_3))))"
    question = asked(pair_text(condition, outputs=4), (FIRST, two))
    people = np.array([[9.0, 2.0, 1.0], [9.0, 1.0, 0.0]])
    assert question.network.predict(people).tolist() == [score(*one) > 0 for one in people]
    question = asked(pair_text(EITHER.replace("0.0", "0.5")))
    assert question.network.logits(people)[:, 0] == pytest.approx([score(*one) - 0.5 for one in people])


def test_scores_that_are_equal_are_not_unsat(asked):
    blind = (FIRST[0] * [[1.0], [1.0], [0.0]], FIRST[1])
    question = asked(pair_text(EITHER), (blind, LAST))
    verdict = question.conclude(prove(question.network))
    assert verdict.answer == "unknown"
    assert "only one at the threshold itself" in verdict.reason


def test_a_certificate_of_another_question_is_refused(asked):
    question = asked(pair_text(EITHER))
    with pytest.raises(OptionError, match="another question"):
        question.conclude(prove(question.network, max_boxes=1, where=["X_0 >= 15"]))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("X_2 Real", "X_2 Int", "line 3: expected type Real, got 'Int'"),
        ("X_2 Real", "X_1 Real", "line 3: X_1 is declared twice"),
        ("X_2 Real", "Z_2 Real", "line 3: expected a variable"),
        ("(declare-const X_2 Real)", "(set-logic QF_LRA)", "line 3: expected .declare-const"),
        ("(declare-const Y_1 Real)", "", "got 'Y_1'"),
        ("(>= X_0 0.0)", "(> X_0 0.0)", "line 10: '>' with 2 operands is not known"),
        ("(>= X_0 0.0)", "(>= X_0 nan)", "line 10: expected a number or a variable"),
        ("(>= X_0 0.0)", "(>= X_0 1e999)", "line 10: expected a number or a variable"),
        ("(>= X_0 0.0)", "(>= X_0 \u0663)", "line 10: expected a number or a variable"),
        ("(>= X_0 0.0)", ";\u2028(>= X_0 0.0)", "a bracket is not closed"),
        ("(>= X_0 0.0)", "(>= X_0 (- 1))", "line 10: '>=' with 2 operands"),
        ("(>= X_0 0.0)", "(>= 1 0.0)", "line 10: two numbers are compared"),
        ("(>= X_0 0.0)", "(or)", "line 10: 'or' with 0 operands"),
        ("(>= X_0 0.0)", "true", "line 10: expected a comparison, got 'true'"),
        ("(>= X_0 0.0))", "(>= X_0 0.0)", "a bracket is not closed"),
        ("(>= X_0 0.0))", "(>= X_0 0.0)))", "line 10: a bracket is closed"),
        ("(>= X_0 0.0)", "(" * 50, "brackets within each other"),
        ("(>= X_0 0.0)", "(<= X_0 30.0)", None),
        ("(assert (>= X_1 0.0))", "(assert (>= X_1 6.0))", "no number is a value of X_1"),
        ("(assert (<= X_0 X_3))", "", "compared and not made equal"),
        ("(= X_1 X_4)", "(= X_1 X_3)", "must equal the input at its place"),
        ("(= X_1 X_4)", "(= X_1 X_4) (<= X_0 1)", "line 24: expected .declare-const"),
        ("(assert (= X_1 X_4))", "", "X_1 and X_4 are neither equal nor fixed"),
        ("(<= X_5 1.0)", "(<= X_5 2.0)", "X_2 and X_5 are neither equal nor fixed"),
        ("(assert (<= X_5 1.0))\n(assert (>= X_5 1.0))", "(assert (= X_5 0.0))", "the two people do not differ"),
        ("(assert (= X_1 X_4))", "(assert (or (<= X_0 1) (>= X_0 3)))", "choice between several sets"),
        ("(assert (= X_1 X_4))", "(assert (<= X_1 Y_0))", "not of inputs or of outputs alone"),
        (EITHER, "(assert (>= Y_0 0.0))", "two comparisons of scores in each case"),
        (EITHER, "(assert (and (>= Y_0 0.0) (>= Y_1 0.0)))", "different sides"),
        (EITHER, "(assert (and (>= Y_0 0.0) (<= Y_1 1.0)))", "compared with different numbers"),
        (EITHER, "(assert (and (>= Y_0 Y_1) (<= Y_1 0.0)))", "some outputs are compared with each other"),
    ],
)  # fmt: skip
def test_whatever_else_is_refused(asked, old, new, said):
    text = pair_text(EITHER)
    assert old in text
    if said is None:
        assert asked(text.replace(old, new)).network.schema.attributes[0].lower == 0  # from the other person's bound
        return
    with pytest.raises(EvenhandError, match=said):
        asked(text.replace(old, new, 1))


def test_other_networks_are_refused(asked, tmp_path):
    text = pair_text(EITHER)
    with pytest.raises(ModelError, match="yes-or-no answers"):
        asked(text, (FIRST, LAST), "Sigmoid")
    with pytest.raises(ModelError, match="probabilities"):
        asked(text, (FIRST, LAST), "Softmax")
    one_more = (np.vstack([FIRST[0], [[0.0, 0.0]]]), FIRST[1])
    with pytest.raises(ModelError, match="8 inputs"):
        asked(text, (one_more, LAST))
    write_copies(tmp_path / "copies.onnx", [FIRST, LAST])
    graph = onnx.load(tmp_path / "copies.onnx")
    forged = onnx.numpy_helper.to_array(graph.graph.initializer[0]).copy()
    forged[0, 0] += 1
    graph.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(forged, "W0"))
    onnx.save(graph, tmp_path / "forged.onnx")
    (tmp_path / "pair.vnnlib").write_text(text)
    with pytest.raises(ModelError, match="side by side"):
        read_pair_question(tmp_path / "forged.onnx", tmp_path / "pair.vnnlib")
    with pytest.raises(OptionError, match="cannot be read"):
        read_pair_question(tmp_path / "forged.onnx", tmp_path / "absent.vnnlib")
