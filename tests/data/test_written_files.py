"""Files that are complete or absent: links, modes and owners stay; what is not a regular file is refused."""

from __future__ import annotations

import os
import socket
import stat
import sys

import numpy as np
import pytest

import gramian as gm
from gramian._files import complete_file, read_state, write_state
from gramian.exceptions import InputError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links, modes and devices are POSIX's")


def write(path, content=b"new"):
    with complete_file(path) as file:
        file.write(content)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def alone(folder, *names):
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o755, 0o444])
def test_the_mode_stays(tmp_path, bits):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(bits)
    write(path)
    assert (path.read_bytes(), mode(path)) == (b"new", bits)
    alone(tmp_path, "file")


def test_what_is_being_written_is_as_private_as_what_it_replaces(tmp_path):
    path = tmp_path / "file"
    path.touch(0o600)
    with complete_file(path):
        assert {mode(one) for one in tmp_path.iterdir()} == {0o600}


def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    (tmp_path / "other").touch()
    write(tmp_path / "file")
    assert mode(tmp_path / "file") == mode(tmp_path / "other")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(tmp_path):
    path = tmp_path / "file"
    path.touch(0o640)
    os.chown(path, 12345, 54321)
    write(path)
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 54321, 0o640)


def test_an_owner_that_cannot_be_kept_is_told(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    class Other:
        st_mode, st_uid, st_gid = path.stat().st_mode, os.getuid() + 1, os.getgid()

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr("gramian._files._existing", lambda *_: Other)
    monkeypatch.setattr(os, "fchown", refused)
    with pytest.raises(InputError, match=rf"belongs to user {os.getuid() + 1} .* Delete it first"):
        write(path)
    assert path.read_bytes() == b"old"
    alone(tmp_path, "file")


def test_links_stay_and_what_they_lead_to_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    target, link, further = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "further"
    target.write_bytes(b"old")
    target.chmod(0o600)
    link.symlink_to("there/file")
    further.symlink_to(link)
    write(further)
    assert target.read_bytes() == b"new"
    assert mode(target) == 0o600
    assert further.is_symlink()
    assert os.readlink(link) == "there/file"
    alone(tmp_path, "there", "link", "further")
    alone(tmp_path / "there", "file")


def test_a_link_to_a_file_that_is_not_there_makes_it(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("file")
    write(link)
    assert link.is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    lost = tmp_path / "lost"
    lost.symlink_to("absent/file")
    with pytest.raises(InputError, match=r"the folder .*absent does not exist"):
        write(lost)


def test_only_regular_files_are_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path has 108 characters at most
    os.mkfifo("fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "around").symlink_to("around")
    said = {"fifo": "a FIFO", "folder": "a folder", "around": "a link that leads to itself"}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        said["socket"] = "a socket"
        for name in [*said]:
            (tmp_path / f"to {name}").symlink_to(name)
            said[f"to {name}"] = said[name]
        for name, what in said.items():
            before = (tmp_path / name).lstat().st_mode
            with pytest.raises(InputError, match=f"Cannot write .*{name}: it is {what}"):
                write(tmp_path / name)
            assert (tmp_path / name).lstat().st_mode == before
    alone(tmp_path, *said)


def test_devices_are_refused(tmp_path):
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes device nodes")
    with pytest.raises(InputError, match="it is a device"):
        write(path)
    assert path.is_char_device()


def test_names_may_be_as_long_as_the_file_system_allows(tmp_path):
    name = "é" * 120 + "x" * 15  # 255 bytes
    write(tmp_path / name)
    alone(tmp_path, name)


def test_models_exports_and_checkpoints_are_written_so(tmp_path):
    X = np.random.default_rng(0).random((60, 2))
    model = gm.KernelRidge(gamma=1.0, random_state=0).fit(X, X[:, 0])
    fast = gm.FastKernelRegressor(n_levels=0, n_units=2, n_directions=2, random_state=0).fit(X, X[:, 0])
    writers = {
        "m.gramian": lambda path: gm.save(model, path),
        "m.py": lambda path: gm.export(fast, path),
        "m.npz": lambda path: write_state(path, {"work": "w"}, {"a": X}),
    }
    for name, act in writers.items():
        target, link = tmp_path / f"target {name}", tmp_path / name
        target.touch(0o600)
        link.symlink_to(target.name)
        act(link)
        assert link.is_symlink()
        assert mode(target) == 0o600
        os.mkfifo(tmp_path / f"fifo-{name}")
        with pytest.raises(InputError, match="it is a FIFO"):
            act(tmp_path / f"fifo-{name}")
    np.testing.assert_array_equal(gm.load(tmp_path / "m.gramian").predict(X), model.predict(X))
    state = read_state(tmp_path / "m.npz", {"work": "w"})
    assert state is not None
    np.testing.assert_array_equal(state["a"], X)
