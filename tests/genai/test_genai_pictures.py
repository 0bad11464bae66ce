"""Pictures decoded and brought to size, and classified by ONNX models whose answers are known."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from evenhand.errors import DataError, MissingExtraError, ModelError
from evenhand.genai import Item, OnnxPictures, PictureHead
from evenhand.genai.backends import pictures
from evenhand.genai.backends.pictures import decode_picture, fit_pixels
from evenhand.genai.backends.studio import Studio

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def picture(colour: str | tuple[int, int, int], height: int = 6, width: int = 8) -> Item:
    pixels = np.full((height, width, 3), COLOURS.get(colour, colour), np.uint8)
    return Item("image", pictures.write_png(pixels), "image/png")


# ---- decoding


def pillow() -> Any:
    pytest.importorskip("PIL", reason="needs the extra pictures")
    from PIL import Image

    return Image


def packed(pixels: Any, kind: str, **options: Any) -> Item:
    file = io.BytesIO()
    pillow().fromarray(pixels).save(file, kind, **options)
    return Item("image", file.getvalue(), f"image/{kind.lower()}")


@pytest.mark.parametrize(("kind", "options"), [("PNG", {}), ("JPEG", {"quality": 95}), ("WEBP", {"lossless": True})])
def test_the_usual_kinds_are_decoded(kind: str, options: dict[str, Any]) -> None:
    ramp = np.stack(np.broadcast_arrays(np.arange(60)[:, None], np.arange(40)[None, :], 128), axis=-1).astype(np.uint8)
    found = decode_picture(packed(ramp, kind, **options))
    assert found.shape == ramp.shape
    assert np.abs(found.astype(int) - ramp).max() <= (0 if kind != "JPEG" else 12)


def test_transparency_palettes_and_turned_photographs() -> None:
    image = pillow()
    half = np.zeros((2, 2, 4), np.uint8)
    half[0, 0] = (200, 0, 0, 255)
    assert decode_picture(packed(half, "PNG")).tolist() == [[[200, 0, 0], [255] * 3], [[255] * 3, [255] * 3]]
    file = io.BytesIO()
    image.fromarray(np.full((3, 5, 3), 80, np.uint8)).quantize(4).save(file, "PNG")
    assert decode_picture(Item("image", file.getvalue(), "image/png")).tolist() == [[[80] * 3] * 5] * 3
    upright = image.Exif()
    upright[0x0112] = 6  # is to be turned by a quarter
    wide = np.zeros((8, 16, 3), np.uint8)
    assert decode_picture(packed(wide, "JPEG", exif=upright)).shape == (16, 8, 3)


def test_the_studios_pictures_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    assert decode_picture(Studio(seed=1).generate("a person")).shape == (144, 96, 3)
    with pytest.raises(ImportError, match=r"'\.\[pictures\]'"):
        decode_picture(Item("image", b"\xff\xd8\xff\xe0something", "image/jpeg"))
    for fit in ("stretch", "cover", "contain"):
        with pytest.raises(MissingExtraError, match="pillow"):
            fit_pixels(np.zeros((4, 8, 3), np.uint8), (2, 2), fit)
    with pytest.raises(MissingExtraError, match="pillow"):
        classifier(file="none.onnx")


def test_what_is_no_picture_is_an_error() -> None:
    whole = packed(np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8), "JPEG").data
    for data in (b"", b"nothing", whole[: len(whole) // 2], b"II*\x00" + bytes(200)):
        with pytest.raises(DataError, match="the picture cannot be decoded"):
            decode_picture(Item("image", data, "image/jpeg"))
    for item in (Item.of_text("a picture"), Item("image", b"<svg/>", "image/svg+xml")):
        with pytest.raises(DataError, match="has no pixels"):
            decode_picture(item)


def test_a_small_file_of_a_huge_picture_is_refused() -> None:
    huge = pillow().new("1", (9000, 9000))
    file = io.BytesIO()
    huge.save(file, "PNG")
    assert len(file.getvalue()) < 20_000
    with pytest.raises(DataError, match=r"9000 x 9000 pixels is not read|too large"):
        decode_picture(Item("image", file.getvalue(), "image/png"))


# ---- size


def test_a_picture_is_cut_or_padded_around_its_middle() -> None:
    pillow()
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, 2:6] = 200
    assert (fit_pixels(pixels, (4, 4), "cover") == 200).all()
    padded = fit_pixels(pixels, (8, 8), "contain")
    assert (padded[2:6] == pixels).all()
    assert not padded[:2].any()
    assert not padded[6:].any()
    assert fit_pixels(pixels, (2, 2), "contain").shape == (2, 2, 3)


# ---- models


def model(
    folder: Path,
    *,
    layout: str = "nchw",
    size: tuple[Any, Any] = (4, 4),
    end: str | None = "Softmax",
    dtype: str = "FLOAT",
    outputs: int = 1,
    weights: Any = None,
) -> Path:
    """A model whose scores are the means of the three colours, times weights."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    pillow()
    from onnx import TensorProto, helper, numpy_helper

    kind, single = getattr(TensorProto, dtype), TensorProto.FLOAT
    matrix = np.eye(3, dtype=np.float32) if weights is None else np.asarray(weights, np.float32)
    shape, axes = ([1, 3, *size], [2, 3]) if layout == "nchw" else ([1, *size, 3], [1, 2])
    names = [f"scores{k}" if outputs > 1 else "scores" for k in range(outputs)]
    nodes = [
        helper.make_node("Cast", ["picture"], ["numbers"], to=single),
        helper.make_node("ReduceMean", ["numbers"], ["means"], axes=axes, keepdims=0),
        helper.make_node("MatMul", ["means", "weights"], ["raw"]),
        *(helper.make_node(end or "Identity", ["raw"], [name]) for name in names),
    ]
    pictures = [helper.make_tensor_value_info("picture", kind, shape)]
    outputs = [helper.make_tensor_value_info(name, single, [1, matrix.shape[1]]) for name in names]
    graph = helper.make_graph(nodes, "means", pictures, outputs, [numpy_helper.from_array(matrix, "weights")])
    file = folder / "means.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(file))
    return file


