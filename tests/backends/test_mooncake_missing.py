"""What is missing is named, with the command that installs it."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from kvprefix.errors import MissingDependencyError
from kvprefix_conformance.backends import mooncake_link
from kvprefix_conformance.backends.mooncake import open_backend
from kvprefix_conformance.backends.mooncake_link import check_libraries, find_binary


def _package(place: Path) -> types.SimpleNamespace:
    return types.SimpleNamespace(submodule_search_locations=[str(place)])


def test_a_missing_package_is_named_with_its_pip_command() -> None:
    with pytest.raises(MissingDependencyError) as error:
        find_binary(lambda _name: None)
    assert str(error.value) == (
        "The Python package of Mooncake Store is not installed. Run: pip install mooncake-transfer-engine-non-cuda"
    )


def test_another_package_called_mooncake_is_not_taken_for_it(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="is not installed"):
        find_binary(lambda _name: _package(tmp_path))


def test_a_package_without_its_server_is_to_be_reinstalled(tmp_path: Path) -> None:
    (tmp_path / "store.so").touch()
    with pytest.raises(MissingDependencyError) as error:
        find_binary(lambda _name: _package(tmp_path))
    assert "no mooncake_master binary" in error.value.problem
    assert error.value.remedy == "Run: pip install --force-reinstall mooncake-transfer-engine-non-cuda"


def test_a_server_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    (tmp_path / "store.so").touch()
    binary = tmp_path / "mooncake_master"
    binary.touch(mode=0o644)
    with pytest.raises(MissingDependencyError) as error:
        find_binary(lambda _name: _package(tmp_path))
    assert error.value.remedy == f"Run: chmod +x {binary}"


def test_the_server_is_found_beside_the_module(tmp_path: Path) -> None:
    (tmp_path / "store.so").touch()
    binary = tmp_path / "mooncake_master"
    binary.touch(mode=0o755)
    assert find_binary(lambda _name: _package(tmp_path)) == binary


def test_missing_system_libraries_are_named_all_at_once_with_their_packages() -> None:
    def load(library: str) -> None:
        if library in ("libcurl.so.4", "libibverbs.so.1"):
            raise OSError(f"{library}: cannot open shared object file")

    with pytest.raises(MissingDependencyError) as error:
        check_libraries(load)
    assert "libibverbs.so.1, libcurl.so.4" in error.value.problem
    assert error.value.remedy == "Run: apt-get install libibverbs1 libcurl4"


def test_open_backend_looks_for_the_package_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        return find_binary(lambda _name: None)

    monkeypatch.setattr(mooncake_link, "find_binary", absent)
    with pytest.raises(MissingDependencyError, match="pip install"):
        open_backend()


def test_open_backend_looks_for_the_libraries_before_it_starts_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_loads() -> None:
        def load(_library: str) -> None:
            raise OSError

        check_libraries(load)

    monkeypatch.setattr(mooncake_link, "find_binary", lambda: Path("mooncake_master"))
    monkeypatch.setattr(mooncake_link, "check_libraries", none_loads)
    with pytest.raises(MissingDependencyError, match="apt-get install libibverbs1 libnuma1 libcurl4 librdmacm1"):
        open_backend()
