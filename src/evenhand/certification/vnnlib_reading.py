"""A question of VNN-LIB files, read and answered: are two people who differ in protected values decided alike?

Two forms are read. In the one that ``write_pair_question`` writes, the inputs are one person without protected
attributes, and the outputs are that person's scores under each protected assignment. In the other, known as hyper- or
relational properties, the network holds two copies of one network: the first half of its inputs and outputs belongs to
one person, the second half to another, whose inputs equal the first one's but for the protected ones, which are fixed
for each of the two. Format: Guidotti, Demarchi, Pulina, Tacchella: *The VNN-LIB standard for benchmarks* (vnnlib.org);
two copies: Katz et al., *Reluplex* (2017), and Khedr and Shoukry, *CertiFair* (2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from evenhand.certification.certificate.result import Certificate
from evenhand.certification.query.question import query_of
from evenhand.certification.vnnlib import NETWORK_FILE, PROPERTY_FILE, WHOLE_INPUTS
from evenhand.certification.vnnlib_syntax import Formula, Inequality, Junction, Property, read_property
from evenhand.errors import ModelError, OptionError
from evenhand.models import AdditiveNetwork, AffineLayer, AttributeTerm, LineTerm, TableTerm, read_onnx
from evenhand.schema import Schema
from evenhand.typing import Floats

PROTECTED = "protected"
MOST_LISTED = 2**16
"""Whole numbers of an input that are listed one by one, at most."""
Answer: TypeAlias = Literal["sat", "unsat", "unknown"]
Side: TypeAlias = tuple[int, bool]
"""A person's place, and whether the score is demanded to be at least the threshold (else at most)."""


@dataclass(frozen=True)
class Verdict:
    """The answer to a property: ``sat`` with values that satisfy it, ``unsat``, or ``unknown`` with the reason.

    Attributes:
        answer: ``unsat`` is proved; ``sat`` was computed again with the network of the file, in float64.
        values: of all variables, where the answer is ``sat``.
        reason: why the answer is unknown, else empty.
    """

    answer: Answer
    values: Mapping[str, float]
    reason: str = ""

    def text(self) -> str:
        """Return the answer as verifiers give it: a word, and the values of a counterexample or a comment."""
        values = "\n ".join(f"({name} {value!r})" for name, value in self.values.items())
        return "\n".join(
            [self.answer, *([f"({values})"] if values else []), *([f"; {self.reason}"] * bool(self.reason))]
        )


@dataclass(frozen=True)
class PairQuestion:
    """A property about two people who differ in protected values alone.

    Attributes:
        network: one person's, over the unprotected inputs ``X_i`` and one attribute ``protected`` that stands for all
            protected ones together.
        written: the network as the file holds it, over all inputs.
        asked: the property.
        persons: protected inputs and their values for each person; empty where the inputs are one person.
    """

    network: AdditiveNetwork
    written: AdditiveNetwork
    asked: Property
    persons: tuple[Mapping[int, float], ...]

    def conclude(self, certificate: Certificate) -> Verdict:
        """Return the answer that follows from a certificate of ``network``.

        A person whose score lies on the threshold itself, which would satisfy the property, is never certified.

        Raises:
            OptionError: the certificate answers another question.
        """
        narrowed = certificate.where or certificate.relaxed or certificate.bands or certificate.tolerance is not None
        if narrowed or certificate.threshold not in (None, 0.5) or certificate.protected != (PROTECTED,):
            raise OptionError("the certificate answers another question than the property",
                              hint="certify the network without options that change what is asked")  # fmt: skip
        if certificate.certified == 1 and not (certificate.falsified or certificate.undecided):
            if query_of(self.network).constant:
                return Verdict("unknown", {}, "the scores are equal, and only one at the threshold itself satisfies it")
            return Verdict("unsat", {})
        for found in certificate.counterexamples:
            person = {name: float(text) for name, text in found.unprotected.items()}
            for values in self._solutions(person):
                if self.asked.holds(values):
                    return Verdict("sat", values)
        shares = f"undecided {100 * certificate.undecided:.3g} %, certified unfair {100 * certificate.falsified:.3g} %"
        return Verdict("unknown", {}, f"{shares}, and no listed pair satisfies the property")

    def _solutions(self, person: Mapping[str, float]) -> Iterator[dict[str, float]]:
        """Yield the values of all variables for a person, as either of the two."""
        count = len(self.written.parts)
        half = count // 2
        for fixed in (self.persons, self.persons[::-1]) if self.persons else ((),):
            inputs = np.zeros(count)
            for name, value in person.items():
                inputs[int(name[2:])] = value
                if fixed:
                    inputs[int(name[2:]) + half] = value
            for start, one in zip((0, half), fixed, strict=False):
                for i, value in one.items():
                    inputs[start + i] = value
            outputs = self.written.logits(inputs[None])[0]
            yield {f"X_{i}": float(x) for i, x in enumerate(inputs)} | {
                f"Y_{j}": float(y) for j, y in enumerate(outputs)
            }


