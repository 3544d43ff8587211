"""A wrong pair of TVM and its FFI is one sentence at import, and exit code 2 of the command."""

import importlib.metadata
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tirstep import __main__ as command
from tirstep.versions import FFI_PINS, PINS, UnsupportedVersions, require_supported_tvm

ROOT = Path(__file__).resolve().parents[1]
GOOD_TVM, GOOD_FFI = "0.27.0.post1", "0.1.14.post1"
INSTALL = "-m pip install 'apache-tvm>=0.27,<0.28' 'apache-tvm-ffi>=0.1.14.post0,<0.1.15'"


@pytest.fixture
def install(monkeypatch):
    """Return a function that makes it look as if these versions were installed (None: not)."""

    def pretend(tvm, ffi, source_origin=None):
        installed = {"apache-tvm": tvm, "apache-tvm-ffi": ffi}

        def version(name):
            if installed[name] is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return installed[name]

        is_found = tvm is not None or source_origin is not None
        spec = ModuleSpec("tvm", None, origin=source_origin) if is_found else None
        monkeypatch.setattr(importlib.metadata, "version", version)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)

    return pretend


def find_refusal() -> str:
    try:
        require_supported_tvm()
    except UnsupportedVersions as error:
        return str(error)
    return ""


GOOD = ("0.27.0", "0.1.14.post0"), ("0.27.3", "0.1.14"), ("0.27rc1", "0.1.14+local")


def test_supported_pairs_and_this_environment_pass(install):
    assert find_refusal() == ""
    for pair in ((GOOD_TVM, GOOD_FFI), *GOOD):
        install(*pair)
        assert find_refusal() == ""


@pytest.mark.parametrize(
    ("tvm", "ffi", "found"),
    [
        ("0.26.0", "0.1.13", "apache-tvm is 0.26.0 and apache-tvm-ffi is 0.1.13"),
        ("0.28.0", GOOD_FFI, "apache-tvm is 0.28.0 and apache-tvm-ffi is 0.1.14.post1"),
        ("1.0.27", GOOD_FFI, "apache-tvm is 1.0.27 and apache-tvm-ffi is 0.1.14.post1"),
        (GOOD_TVM, "0.1.15", "apache-tvm is 0.27.0.post1 and apache-tvm-ffi is 0.1.15"),
        (GOOD_TVM, None, "apache-tvm is 0.27.0.post1 and apache-tvm-ffi is missing"),
        (None, GOOD_FFI, "apache-tvm is missing and apache-tvm-ffi is 0.1.14.post1"),
    ],
)
def test_wrong_pair_is_one_sentence(install, monkeypatch, tvm, ffi, found):
    install(tvm, ffi)
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python")
    with pytest.raises(UnsupportedVersions) as raised:
        require_supported_tvm()
    assert str(raised.value) == (
        "tirstep needs apache-tvm 0.27.x with apache-tvm-ffi 0.1.14.x, but here "
        f"{found}; run: '/opt/my python/bin/python' {INSTALL}"
    )


def test_tvm_built_from_source_passes(install):
    install(None, None, source_origin="/src/tvm/python/tvm/__init__.py")
    assert find_refusal() == ""


def test_folder_that_is_only_called_tvm_does_not_pass(monkeypatch, tmp_path, install):
    find_spec = importlib.util.find_spec
    install(None, GOOD_FFI)
    (tmp_path / "tvm").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "tvm", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(UnsupportedVersions, match="apache-tvm is missing"):
        require_supported_tvm()


def test_ranges_are_those_of_pyproject():
    text = (ROOT / "pyproject.toml").read_text()
    assert f'"apache-tvm{PINS}"' in text
    assert f'"apache-tvm-ffi{FFI_PINS}"' in text


def test_command_says_the_sentence_and_exits_with_2(monkeypatch, capsys):
    class WrongPair:
        """What importing tirstep.cli comes to when one of its imports refuses the versions."""

        def __getattr__(self, name):
            raise UnsupportedVersions("tirstep needs another TVM; run: pip install it")

    monkeypatch.setitem(sys.modules, "tirstep.cli", WrongPair())
    with pytest.raises(SystemExit) as exit_:
        command.main()
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "tirstep needs another TVM; run: pip install it\n"
