"""Files appear whole or not at all, under names that nobody foresees, and replace nothing of
another kind."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from jaxmbd.files import check_writable, inside, placed, stem_of, table_text, written


def names(folder):
    return sorted(x.name for x in folder.iterdir())


@pytest.mark.parametrize("name", ["o.npz.partial", ".o.npz.partial", "o.npz.tmp"])
def test_a_planted_link_is_not_followed(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with written(tmp_path / "o.npz", "wb") as file:
        file.write(b"PK")
    assert victim.read_text() == "precious" and not (tmp_path / "o.npz").is_symlink()
    assert names(tmp_path) == sorted(["o.npz", name, "victim"])


@pytest.mark.parametrize("kind", ["a link", "a file"])
def test_a_name_that_is_taken_is_not_opened(tmp_path, monkeypatch, kind):
    """Were the temporary name foreseen all the same."""
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * n)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    taken = tmp_path / f".jaxmbd-{'0' * 16}.partial"
    taken.symlink_to(victim) if kind == "a link" else taken.write_text("other")
    with pytest.raises(OSError, match="cannot write the file"), written(tmp_path / "o", "wb"):
        pass
    assert victim.read_text() == "precious" and not (tmp_path / "o").exists()


def test_a_target_that_is_a_link_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "model.json"
    victim.write_text("{}")
    (tmp_path / "o.npz").symlink_to(victim)
    with written(tmp_path / "o.npz", "wb") as file:
        file.write(b"PK")
    assert victim.read_text() == "{}" and (tmp_path / "o.npz").read_bytes() == b"PK"


def test_two_writers_of_one_file_both_finish_with_a_whole_one(tmp_path):
    path, failures = tmp_path / "o.txt", []
    both = threading.Barrier(2)

    def write(text):
        try:
            for _ in range(20):
                with written(path, "w") as file:
                    both.wait(5.0)
                    file.write("t\n" + text * 10_000)
                assert len(path.read_text()) == 10_002
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and names(tmp_path) == ["o.txt"]
    assert set(path.read_text()) in ({"t", "\n", "a"}, {"t", "\n", "b"})


SLOW = """
import sys, time
from jaxmbd.files import placed, written
from pathlib import Path
how = written(sys.argv[1], "w") if sys.argv[2] == "written" else placed(sys.argv[1])
with how as target:
    if isinstance(target, Path):
        target.write_text("half")
    else:
        target.write("half")
        target.flush()
    print("half", flush=True)
    time.sleep(60)