def classifier(**fields: Any) -> OnnxPictures:
    return OnnxPictures({"colour": head(**fields)})


def head(**fields: Any) -> PictureHead:
    return PictureHead(**{"labels": ("red", "green", "blue"), "scores": "probabilities", **fields})


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16", "DOUBLE", "UINT8"])
def test_layout_size_and_type_are_read_off_the_graph(tmp_path: Path, layout: str, dtype: str) -> None:
    found = classifier(file=model(tmp_path, layout=layout, dtype=dtype))
    for colour in COLOURS:
        assert found.classify(picture(colour)) == {"colour": colour}
    # A grey picture is as red as it is green; nothing is said rather than the first of the labels.
    assert found.classify(picture((90, 90, 90))) == {"colour": None}


def test_colours_become_the_numbers_that_are_said(tmp_path: Path) -> None:
    file = model(tmp_path, end=None)
    shown = picture((255, 51, 0))

    def scores(**fields: Any) -> np.ndarray:
        found = classifier(file=file, scores="softmax", **fields).probabilities(shown)["colour"]
        powers = np.log(list(found.values()))
        return powers - powers[-1]  # softmax forgets what is added to all

    np.testing.assert_allclose(scores(), [1, 0.2, 0], atol=1e-6)
    np.testing.assert_allclose(scores(range=(-1, 1)), [2, 0.4, 0], atol=1e-6)
    np.testing.assert_allclose(scores(range=(0, 5)), [5, 1, 0], atol=1e-6)
    np.testing.assert_allclose(scores(mean=(0.5, 0.2, 0), std=(0.5, 1, 2)), [1, 0, 0], atol=1e-6)
    # Blue first: what was red stands last.
    turned = classifier(
        file=file, labels=("a", "b", "c"), scores="softmax", colours="bgr", mean=(0.5, 0.2, 0)
    ).probabilities(shown)["colour"]
    powers = np.log(list(turned.values()))
    np.testing.assert_allclose(powers - powers[0], [0, 0, 0.5], atol=1e-6)


def test_below_the_threshold_it_cannot_tell(tmp_path: Path) -> None:
    file = model(tmp_path)
    p = np.e / (np.e + 2)
    assert classifier(file=file).probabilities(picture("red"))["colour"]["red"] == pytest.approx(p)
    assert classifier(file=file, threshold=p - 0.01).classify(picture("red")) == {"colour": "red"}
    assert classifier(file=file, threshold=p + 0.01).classify(picture("red")) == {"colour": None}


def test_several_labels_may_stand_for_one_value_and_some_for_none(tmp_path: Path) -> None:
    warm = classifier(file=model(tmp_path), labels=("warm", "warm", None))
    found = warm.probabilities(picture("red"))["colour"]["warm"]
    assert found == pytest.approx((np.e + 1) / (np.e + 2))


