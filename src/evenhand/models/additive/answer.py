"""Outputs of a model: probabilities and labels as functions of the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from evenhand.errors import NotAdditiveError
from evenhand.models.additive.linear import LinearTensor, build_network, scale_units, select_units
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.replies import labels_of_outputs
from evenhand.schema.schema import Schema

OutputForm: TypeAlias = Literal["second", "first", "probabilities", "position"]


@dataclass(frozen=True, eq=False)
class OutputTensor:
    """Tensor that is a function of the logits.

    Attributes:
        logits: One unit (the second class wins if it is > 0) or one per class (the largest wins).
        form: ``second`` or ``first``, the probability of that class (two classes), (n, 1); ``probabilities``, (n,
            classes), or their logarithms; ``position`` of the winner.
    """

    logits: LinearTensor
    form: OutputForm


def complement(answer: OutputTensor) -> OutputTensor:
    """Compute ``1 - answer``."""
    if answer.form not in ("second", "first"):
        raise NotAdditiveError("it uses the model's output in further computations")
    return replace(answer, form="first" if answer.form == "second" else "second")


def pair_columns(answers: Sequence[OutputTensor]) -> OutputTensor:
    """Join the probabilities of the first and the second class."""
    if len(answers) == 1:
        return answers[0]
    same_logits = len(answers) == 2 and answers[0].logits is answers[1].logits
    if same_logits and [answer.form for answer in answers] == ["first", "second"]:
        return replace(answers[0], form="probabilities")
    raise NotAdditiveError("it rearranges the model's outputs")


def select_column(answer: OutputTensor, index: int) -> OutputTensor:
    """Select one column of two probabilities."""
    if answer.form == "probabilities" and answer.logits.units <= 2 and index in (0, 1, -1, -2):
        logit = answer.logits if answer.logits.units == 1 else _logit_difference(answer.logits)
        return OutputTensor(logit, "second" if index in (1, -1) else "first")
    raise NotAdditiveError("it selects one of several outputs")


def argmax_output(tensor: LinearTensor | OutputTensor) -> OutputTensor:
    """Find the position of the largest score. Ties are resolved in favour of the first label."""
    if isinstance(tensor, LinearTensor):
        if tensor.units < 2:
            raise NotAdditiveError("the largest of a single score is always the same")
        return OutputTensor(tensor, "position")
    if tensor.form != "probabilities":
        raise NotAdditiveError("it compares outputs that are not one score per label")
    return replace(tensor, form="position")


def _logit_difference(logits: LinearTensor) -> LinearTensor:
    first, second = select_units(logits, [0]), select_units(logits, [1])
    return LinearTensor(logits.source, second.weights - first.weights, second.bias - first.bias)


def check_ending(output: LinearTensor | OutputTensor, kind: str, *, name: str) -> None:
    """Check that a single output ends in a sigmoid if and only if it is interpreted as a probability.

    A network's decision uses its logits. Without a sigmoid, the output itself would have to be compared with 1/2.

    Raises:
        NotAdditiveError: the interpretation does not match.
    """
    single = output.units == 1 if isinstance(output, LinearTensor) else output.form in ("second", "first")
    if not single or isinstance(output, OutputTensor) == (kind in ("probability", "labels")):
        return
    ends = "a sigmoid" if isinstance(output, OutputTensor) else "no sigmoid"
    raise NotAdditiveError(
        f"its output is computed by {ends}, and it is read as {'labels' if kind == 'labels' else f'a {kind}'}",
        location=name,
    )


def network_from_outputs(
    outputs: Sequence[LinearTensor | OutputTensor],
    schema: Schema,
    *,
    name: str,
    kind: str | None = None,
) -> AdditiveNetwork:
    """Build the additive network of a model's outputs, which must all depend on the same logits.

    Args:
        outputs: Logits, probabilities or positions of labels.
        schema: Schema of the inputs.
        name: Name in reports.
        kind: Meaning of the outputs, as in ``evenhand.models.outputs``. If None, it is inferred from the last
            operation.

    Raises:
        ModelError: the number of outputs does not fit the schema's target.
        NotAdditiveError: the outputs depend on different logits, or a single output is not computed as interpreted.
    """
    answers = [out for out in outputs if isinstance(out, OutputTensor)]
    if kind is not None and len(outputs) == 1:
        check_ending(outputs[0], kind, name=name)
    logits = answers[0].logits if answers else outputs[0]
    if not isinstance(logits, LinearTensor):
        raise NotAdditiveError("the model returns no scores", location=name)
    for out in outputs:
        if (out.logits if isinstance(out, OutputTensor) else out) is not logits:
            raise NotAdditiveError("the model's outputs do not depend on the same logits", location=name)
    if len(outputs) == 1 and any(answer.form == "first" for answer in answers):
        logits = scale_units(logits, -1.0)
    classes, favourable = labels_of_outputs(schema, logits.units, location=name)
    return build_network(schema, logits, classes, favourable, name=name)