"""


@pytest.mark.essential
@pytest.mark.parametrize("how", ["written", "placed"])
def test_a_process_that_is_terminated_leaves_nothing(tmp_path, how):
    command = [sys.executable, "-c", SLOW, str(tmp_path / "o.csv"), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "half\n"
        assert len(names(tmp_path)) == 1
        process.terminate()
        assert process.wait(20) == -signal.SIGTERM
    assert not names(tmp_path)


def test_a_program_with_its_own_handler_keeps_it(tmp_path):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with written(tmp_path / "o", "w") as file:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            file.write("whole")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [1] and (tmp_path / "o").read_text() == "whole"
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("how", [lambda p: written(p, "w"), placed], ids=["written", "placed"])
def test_a_failure_leaves_the_older_file_and_nothing_else(tmp_path, how):
    path = tmp_path / "o.csv"
    path.write_bytes(TABLE)
    for error in (RuntimeError("odd"), KeyboardInterrupt()):
        with pytest.raises((ValueError, KeyboardInterrupt)), how(path):
            raise error
    assert names(tmp_path) == ["o.csv"] and path.read_bytes() == TABLE


TABLE = "".join(table_text(["t [s]", "a, b.effort [N·m]"], [[0.0, 1e-17], [0.1, 2.5]])).encode()


def test_a_table_of_this_package_is_replaced_by_the_next(tmp_path):
    path = tmp_path / "o.csv"
    for old in (TABLE, TABLE[: TABLE.index(b"\r\n") + 2], b""):
        path.write_bytes(old)
        check_writable(path)
        with written(path, "wb") as file:
            file.write(b"new")
        assert path.read_bytes() == b"new"


OTHERS = {
    "m.npz": b'{"format": "jaxmbd-1"}',
    "m.csv": b'{"format": "jaxmbd-1"}',
    "no_units.csv": b"t,x\r\n0.0,1.5\r\n",
    "of_a_sensor.csv": b"t [s],pin.angle [rad]\r\n0.000,1.500\r\n",
    "of_a_spreadsheet.csv": b"t [s],pin.angle [rad]\r\n0,1.5\r\n",
    "of_pandas.csv": b"t [s],pin.angle [rad]\n0.0,1.5\n",
    "one_without_unit.csv": b"t [s],pin.angle [rad],note\r\n0.0,1.5,1.0\r\n",
    "words.csv": b"t [s],pin.angle [rad]\r\n0.0,high\r\n",
    "short.csv": b"t [s],pin.angle [rad]\r\n0.0\r\n",
    "open.csv": b't [s],"pin.angle [rad]\r\n',
    "m.html": b'{"format": "jaxmbd-1"}',
    "m.gif": b"<mujoco/>",
    "m.png": b"<robot/>",
    "o.svg": b"\x89PNG",
    "o.pdf": b"text",
    "o.glb": b"text",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_kind_is_not_overwritten(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(OTHERS[name])
    with pytest.raises(OSError, match="exists and is not a .* choose another name"):
        check_writable(path)
    with pytest.raises(OSError, match=f"cannot write the file '.*{name}': it exists and is not"):
        with written(path, "wb") as file:
            file.write(b"new")
    assert path.read_bytes() == OTHERS[name] and names(tmp_path) == [name]


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "o.csv")
    with pytest.raises(OSError, match="is not a file"):
        check_writable(tmp_path / "o.csv")


def test_a_file_of_another_user_in_a_shared_folder_is_told_before(tmp_path, monkeypatch):
    tmp_path.chmod(0o1777)
    (tmp_path / "o.csv").write_text("t\n")
    os.chown(tmp_path / "o.csv", os.geteuid(), -1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(OSError, match="belongs to another user"):
        check_writable(tmp_path / "o.csv")


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="no /proc")
def test_a_folder_that_takes_no_files_is_told_before(tmp_path):
    with pytest.raises(OSError):
        check_writable(tmp_path.__class__("/proc/o.npz"))


def test_permissions_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        with written(tmp_path / "o", "w") as file:
            file.write("")
    finally:
        os.umask(before)
    assert (tmp_path / "o").stat().st_mode & 0o777 == 0o640


# --- what a model names ---


@pytest.mark.parametrize("name", ["../o.obj", "/etc/hostname", "a/../../o.obj", "link", "up/o.obj"])
def test_no_path_leads_out_of_the_folder(tmp_path, name):
    root = tmp_path / "model"
    root.mkdir()
    (tmp_path / "o.obj").write_text("outside")
    (root / "link").symlink_to(tmp_path / "o.obj")
    (root / "up").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="lies outside of the model's folder"):
        inside(root.resolve(), name)
    if name == "../o.obj":
        assert inside(root.resolve(), name, anywhere=True) == tmp_path.resolve() / "o.obj"


@pytest.mark.parametrize("name", ["no.obj", "", ".", "x" * 3000, "circle", "\0"])
def test_what_is_no_file_is_refused(tmp_path, name):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(ValueError, match="no file|zero byte"):
        inside(tmp_path.resolve(), name)


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a\0b", "..", "", "x" * 999, "con:1"])
def test_a_name_of_a_model_makes_a_file_in_its_folder(tmp_path, name):
    path = tmp_path / f"{stem_of(name)}.npz"
    np.savez(path, t=0)
    assert names(tmp_path) == [path.name]