def test_one_score_is_the_second_label(tmp_path: Path) -> None:
    fields = {"file": model(tmp_path, end="Sigmoid", weights=[[4], [0], [-4]]), "labels": ("cold", "warm")}
    assert classifier(**fields).classify(picture("red")) == {"colour": "warm"}
    assert classifier(**fields).classify(picture("blue")) == {"colour": "cold"}
    assert classifier(**fields).classify(picture("green")) == {"colour": None}
    raw = {**fields, "file": model(tmp_path, end=None, weights=[[4], [0], [-4]])}
    for scores in ("softmax", "sigmoid"):
        found = classifier(**raw, scores=scores).probabilities(picture("red"))["colour"]
        assert found == {"cold": pytest.approx(1 / (1 + np.e**4)), "warm": pytest.approx(1 / (1 + np.e**-4))}


def test_labels_by_themselves_need_not_add_up(tmp_path: Path) -> None:
    file = model(tmp_path, end=None, weights=np.eye(3) * 8 - 4)
    found = classifier(file=file, scores="sigmoid").probabilities(picture((255, 255, 0)))["colour"]
    np.testing.assert_allclose(list(found.values()), [0.5, 0.5, 1 / (1 + np.e**8)], atol=1e-6)


def test_several_groups_share_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand.genai.classifiers import onnx_pictures

    file = model(tmp_path, outputs=2)
    heads = {
        "colour": head(file=file.name, output="scores0"),
        "warmth": head(file=file.name, labels=("warm", "warm", "cold"), output="scores1"),
    }
    both = OnnxPictures(heads, folder=tmp_path)
    ran: list[list[str]] = []
    run = onnx_pictures._run_model
    monkeypatch.setattr(onnx_pictures, "_run_model", lambda *given: ran.append(given[2]) or run(*given))
    assert both.classify(picture("green")) == {"colour": "green", "warmth": "warm"}
    assert ran == [["scores0", "scores1"]]
    with pytest.raises(ModelError, match=r"2 outputs .* can have the scores"):
        classifier(file=file)


def test_a_size_that_the_graph_leaves_open_must_be_said(tmp_path: Path) -> None:
    file = model(tmp_path, size=("high", "wide"))
    with pytest.raises(ModelError, match="does not state the size of its pictures"):
        classifier(file=file)
    assert classifier(file=file, size=3).classify(picture("blue")) == {"colour": "blue"}
    assert classifier(file=file, size=(2, 5)).classify(picture("blue")) == {"colour": "blue"}


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = model(tmp_path)
    for fields, message in (
        ({"labels": ("red", "green")}, "0 outputs of the model"),
        (
            {"labels": ("red", "green"), "output": "scores"},
            "0 outputs of the model named 'scores' can have the scores of 2 labels",
        ),
        ({"output": "score"}, "0 outputs of the model named 'score'"),
        ({"size": 5}, "are 4 x 4, and size is"),
        ({"layout": "nhwc"}, "axis of colours is unclear"),
        ({"file": tmp_path / "none.onnx"}, "no such file"),
    ):
        with pytest.raises(ModelError, match=message):
            classifier(**{"file": file, **fields})
    for fields in (
        {"labels": ("red",)},
        {"threshold": 2},
        {"std": (1, 1, 0)},
        {"labels": (None, None)},
        {"scores": "sigmoid", "labels": ("a", "a", "b")},
        {"size": 0},
        {"colour": "rgb"},
        {"scores": "raw"},
    ):
        with pytest.raises(ValidationError):
            classifier(**{"file": file, **fields})
    with pytest.raises(ValidationError, match="scores"):
        PictureHead(file=file, labels=("red", "green", "blue"))
    with pytest.raises(ModelError, match="as bytes"):
        classifier(file=model(tmp_path, dtype="UINT8"), range=(-1, 1))
    with pytest.raises(ModelError, match="axis of colours is unclear"):
        classifier(file=model(tmp_path, size=(4, 3)))
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match="cannot run it"):
        classifier(file=tmp_path / "broken.onnx")


def test_scores_that_are_no_probabilities_are_an_error_and_not_a_value(tmp_path: Path) -> None:
    raw = classifier(file=model(tmp_path, end=None, weights=np.eye(3) * 7), scores="probabilities")
    with pytest.raises(ModelError, match="not probabilities"):
        raw.classify(picture("red"))
    broken = classifier(file=model(tmp_path, end=None, weights=np.full((3, 3), np.nan)))
    with pytest.raises(ModelError, match="not numbers"):
        broken.classify(picture("red"))
    with pytest.raises(DataError):
        broken.classify(Item.of_text("red"))
