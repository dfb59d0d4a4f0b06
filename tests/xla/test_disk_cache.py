"""The folder of compiled programs: it holds the user's own programs, and nothing else is deleted
or run."""

import os
import warnings

import jax
import pytest

import jaxmbd as mbd
from jaxmbd.xla import disk_cache as cache

PROGRAM = "jit_step-" + "0123456789abcdef" * 4 + "-cache"


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setattr(cache, "_folder", cache._folder)
    monkeypatch.setattr(cache, "_said", set())
    monkeypatch.setattr(cache, "_LARGEST", 10)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def aged(path, k):
    path.write_bytes(b"12345")
    os.utime(path, (k, k))
    return path


def names(folder):
    return sorted(x.name for x in folder.iterdir())


def test_files_of_the_users_stay_and_the_oldest_programs_go(tmp_path):
    own = tmp_path / "jaxmbd-programs"
    own.mkdir(mode=0o700)
    theses = [aged(tmp_path / f"thesis_{k}.dat", k) for k in range(3)]
    aged(tmp_path / PROGRAM, 0)  # outside of the package's own folder
    for k, name in enumerate(["notes.txt", "thesis-cache", "jit_step-0123-cache", "traced"]):
        aged(own / name, k)
    target = aged(tmp_path / "target", 0)
    (own / PROGRAM.replace("step", "link")).symlink_to(target)
    (own / PROGRAM.replace("step", "folder")).mkdir()
    kept = {x.name for x in own.iterdir()}
    for k in range(4):
        aged(own / PROGRAM.replace("step", f"step{k}"), k)
    aged(own / f".jaxmbd-{'0' * 32}.partial", 0)  # of a process that was killed
    assert mbd.enable_compilation_cache(tmp_path) == own
    assert set(names(own)) == kept | {PROGRAM.replace("step", f"step{k}") for k in (2, 3)}
    assert all(x.exists() for x in theses) and (tmp_path / PROGRAM).exists() and target.exists()
    assert cache.folder() == own


def test_the_folder_is_for_the_user_alone(tmp_path):
    folder = mbd.enable_compilation_cache(tmp_path / "new" / "folder")
    assert folder is not None and folder.stat().st_mode & 0o777 == 0o700


def writable_by_others(folder):
    (folder / "jaxmbd-programs").mkdir()
    (folder / "jaxmbd-programs").chmod(0o777)


def writable_by_the_group(folder):
    (folder / "jaxmbd-programs").mkdir()
    (folder / "jaxmbd-programs").chmod(0o770)


def replaceable(folder):
    folder.chmod(0o777)


def a_link(folder):
    (folder / "elsewhere").mkdir()
    (folder / "jaxmbd-programs").symlink_to(folder / "elsewhere")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (writable_by_others, "others may write to it"),
        (writable_by_the_group, "others may write to it"),
        (replaceable, "others may replace it"),
        (a_link, "it is not a folder"),
    ],
)
def test_a_folder_that_others_may_fill_is_not_used_and_said_once(tmp_path, spoil, reason):
    spoil(tmp_path)
    before = cache.folder(), jax.config.jax_compilation_cache_dir
    with pytest.warns(UserWarning, match=f"no programs are kept in .*: {reason}"):
        assert mbd.enable_compilation_cache(tmp_path) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mbd.enable_compilation_cache(tmp_path) is None
    assert (cache.folder(), jax.config.jax_compilation_cache_dir) == before


def test_a_folder_with_the_sticky_bit_may_hold_it(tmp_path):
    tmp_path.chmod(0o1777)  # as /tmp
    assert mbd.enable_compilation_cache(tmp_path) == tmp_path / "jaxmbd-programs"


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    mbd.enable_compilation_cache(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="it belongs to another user"):
        assert mbd.enable_compilation_cache(tmp_path) is None


def test_a_folder_that_cannot_be_listed_is_said(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "iterdir", refuse)
    with pytest.warns(UserWarning, match="it cannot be listed .Permission denied"):
        assert mbd.enable_compilation_cache(tmp_path) is None