def read_pair_question(network: Path | str, question: Path | str | None = None) -> PairQuestion:
    """Read a network and a property about a pair of people.

    Inputs are real numbers between their bounds; whole numbers where the property says so in the words of
    ``write_pair_question``.

    Args:
        network: ONNX file, or a folder that ``write_pair_question`` wrote.
        question: VNN-LIB file; not of a folder.

    Raises:
        OptionError: the property cannot be read (with the line), or is not about a pair of people (with the reason).
        ModelError: the network cannot be read, or is not the same for both people.
        MissingExtraError: the onnx package is not installed.
    """
    if question is None:
        network, question = Path(network) / NETWORK_FILE, Path(network) / PROPERTY_FILE
    asked = read_property(Path(question))
    return _Recognizer(asked, Path(network)).recognize()


class _Recognizer:
    """Finds in a property what a pair of people is: bounds, equal inputs, and scores on different sides."""

    def __init__(self, asked: Property, network: Path) -> None:
        self._asked = asked
        self._file = network
        self._low = [-math.inf] * asked.inputs
        self._high = [math.inf] * asked.inputs
        self._at_most: set[tuple[int, int]] = set()
        self._demands: list[Formula] = []
        self._threshold: float | None = None

    def recognize(self) -> PairQuestion:
        """Return the question.

        Raises:
            OptionError, ModelError: it is none.
        """
        for assertion in self._asked.assertions:
            self._note(assertion)
        equal = sorted((i, j) for i, j in self._at_most if i < j and (j, i) in self._at_most)
        if len(self._at_most) != 2 * len(equal):
            raise self._refusal("two inputs are compared and not made equal")
        for i, j in equal:
            self._low[i], self._high[i] = max(self._low[i], self._low[j]), min(self._high[i], self._high[j])
            self._low[j], self._high[j] = self._low[i], self._high[i]
        for i, (low, high) in enumerate(zip(self._low, self._high, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high)):
                raise self._refusal(f"X_{i} has no lower and upper bound")
            if low > high:
                raise self._refusal(f"no number is a value of X_{i}: its bounds are {low:g} and {high:g}")
        width, sides = self._sides()
        copies = self._asked.outputs // width
        for first, second in sides:
            if first[0] == second[0] or first[1] == second[1]:
                raise self._refusal("the output condition is not that two people's scores are on different sides")
        written = self._read_network()
        if equal:
            return self._two_people(written, equal, width, copies)
        return self._one_person(written, width, copies)

    def _refusal(self, reason: str, line: int | None = None) -> OptionError:
        place = self._asked.name if line is None else f"{self._asked.name}, line {line}"
        return OptionError(f"this property is not about a pair of people: {reason}", location=place)

    def _note(self, stated: Formula) -> None:
        """Take an assertion as bounds, as equality of inputs, or as part of the output condition."""
        if isinstance(stated, Junction) and stated.kind == "and":
            for part in stated.parts:
                self._note(part)
            return
        kinds = {term[0] for term in stated.variables()}
        if kinds == {"Y"}:
            self._demands.append(stated)
        elif kinds != {"X"}:
            raise self._refusal("a comparison is not of inputs or of outputs alone", stated.line)
        elif isinstance(stated, Junction):
            raise self._refusal("the inputs are a choice between several sets", stated.line)
        elif isinstance(stated.low, float):
            i = int(str(stated.high)[2:])
            self._low[i] = max(self._low[i], stated.low)
        elif isinstance(stated.high, float):
            i = int(stated.low[2:])
            self._high[i] = min(self._high[i], stated.high)
        else:
            self._at_most.add((int(stated.low[2:]), int(stated.high[2:])))

    def _sides(self) -> tuple[int, list[tuple[Side, Side]]]:
        """Return how many outputs a person has, and for each way to satisfy the property the sides of two people."""
        alone = len(self._demands) == 1
        choice = self._demands[0] if alone else Junction("and", tuple(self._demands), 0)
        ways = choice.parts if isinstance(choice, Junction) and choice.kind == "or" else (choice,)
        widths: set[int] = set()
        sides: list[tuple[Side, Side]] = []
        for way in ways:
            parts = way.parts if isinstance(way, Junction) and way.kind == "and" else (way,)
            if len(parts) != 2 or not all(isinstance(part, Inequality) for part in parts):
                raise self._refusal("expected two comparisons of scores in each case", way.line or None)
            first, second = (self._side(part, widths) for part in parts if isinstance(part, Inequality))
            sides.append((first, second))
        if len(widths) != 1 or self._asked.outputs % (width := widths.pop()):
            raise self._refusal("some outputs are compared with each other and others with a number")
        return width, sides

    def _side(self, stated: Inequality, widths: set[int]) -> Side:
        # With two outputs a person's side is which of them is larger; with one, whether it is above the number.
        low, high = stated.low, stated.high
        if isinstance(low, str) and isinstance(high, str):
            widths.add(2)
            i, j = int(low[2:]), int(high[2:])
            if i // 2 != j // 2 or i == j:
                raise self._refusal("the outputs of two people are compared with each other", stated.line)
            return i // 2, j > i
        widths.add(1)
        number = low if isinstance(low, float) else high
        if self._threshold not in (None, number):
            raise self._refusal("scores are compared with different numbers", stated.line)
        self._threshold = float(number)
        return int(str(high if isinstance(low, float) else low)[2:]), isinstance(low, float)

    def _read_network(self) -> AdditiveNetwork:
        """Return the network of the file over all inputs as they are."""
        outputs = [f"Y_{j}" for j in range(self._asked.outputs)]
        schema = _schema([_real(i, low, high) for i, (low, high) in enumerate(self._bounds())], outputs)
        try:
            return read_onnx(self._file, schema, scores=True)
        except ModelError as error:
            error.hint = f"{self._asked.name} is about {self._asked.inputs} inputs and {len(outputs)} outputs"
            raise

    def _bounds(self) -> Iterator[tuple[float, float]]:
        return zip(self._low, self._high, strict=True)

    def _one_person(self, written: AdditiveNetwork, width: int, copies: int) -> PairQuestion:
        """Return the question whose outputs are the scores of one person under each assignment."""
        if not written.layers:
            raise self._refusal("no two inputs are equal, and the outputs are no copies of one network")
        slopes, bias = _first_layer(written)
        opening, *rest = written.layers
        blocks = np.split(opening.weights, copies, axis=1) if opening.weights.shape[1] % copies == 0 else []
        if not blocks or any(not np.array_equal(blocks[0], block) for block in blocks):
            raise self._refusal("no two inputs are equal, and the outputs are no copies of one network")
        biases = opening.bias.reshape(copies, -1)
        layers = self._shift_outputs([_one_copy(layer, copies, self._file) for layer in rest])
        if not layers:
            biases = biases - (self._threshold or 0.0)
        whole = WHOLE_INPUTS in self._asked.comments
        terms: list[AttributeTerm] = []
        attributes: list[dict[str, object]] = []
        listed = all(high - low < MOST_LISTED for low, high in self._bounds())
        alone = whole and listed and bool((np.count_nonzero(slopes, axis=0) <= 1).all())
        for i, (low, high) in enumerate(self._bounds()):
            if whole and not (low.is_integer() and high.is_integer()):
                raise self._refusal(f"the bounds of X_{i} are not two whole numbers")
            attributes.append(_real(i, low, high) | ({"kind": "integer"} if whole else {}))
            if alone:
                # Every first unit is a function of one input: together they are one value per whole number.
                reached = np.flatnonzero(slopes[i])
                numbers = np.arange(low, high + 1)
                units = numbers[:, None] * slopes[i, reached] + bias[reached]
                if (units >= 0).all():
                    terms.append(LineTerm(slopes[i, reached] @ blocks[0][reached], bias[reached] @ blocks[0][reached]))
                else:
                    terms.append(TableTerm(np.maximum(units, 0.0) @ blocks[0][reached], float(low)))
            else:
                terms.append(LineTerm(np.append(slopes[i], np.zeros(copies)), np.zeros(len(bias) + copies)))
        if alone:
            silent = ~slopes.any(axis=0)
            terms.append(TableTerm(biases, 0.0))
            start = np.maximum(bias[silent], 0.0) @ blocks[0][silent]
        else:
            # Which assignment it is passes the first ReLU in units of its own.
            terms.append(TableTerm(np.hstack([np.zeros((copies, len(bias))), np.eye(copies)]), 0.0))
            start = np.append(bias, np.zeros(copies))
            layers.insert(0, AffineLayer(np.vstack([blocks[0], biases]), np.zeros(biases.shape[1])))
        attributes.append(_protected_attribute([f"Y_{p}" for p in range(copies)]))
        return self._question(written, (), attributes, terms, start, layers, width)

    def _two_people(
        self, written: AdditiveNetwork, equal: Sequence[tuple[int, int]], width: int, copies: int
    ) -> PairQuestion:
        """Return the question whose network is two copies, with equal inputs but for protected ones."""
        half, odd = divmod(self._asked.inputs, 2)
        if odd or copies != 2 or any(j != i + half for i, j in equal):
            raise self._refusal("input X_i of the first half must equal the input at its place in the second half")
        slopes, bias = _first_layer(written)
        first = _one_copy(AffineLayer(slopes, bias), 2, self._file)
        layers = self._shift_outputs([_one_copy(layer, 2, self._file) for layer in written.layers])
        start = first.bias if layers else first.bias - (self._threshold or 0.0)
        shared = {i for i, _ in equal if self._low[i] < self._high[i]}
        fixed = sorted(set(range(half)) - shared)
        loose = next((i for i in fixed for j in (i, i + half) if self._low[j] != self._high[j]), None)
        if loose is not None:
            raise self._refusal(f"X_{loose} and X_{loose + half} are neither equal nor fixed to one value each")
        persons = tuple({i: self._low[begin + i] for i in fixed} for begin in (0, half))
        if persons[0] == persons[1]:
            raise self._refusal("the two people do not differ")
        terms: list[AttributeTerm] = []
        attributes: list[dict[str, object]] = []
        for i in sorted(shared):
            attributes.append(_real(i, self._low[i], self._high[i]))
            terms.append(LineTerm(first.weights[i], np.zeros(len(start))))
        attributes.append(_protected_attribute([", ".join(f"X_{i} = {one[i]:g}" for i in fixed) for one in persons]))
        values = np.array([[one[i] for i in fixed] for one in persons])
        terms.append(TableTerm(values @ first.weights[fixed], 0.0))
        return self._question(written, persons, attributes, terms, start, layers, width)

    def _shift_outputs(self, layers: list[AffineLayer]) -> list[AffineLayer]:
        """Return the layers with the threshold taken from the last one's outputs."""
        if layers and self._threshold:
            layers[-1] = replace(layers[-1], bias=layers[-1].bias - self._threshold)
        return layers

    def _question(
        self,
        written: AdditiveNetwork,
        persons: tuple[Mapping[int, float], ...],
        attributes: list[dict[str, object]],
        terms: list[AttributeTerm],
        start: Floats,
        layers: list[AffineLayer],
        width: int,
    ) -> PairQuestion:
        labels = ["below", "above"] if width == 1 else ["the first output", "the second output"]
        network = AdditiveNetwork(
            schema=_schema(attributes, labels), parts=tuple(terms), bias=start, layers=tuple(layers),
            classes=tuple(labels), favourable=1, name=self._file.name,
        )  # fmt: skip
        return PairQuestion(network, written, self._asked, persons)


