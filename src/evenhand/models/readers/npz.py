"""Dense ReLU networks in NumPy files with the arrays W0, b0, W1, b1, ..."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.models.additive.network import AdditiveNetwork, network_from_dense
from evenhand.models.readers.reading import read_file
from evenhand.models.replies import labels_of_outputs
from evenhand.schema.schema import Schema

EXPECTED_ARRAYS = "save W0, b0, W1, b1, ... with numpy.savez (x @ W + b, ReLU between the layers)"


def read_npz(path: str | Path, schema: Schema) -> AdditiveNetwork:
    """Read a network from a ``.npz`` file with the arrays ``W0, b0, W1, b1, ...``.

    It computes ``x @ W0 + b0``, then ReLU before every further layer. Attribute i of the schema is input i (several
    inputs if its encoding is one-hot). A single output is a logit, favourable if > 0; several outputs follow the order
    of the target's labels. If the target is a number, the single output is that number. Nothing in the
    file is executed (no pickles).

    Raises:
        ModelError: the file is missing, truncated or not such an archive; an array is missing, has the wrong shape or
            contains NaN; inputs or outputs do not fit the schema.
    """
    name = Path(path).name
    layers = _pair_layers(_read_arrays(Path(path)), name)
    outputs = layers[-1][1].shape[0]
    if schema.target.is_number:
        return network_from_dense(schema, layers, classes=(), favourable=0, name=name)
    classes, favourable = labels_of_outputs(schema, outputs, location=name)
    return network_from_dense(schema, layers, classes=classes, favourable=favourable, name=name)


def _read_arrays(path: Path) -> dict[str, Floats]:
    content = read_file(path)
    try:
        archive = np.load(io.BytesIO(content), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ModelError("expected an archive, got a single array", location=path.name, hint=EXPECTED_ARRAYS)
        return {key: np.asarray(archive[key]) for key in archive.files if re.fullmatch(r"[Wb]\d{1,4}", key)}
    # zipfile raises NotImplementedError for unsupported compression methods.
    except (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"the file cannot be read as a NumPy archive ({error}): it may be truncated or contain Python objects",
            location=path.name,
            hint=EXPECTED_ARRAYS,
        ) from None


def _pair_layers(arrays: dict[str, Floats], name: str) -> list[tuple[Floats, Floats]]:
    count = 1 + max((int(key[1:]) for key in arrays), default=0)
    layers: list[tuple[Floats, Floats]] = []
    for i in range(count):
        for key in (f"W{i}", f"b{i}"):
            if key not in arrays:
                raise ModelError(f"the array {key} is missing", location=name, hint=EXPECTED_ARRAYS)
            if arrays[key].dtype.kind not in "fiu":
                raise ModelError(f"the array {key} must be numeric, got {arrays[key].dtype}", location=name)
            if not np.isfinite(arrays[key]).all():
                raise ModelError(f"the array {key} contains NaN or infinite numbers", location=name)
        weights, bias = arrays[f"W{i}"].astype(np.float64), arrays[f"b{i}"].astype(np.float64)
        inputs = layers[-1][1].shape[0] if layers else None
        if weights.ndim != 2 or bias.shape != weights.shape[1:] or inputs not in (None, weights.shape[0]):
            place = "" if inputs is None else f" after a layer of {inputs} units"
            raise ModelError(
                f"W{i} has shape {weights.shape} and b{i} {bias.shape}{place}; expected (inputs, units) and (units,)",
                location=name,
                hint=EXPECTED_ARRAYS,
            )
        if 0 in weights.shape:
            raise ModelError(f"W{i} has shape {weights.shape}: an empty layer", location=name)
        layers.append((weights, bias))
    return layers
