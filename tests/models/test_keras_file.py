import io
import itertools
import json
import zipfile

import generated
import numpy as np
import pytest
from generated import BINARY, SINGLE, THREE, dense, outputs_for, probabilities, same_labels, sample, schemas, widths
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

h5py = pytest.importorskip("h5py", reason="needs the extra keras")
from evenhand.errors import ModelError, NotAdditiveError, TrustError
from evenhand.models.readers.keras_file import read_keras
from support import scaled

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras itself
PEOPLE = sample(BINARY)
INPUTS = BINARY.inputs(PEOPLE).astype(np.float32)
FORMATS = ["m.keras", "m.h5"]


@pytest.fixture(scope="module")
def keras():
    """Keras on PyTorch, only to make files and to say what they answer."""
    pytest.importorskip("torch", reason="needs the extra torch")
    module = pytest.importorskip("keras", reason="needs keras")
    module.utils.set_random_seed(0)
    return module


def saved(model, path):
    import logging

    log = logging.getLogger("absl")
    before, log.disabled = log.disabled, True  # "HDF5 is considered legacy"
    try:
        model.save(path)
    finally:
        log.disabled = before
    return path


def sequential(keras):
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((5,)),
            layers.Normalization(mean=[30, 0, 5, 1.5, 0.5], variance=[300, 4, 9, 2, 0.25]),
            layers.Dense(8, use_bias=False, name="first"),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.Dropout(0.3),
            layers.GaussianNoise(0.5),
            layers.Dense(6, activation="relu"),
            layers.BatchNormalization(scale=False),
            layers.Dense(4),
            layers.BatchNormalization(center=False),
            layers.ReLU(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    return with_random_weights(model)


def functional(keras):
    layers = keras.layers
    inputs = layers.Input((5,))
    normalization = layers.Normalization()
    normalization.adapt(INPUTS)
    value = layers.Rescaling(0.5, offset=0.25)(normalization(inputs))
    value = layers.Flatten()(value)
    inner = keras.Sequential([layers.Dense(6, activation="relu"), layers.BatchNormalization(), layers.Dense(5)])
    value = inner(value)
    value = layers.Dense(3, name="logits")(layers.ReLU()(value))
    model = keras.Model(inputs, layers.Softmax()(value))
    return with_random_weights(model)


def with_random_weights(model):
    rng = np.random.default_rng(1)
    for layer in model._flatten_layers():
        if type(layer).__name__ == "BatchNormalization":
            layer.set_weights([rng.uniform(0.5, 2, weight.shape) for weight in layer.get_weights()])
        if type(layer).__name__ == "Dense" and layer.use_bias:
            layer.bias.assign(rng.normal(size=layer.bias.shape))
    return model


def predicted(model, inputs=INPUTS):
    return np.asarray(model.predict(inputs, verbose=0, batch_size=4096), dtype=np.float64)


@pytest.mark.parametrize("file", FORMATS)
@pytest.mark.parametrize(("build", "schema"), [(sequential, BINARY), (functional, THREE)])
def test_models_give_keras_numbers(keras, tmp_path, file, build, schema):
    model = build(keras)
    network = read_keras(saved(model, tmp_path / file), schema)
    expected = predicted(model)
    if build is sequential:
        assert (network.classes, network.favourable, network.hidden) == (("no", "yes"), 1, (8, 6, 4))
        expected = np.hstack([1 - expected, expected])
    np.testing.assert_allclose(network.scores(PEOPLE), expected, atol=SINGLE)
    assert same_labels(network, PEOPLE, expected, SINGLE)


@given(schemas(), widths, generated.seeds, st.sampled_from(FORMATS), st.booleans())
@settings(max_examples=scaled(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_dense_network_gives_keras_numbers(keras, tmp_path, schema, hidden, seed, file, logits):
    arrays = dense(schema.width, hidden, outputs_for(schema), seed)
    end = None if logits else "sigmoid" if outputs_for(schema) == 1 else "softmax"
    layers = [keras.layers.Dense(len(bias), activation="relu") for _, bias in arrays[:-1]]
    model = keras.Sequential(
        [keras.layers.Input((schema.width,)), *layers, keras.layers.Dense(len(arrays[-1][1]), end)]
    )
    model.set_weights([array for layer in arrays for array in layer])
    people = sample(schema, 300, seed)
    expected = predicted(model, schema.inputs(people).astype(np.float32))
    if logits:
        expected = probabilities(expected)
    elif outputs_for(schema) == 1:
        expected = np.hstack([1 - expected, expected])
    network = read_keras(saved(model, tmp_path / file), schema, output="logit" if logits else "probability")
    np.testing.assert_allclose(network.scores(people), expected, atol=SINGLE)


def test_no_keras_is_needed_to_read_a_file(keras, tmp_path):
    import subprocess
    import sys

    path = saved(sequential(keras), tmp_path / "m.keras")
    (tmp_path / "schema.json").write_text(BINARY.model_dump_json())
    script = (
        "import sys, json; from evenhand.schema import Schema;"
        "from evenhand.models.readers.keras_file import read_keras;"
        f"read_keras({str(path)!r}, Schema.parse(json.load(open({str(tmp_path / 'schema.json')!r}))));"
        "print(sorted({'keras', 'tensorflow', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def keras_2_file(path, config, weights):
    """The whole-model HDF5 layout of Keras 2: numbered weight names, lists of inbound nodes."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        groups = file.create_group("model_weights")
        for layer, arrays in weights.items():
            group = groups.create_group(layer)
            group.attrs["weight_names"] = [f"{layer}_1/{key}:0".encode() for key in arrays]
            for key, array in arrays.items():
                group.create_dataset(f"{layer}_1/{key}:0", data=array)
    return path


def dense_config(name, units, activation, before=None):
    layer = {
        "class_name": "Dense",
        "config": {"name": name, "units": units, "activation": activation, "use_bias": True},
    }
    return layer if before is None else {**layer, "name": name, "inbound_nodes": [[[before, 0, 0, {}]]]}


def test_files_of_keras_2_are_read(tmp_path):
    rng = np.random.default_rng(3)
    weights = {
        "hidden": {"kernel": rng.normal(size=(5, 4)), "bias": rng.normal(size=4)},
        "out": {"kernel": rng.normal(size=(4, 1)), "bias": rng.normal(size=1)},
    }
    layers = [dense_config("hidden", 4, "relu"), dense_config("out", 1, "sigmoid")]
    first = keras_2_file(tmp_path / "a.h5", {"class_name": "Sequential", "config": layers}, weights)
    config = {"name": "in", "batch_input_shape": [None, 5]}
    entry = {"class_name": "InputLayer", "config": config, "name": "in", "inbound_nodes": []}
    graph = {
        "layers": [dense_config("out", 1, "sigmoid", "hidden"), entry, dense_config("hidden", 4, "relu", "in")],
        "input_layers": [["in", 0, 0]],
        "output_layers": [["out", 0, 0]],
    }
    second = keras_2_file(tmp_path / "b.h5", {"class_name": "Model", "config": graph}, weights)
    logits = np.maximum(BINARY.inputs(PEOPLE) @ weights["hidden"]["kernel"] + weights["hidden"]["bias"], 0)
    logits = logits @ weights["out"]["kernel"] + weights["out"]["bias"]
    for path in (first, second):
        np.testing.assert_allclose(read_keras(path, BINARY).logits(PEOPLE), logits, rtol=1e-6)


@pytest.mark.parametrize("file", FORMATS)
@pytest.mark.parametrize(
    ("layers", "says"),
    [
        (lambda k: [k.Dense(4, activation="tanh", name="bent"), k.Dense(1)], r"layer 'bent' \(Dense\).*'tanh'"),
        (lambda k: [k.Dense(4), k.LeakyReLU(name="leaky"), k.Dense(1)], r"layer 'leaky' \(LeakyReLU\)"),
        (lambda k: [k.Dense(4), k.ReLU(threshold=0.5, name="six"), k.Dense(1)], r"layer 'six' \(ReLU\)"),
        (
            lambda k: [k.Dense(4, activation="softmax", name="early"), k.Dense(1, name="late")],
            "layer 'late'.*at the end",
        ),
        (lambda k: [k.LayerNormalization(name="across"), k.Dense(1)], r"layer 'across' \(LayerNormalization\)"),
        (lambda k: [k.Dense(1, dtype="mixed_float16", name="half")], r"layer 'half'.*half precision"),
    ],
)
def test_layers_that_cannot_be_read_are_named(keras, tmp_path, file, layers, says):
    model = keras.Sequential([keras.layers.Input((5,)), *layers(keras.layers)])
    with pytest.raises(NotAdditiveError, match=says) as refusal:
        read_keras(saved(model, tmp_path / file), BINARY)
    assert refusal.value.location == file


@pytest.mark.parametrize("file", FORMATS)
@pytest.mark.filterwarnings("ignore:The object being serialized:UserWarning")  # which is what is tested
@pytest.mark.parametrize("kind", ["layer", "activation"])
def test_code_inside_a_file_is_never_run(keras, tmp_path, file, kind):
    layers = keras.layers
    code = layers.Lambda if kind == "layer" else layers.Activation
    model = keras.Sequential([layers.Input((5,)), code(lambda x: x * 2, name="code"), layers.Dense(1)])
    with pytest.raises(TrustError, match=r"layer 'code'.*never run"):
        read_keras(saved(model, tmp_path / file), BINARY)


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not:UserWarning")  # quantize() says so of every input layer
def test_quantized_weights_are_refused(keras, tmp_path):
    model = keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(1, name="coarse")])
    model.quantize("int8")
    with pytest.raises(NotAdditiveError, match=r"layer 'coarse'.*stored as int8"):
        read_keras(saved(model, tmp_path / "m.keras"), BINARY)


def test_what_a_user_registers_under_a_name_of_keras_is_not_taken_for_it(keras, tmp_path):
    @keras.saving.register_keras_serializable(package="mine")
    def relu(x):
        return -x

    @keras.saving.register_keras_serializable(package="mine")
    class Dense(keras.layers.Dense):
        def call(self, inputs):
            return 2 * super().call(inputs)

    for file, layer in itertools.product(FORMATS, (Dense(1), keras.layers.Dense(1, activation=relu))):
        with pytest.raises(NotAdditiveError, match=r"mine>(Dense|relu)"):
            read_keras(saved(keras.Sequential([keras.layers.Input((5,)), layer]), tmp_path / file), BINARY)


def several_inputs(keras, *, named=True):
    """Numbers scaled one by one, and two branches that meet before the hidden layer."""
    layers = keras.layers
    names = BINARY.names if named else [f"in_{i}" for i in range(5)]
    age, income, debt, town, sex = (layers.Input((1,), name=name) for name in names)
    normalization = layers.Normalization(mean=[0.5], variance=[4.0])
    numbers = layers.Concatenate()([layers.Rescaling(0.05)(age), normalization(income), debt])
    inner = keras.Sequential([layers.Input((3,)), layers.Dense(4, name="inside")])
    both = layers.Add()([inner(numbers), layers.Dense(4, use_bias=False)(layers.Concatenate()([town, sex]))])
    hidden = layers.Dense(5, activation="relu")(layers.ReLU()(both))
    # The model's inputs stand in another order than the attributes.
    inputs = [sex, town, debt, income, age] if named else [age, income, debt, town, sex]
    return with_random_weights(keras.Model(inputs, layers.Dense(1, activation="sigmoid")(hidden)))


@pytest.mark.parametrize("file", FORMATS)
@pytest.mark.parametrize("named", [True, False])
def test_a_model_with_an_input_for_each_attribute_gives_keras_numbers(keras, tmp_path, file, named):
    model = several_inputs(keras, named=named)
    columns = {name: INPUTS[:, [i]] for i, name in enumerate(BINARY.names)}
    expected = predicted(model, columns if named else list(columns.values()))
    network = read_keras(saved(model, tmp_path / file), BINARY)
    assert np.abs(network.scores(PEOPLE)[:, 1] - expected[:, 0]).max() < SINGLE
    assert network.hidden == (4, 5)
    assert np.ptp(expected) > 0.01


@pytest.mark.parametrize("file", FORMATS)
def test_inputs_that_are_not_the_attributes_are_refused(keras, tmp_path, file):
    layers = keras.layers

    def joined(**widths):
        inputs = [layers.Input((width,), name=name) for name, width in widths.items()]
        return saved(keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(inputs))), tmp_path / file)

    with pytest.raises(ModelError, match="input 'salary' is not an attribute of the schema"):
        read_keras(joined(age=1, salary=1), BINARY)
    with pytest.raises(ModelError, match="input 'town' takes 4 numbers, but the attribute has 1"):
        read_keras(joined(age=1, town=4), BINARY)
    with pytest.raises(ModelError, match="takes 4 inputs, but the schema's 5 attributes have 5"):
        read_keras(joined(numbers=3, words=1), BINARY)
    assert read_keras(joined(numbers=3, words=2), BINARY).predict(PEOPLE).shape == (3000,)


def always_training(keras):
    layers = keras.layers
    inputs = layers.Input((5,))
    value = layers.Dropout(0.5, name="random")(layers.Dense(4)(inputs), training=True)
    return keras.Model(inputs, layers.Dense(1)(value))


def used_twice(keras):
    layers = keras.layers
    shared, one, other = layers.Dense(3), layers.Input((2,), name="a"), layers.Input((2,), name="b")
    return keras.Model([one, other], layers.Dense(1)(layers.Concatenate()([shared(one), shared(other)])))


def meets_an_earlier_one(keras):
    layers = keras.layers
    inputs = layers.Input((5,))
    value = layers.Dense(3)(inputs)
    return keras.Model(inputs, layers.Dense(1)(layers.Add(name="joint")([value, layers.ReLU()(value)])))


@pytest.mark.parametrize("file", FORMATS)
@pytest.mark.parametrize(
    ("build", "says"),
    [
        (always_training, r"layer 'random'.*training mode"),
        (used_twice, r"layer 'dense.*' \(Dense\) is used more than once"),
        (meets_an_earlier_one, r"layer 'joint' \(Add\): it combines a hidden layer with an ear"),
    ],
)
def test_layers_used_in_other_ways_are_refused(keras, tmp_path, file, build, says):
    with pytest.raises(NotAdditiveError, match=says):
        read_keras(saved(build(keras), tmp_path / file), BINARY)


def test_weights_alone_are_refused(keras, tmp_path):
    sequential(keras).save_weights(tmp_path / "m.weights.h5")
    with pytest.raises(ModelError, match="not contain a whole model"):
        read_keras(tmp_path / "m.weights.h5", BINARY)


@pytest.mark.parametrize("part", ["config.json", "model.weights.h5"])
def test_an_archive_without_one_of_its_parts_is_refused(keras, tmp_path, part):
    path = saved(sequential(keras), tmp_path / "m.keras")
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(tmp_path / "less.keras", "w") as less:
        for name in archive.namelist():
            if name != part:
                less.writestr(name, archive.read(name))
    with pytest.raises(ModelError, match="not a Keras model"):
        read_keras(tmp_path / "less.keras", BINARY)


@pytest.mark.parametrize(
    ("place", "stored", "says"),
    [
        ("dense_1/vars/1", None, "its bias is missing"),
        ("dense/vars/0", np.float32(3), r"layer 'first' \(Dense\) does not fit"),
        ("dense_1/vars/0", np.ones((8, 7), np.float32), "for 7 units"),
        ("dense_1/vars/0", np.full((8, 6), np.nan, np.float32), "NaN or infinite"),
        ("dense_1/vars/0", b"words", "stored as"),
    ],
)
def test_weights_that_are_missing_or_do_not_fit_are_refused(keras, tmp_path, place, stored, says):
    path = saved(sequential(keras), tmp_path / "m.keras")
    with zipfile.ZipFile(path) as archive:
        content = io.BytesIO(archive.read("model.weights.h5"))
        config = archive.read("config.json")
    with h5py.File(content, "a") as file:
        del file[f"layers/{place}"]
        if stored is not None:
            file[f"layers/{place}"] = stored
    with zipfile.ZipFile(tmp_path / "less.keras", "w") as less:
        less.writestr("config.json", config)
        less.writestr("model.weights.h5", content.getvalue())
    with pytest.raises(ModelError, match=says):
        read_keras(tmp_path / "less.keras", BINARY)


@pytest.mark.parametrize("file", FORMATS)
def test_a_truncated_file_is_refused(keras, tmp_path, file):
    content = saved(sequential(keras), tmp_path / file).read_bytes()
    for share in (0.0, 0.01, 0.3, 0.7, 0.99):
        (tmp_path / file).write_bytes(content[: int(len(content) * share)])
        with pytest.raises(ModelError, match="not a Keras model"):
            read_keras(tmp_path / file, BINARY)