def _first_layer(network: AdditiveNetwork) -> tuple[Floats, Floats]:
    """Return slopes (inputs, units) and biases of the first layer.

    Raises:
        ModelError: an input enters by something else than a line.
    """
    lines = [part for part in network.parts if isinstance(part, LineTerm)]
    if len(lines) != len(network.parts):
        raise ModelError("an input enters the network by something else than a line", location=network.name)
    slopes = np.array([line.slope for line in lines])
    return slopes, network.bias + np.sum([line.intercept for line in lines], axis=0)


def _one_copy(layer: AffineLayer, copies: int, file: Path) -> AffineLayer:
    """Return the layer of one copy.

    Raises:
        ModelError: the layer is not so many copies of one, side by side.
    """
    inputs, outputs = (size // copies for size in layer.weights.shape)
    weights, bias = layer.weights[:inputs, :outputs], layer.bias[:outputs]
    if not (
        np.array_equal(np.kron(np.eye(copies), weights), layer.weights)
        and np.array_equal(np.tile(bias, copies), layer.bias)
    ):
        raise ModelError(
            "this is not about a pair of people: the network does not hold several copies of one, side by side",
            location=file.name,
        )
    return AffineLayer(weights, bias)


def _real(i: int, low: float, high: float) -> dict[str, object]:
    return {"name": f"X_{i}", "kind": "real", "lower": low, "upper": high}


def _protected_attribute(values: list[str]) -> dict[str, object]:
    return {"name": PROTECTED, "kind": "categorical", "values": values, "protected": True}


def _schema(attributes: list[dict[str, object]], labels: list[str]) -> Schema:
    target = {"name": "score", "favourable": labels[-1], "values": labels}
    return Schema.parse({"target": target, "attributes": attributes})
