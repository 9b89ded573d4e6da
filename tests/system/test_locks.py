"""Locks on files: one process, or several that share; each lock ends with its open file."""

import pytest

from act_policy.system.locks import create_locked, lock, lock_shared, try_lock


def test_a_lock_excludes_others_until_its_file_is_closed(tmp_path):
    path = tmp_path / "lock"
    with create_locked(path, "xb") as file, path.open("rb") as other:
        assert not try_lock(other)
        file.close()
        assert try_lock(other)
    with pytest.raises(FileExistsError):
        create_locked(path, "xb")


def test_shared_locks_exclude_only_exclusive_ones(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    with path.open("rb") as one, path.open("rb") as other, path.open("rb") as third:
        lock_shared(one)
        lock_shared(other)
        assert not try_lock(third)
        one.close()
        other.close()
        lock(third)


def test_a_new_file_removed_before_it_is_locked_is_created_again(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    calls = []

    def locked_late(file):
        calls.append(file)
        if len(calls) == 1:
            path.unlink()
        lock(file)

    monkeypatch.setattr("act_policy.system.locks.lock", locked_late)
    with create_locked(path, "wb") as file, path.open("rb") as other:
        assert len(calls) == 2
        assert not try_lock(other)
        file.write(b"content")
    assert path.read_bytes() == b"content"
