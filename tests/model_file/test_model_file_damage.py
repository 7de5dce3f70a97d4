"""Files that are not models, or not any more: each refused with what to do, none of them run."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.exceptions import ModelFileError
from gramian.model_file import describe

X = np.random.default_rng(0).standard_normal((200, 4))
Y = np.sin(X[:, 0])


def meka(**changes: Any) -> gm.KernelRidge:
    approximation = gm.MEKA(rank=5, **changes)
    return gm.KernelRidge(0.1, gamma=0.2, approximation=approximation, random_state=0, n_jobs=1).fit(X, Y)


@pytest.fixture(scope="module")
def fitted() -> gm.KernelRidge:
    return meka(n_blocks=3)


@pytest.fixture
def path(tmp_path: Path, fitted: gm.KernelRidge) -> Path:
    gm.save(fitted, tmp_path / "m.gramian")
    return tmp_path / "m.gramian"


def changed(path: Path, edit: Any) -> Path:
    """Rewrite a model file with its members (a dict of bytes) edited, checksums and all."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["model.json"])
    edit(members, header)
    for name, listed in header.get("arrays", {}).items() if isinstance(header, dict) else ():
        if f"{name}.npy" in members and isinstance(listed, dict) and "crc32" in listed:
            listed["crc32"] = zlib.crc32(members[f"{name}.npy"])
    if "model.json" in members:
        members["model.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), **options)
    return stream.getvalue()


def learned(header: Any) -> Any:
    return header["estimator"]["learned"]


def predictor(header: Any) -> Any:
    return learned(header)["predictor_"]["parts"]


def member(header: Any, part: str) -> str:
    """Return the name of an array of the predictor; the landmarks of all nodes are one array."""
    stored = predictor(header)[part]
    found: str = stored.get("stacked", stored)["array"]
    return found


def weights(header: Any) -> Any:
    """Return what is stored of the weights of the only level."""
    return predictor(header)["weights"]["tuple"][0]


def reweighted(members: Any, header: Any) -> None:
    put(members, header, weights(header)["stacked"]["array"], np.zeros((3, 1)))
    weights(header)["rows"] = [3, 0, 0]


def put(members: Any, header: Any, name: str, array: Any, **options: Any) -> None:
    """Replace an array, as the list of arrays says or not (``listed=False``)."""
    listed = options.pop("listed", True)
    members[f"{name}.npy"] = npy(array, **options)
    if listed:
        header["arrays"][name].update(shape=list(np.shape(array)), dtype=np.asarray(array).dtype.str)


EDITS: dict[str, tuple[Any, str]] = {
    "no description": (
        lambda m, h: m.pop("model.json"),
        "has no member model.json. It is not a gramian model",
    ),
    "other format": (
        lambda m, h: h.update(format="other"),
        "names the format 'other'; expected 'gramian-model'",
    ),
    "newer": (
        lambda m, h: h.update(version=4, library="9.0"),
        "has version 4, written by gramian 9.0; this gramian reads version 3. Upgrade it",
    ),
    "older": (
        lambda m, h: h.update(version=2, library="0.0.9"),
        "has version 2, written by gramian 0.0.9; this gramian reads version 3. Train the model again",
    ),
    "odd version": (lambda m, h: h.update(version="1"), "gives the version '1'; expected a whole number"),
    "missing array": (lambda m, h: m.pop("value_0.npy"), "the member value_0.npy is missing"),
    "extra array": (
        lambda m, h: m.update({"x.npy": npy([1.0])}),
        "a member x.npy that model.json does not list",
    ),
    "no list": (lambda m, h: h.pop("arrays"), "lists no arrays"),
    "other shape": (
        lambda m, h: put(m, h, weights(h)["stacked"]["array"], np.zeros((3, 1)), listed=False),
        r"'value_\d+' has shape \(3, 1\) and dtype <f8; expected",
    ),
    "other shape, listed": (reweighted, r"'weights' has shape \(3, 1\); expected \(\d+, 1\)"),
    "rows together": (
        lambda m, h: put(m, h, weights(h)["stacked"]["array"], np.zeros((3, 1))),
        r"'arrays together' has shape \(3, 1\); expected \(\d+, 1\)",
    ),
    "negative rows": (
        lambda m, h: weights(h)["rows"].insert(0, -1),
        "an array has a negative number of rows",
    ),
    "other dtype": (
        lambda m, h: put(m, h, member(h, "leaf_levels"), np.zeros((1, 3), np.int16), listed=False),
        r"'value_\d+' has shape \(1, 3\) and dtype <i2; expected \(1, 3\) and <i8",
    ),
    "objects": (
        lambda m, h: put(m, h, "value_0", np.array([print], object), listed=False, allow_pickle=True),
        "'value_0' holds object; expected numbers or text. A gramian model holds no objects",
    ),
    "short array": (
        lambda m, h: m.update({"value_0.npy": m["value_0.npy"][:-8]}),
        "'value_0' has .* bytes; expected",
    ),
    "no npy": (lambda m, h: m.update({"value_0.npy": b"abc"}), "'value_0' has no readable header"),
    "other model": (
        lambda m, h: h["estimator"].update({"class": "Other"}),
        "the model is a 'Other'; expected",
    ),
    "new parameter": (
        lambda m, h: h["estimator"]["params"].update(magic=1),
        "KernelRidge is stored with the parameter 'magic', which it does not have here",
    ),
    "other kernel": (
        lambda m, h: learned(h)["kernel_"]["kernel"].update(family="New"),
        "family 'New' is not one",
    ),
    "other builder": (
        lambda m, h: learned(h)["plan_"]["parts"]["builder"].update(record="os.system"),
        "the part 'os.system' is not one of",
    ),
    "other partition": (
        lambda m, h: learned(h)["predictor_"]["parts"]["partition"].update(record="x"),
        "the part 'x' is not one of",
    ),
    "other tiles": (
        lambda m, h: learned(h)["predictor_"]["parts"]["dtype"].update(dtype="int8"),
        "tiles are stored as int8; expected float32 or float64",
    ),
    "names": (lambda m, h: h["estimator"].update(feature_names=["a"]), "1 feature names; expected 4"),
    "intercept": (
        lambda m, h: put(m, h, learned(h)["intercept_"]["array"], np.zeros(3)),
        "do not make a model",
    ),
    "levels": (
        lambda m, h: put(m, h, member(h, "leaf_levels"), np.array([[0, 1, 99]])),
        "'leaf_levels' holds numbers outside 0 … 2",
    ),
    "centres": (
        lambda m, h: put(
            m,
            h,
            learned(h)["predictor_"]["parts"]["partition"]["parts"]["centers"]["array"],
            np.zeros((3, 2)),
        ),
        "the partition takes rows of 2 features; expected 4",
    ),
    "landmarks": (
        lambda m, h: put(m, h, member(h, "landmarks"), np.zeros((45, 7))),
        "the partition takes rows of 4 features; expected 7",
    ),
    "nothing learned": (
        lambda m, h: h["estimator"].pop("learned"),
        r"its parts do not make a model \(KeyError: 'learned'\)",
    ),
    "wrong type": (lambda m, h: h.update(estimator=3), r"its parts do not make a model \(TypeError"),
    "wrong value": (
        lambda m, h: learned(h)["plan_"]["parts"].update(bytes={"set": []}),
        r"do not make a model \(ValueError: no value is stored as {'set': \[\]}\)",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_refuses_a_file_that_was_edited(name: str, path: Path) -> None:
    edit, said = EDITS[name]
    with pytest.raises(ModelFileError, match=said) as caught:
        gm.load(changed(path, edit))
    assert str(caught.value).startswith(f"{path} cannot be loaded: ")


def test_refuses_a_tree_that_never_ends(tmp_path: Path) -> None:
    gm.save(meka(n_blocks=4, partition="tree"), tmp_path / "m.gramian")

    def loop(members: Any, header: Any) -> None:
        children = learned(header)["predictor_"]["parts"]["partition"]["parts"]["children"]
        put(members, header, children["array"], np.zeros((3, 2), np.int64))

    with pytest.raises(ModelFileError, match="'children' of a partition is not a tree"):
        gm.load(changed(tmp_path / "m.gramian", loop))


def test_refuses_a_member_twice_or_compressed(path: Path) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore", UserWarning)
        archive.writestr("value_0.npy", npy([1.0]))
    with pytest.raises(ModelFileError, match=r"a member value_0.npy that model.json does not list once"):
        gm.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", "{}" * 50)
    with pytest.raises(ModelFileError, match=r"model.json is compressed; expected stored bytes"):
        gm.load(path)


def test_refuses_members_that_overlap(path: Path) -> None:
    # The directory gives a small member the bytes of the others too: more in all than the file has.
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        large = max(archive.infolist(), key=lambda member: member.file_size)
        small = next(
            member for member in archive.infolist() if member.filename not in (large.filename, "model.json")
        )
    entry = data.rindex(small.filename.encode()) - 46
    assert data[entry : entry + 4] == b"PK\x01\x02"
    size = len(data) - 100
    data[entry + 20 : entry + 28] = size.to_bytes(4, "little") * 2
    path.write_bytes(data)
    with pytest.raises(
        ModelFileError, match=r"its members have \d+ bytes, but the file has \d+\. The file is damaged"
    ):
        gm.load(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected a zip archive, got a file that starts with b''"),
        (b"a,b\n1,2\n", "It is not a gramian model, or it is damaged"),
        (pickle.dumps({"a": 1}), "expected a zip archive"),
    ],
)
def test_refuses_other_files(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.gramian").write_bytes(data)
    for read in (gm.load, describe):
        with pytest.raises(ModelFileError, match=said):
            read(tmp_path / "m.gramian")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\ud800", "[]"])
def test_refuses_a_description_that_is_not_one(text: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.gramian", "w") as archive:
        archive.writestr("model.json", text.encode(errors="surrogatepass"))
    with pytest.raises(ModelFileError, match=r"model.json (is not JSON|names the format None)"):
        gm.load(tmp_path / "m.gramian")


def test_names_a_file_that_is_not_there(path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"the file does not exist. Did you mean 'm.gramian'\?"):
        gm.load(path.with_name("m.gramain"))
    with pytest.raises(ModelFileError, match="the file is a folder"):
        gm.load(path.parent)


def test_refuses_a_file_cut_short(path: Path) -> None:
    data = path.read_bytes()
    for keep in np.linspace(1, len(data) - 1, 20).astype(int):
        path.write_bytes(data[:keep])
        with pytest.raises(ModelFileError, match=r"its directory cannot be read|expected a zip archive"):
            gm.load(path)


def test_a_flipped_byte_is_refused_or_does_not_matter(fitted: gm.KernelRidge, path: Path) -> None:
    data, expected = path.read_bytes(), fitted.predict(X)
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
    rng = np.random.default_rng(0)
    # Most of the file is arrays; the zip's own directory at its end is looked at as closely.
    at = np.concatenate([rng.integers(directory, size=80), rng.integers(directory, len(data), 120)])
    refused = 0
    for position in at:
        damaged = bytearray(data)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            loaded = gm.load(path)
        except ModelFileError:
            refused += 1
        else:
            np.testing.assert_array_equal(loaded.predict(X), expected)
    assert refused > len(at) / 2


def rewritten(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_refuses_members_that_have_swapped_names(tmp_path: Path) -> None:
    path = tmp_path / "m.gramian"
    gm.save(gm.KernelPCA(n_components=3).fit(X[:60, :3]), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    shapes = {name: data[:128] for name, data in members.items() if name != "model.json"}
    one, other = next((a, b) for a in shapes for b in shapes if a < b and shapes[a] == shapes[b])
    assert len(members[one]) == len(members[other])  # of one shape: nothing but the content tells them apart
    rewritten(path, members | {one: members[other], other: members[one]})
    with pytest.raises(ModelFileError, match=r"'value_\d+' has the checksum .* swapped with another"):
        gm.load(path)
