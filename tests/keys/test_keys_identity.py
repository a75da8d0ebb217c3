"""One input, one hash: in every process, under every PYTHONHASHSEED, in every Python, however strings are shared (KEY-1)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attr
import attrs
import pytest

from kvprefix.keys import (
    Algorithm,
    Extras,
    HashScheme,
    Lora,
    MediaItem,
    Sharing,
    extra_keys,
    hash_chain,
    serialise,
)

REFERENCE = Path(__file__).parents[2] / "reference"


def built(text: str) -> str:
    """An equal string that no compiler or table shares."""
    return "".join(list(text))


def twice(shared: bool) -> Extras:
    """One image twice in a block, its identifier one object or two; a LoRA whose name is its path, likewise."""
    name, image = built("org/adapter"), built("image-1")
    other_name, other_image = (name, image) if shared else (built(name), built(image))
    return Extras(lora=Lora(name, other_name), media=(MediaItem(image, 0, 1), MediaItem(other_image, 2, 1)))


PICKLING = [algorithm for algorithm in Algorithm if algorithm.identity_sensitive]


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize("sharing", list(Sharing))
def test_the_callers_own_sharing_of_strings_never_shows(algorithm: Algorithm, sharing: Sharing) -> None:
    scheme = HashScheme(algorithm, 4, "0", sharing=sharing)
    assert hash_chain(scheme, range(8), twice(shared=True)) == hash_chain(scheme, range(8), twice(shared=False))


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_sharing_is_an_input_of_the_pickle_recipes_only(algorithm: Algorithm) -> None:
    hashes = {
        sharing: hash_chain(HashScheme(algorithm, 4, "0", sharing=sharing), range(4), twice(shared=False)) for sharing in Sharing
    }
    assert (hashes[Sharing.DISTINCT] != hashes[Sharing.EQUAL]) is algorithm.identity_sensitive


def test_the_default_is_what_an_engine_hashes_behind_its_message_queue() -> None:
    assert HashScheme().sharing is Sharing.DISTINCT


@pytest.mark.parametrize("tag", ["lora", "mm", "cache_salt", "prompt_embeds"])
@pytest.mark.parametrize("given", [built, str], ids=["objects of their own", "the tag itself"])
def test_a_value_that_equals_a_tag_is_an_object_of_its_own_unless_all_are_shared(tag: str, given: Callable[[str], str]) -> None:
    extras = Extras(lora=Lora(given(tag), given(tag)), media=(MediaItem(given(tag), 1, 1),), salt=given(tag))

    def strings(sharing: Sharing) -> list[str]:
        keys = extra_keys(extras, 0, 4, sharing)
        assert keys is not None
        return [part for key in keys for part in key if part == tag]

    assert len({id(part) for part in strings(Sharing.EQUAL)}) == 1
    apart = strings(Sharing.DISTINCT)
    assert len({id(part) for part in apart}) == len(apart)


@pytest.mark.parametrize("sharing", list(Sharing))
def test_a_tag_is_one_object_within_a_block(sharing: Sharing) -> None:
    keys = extra_keys(Extras(media=(MediaItem("a1", 0, 1), MediaItem("b1", 1, 1), MediaItem("c1", 2, 1))), 0, 4, sharing)
    assert keys is not None
    assert len({id(key[0]) for key in keys}) == 1


def test_plain_blocks_hold_nothing_that_could_be_shared() -> None:
    parent = bytes(32)
    assert serialise(Algorithm.SHA256, (parent, (1, 2), None)) == serialise(Algorithm.SHA256, (bytes(bytearray(32)), (1, 2), None))


# --------------------------------------------------------------------------------------------------------------------------------
# Other processes

#: Run by a bare interpreter: prints one hash per case as JSON. Recipes whose library it lacks are left out and named.
CHILD = """
import json, sys
sys.path[:0] = sys.argv[1:]
from kvprefix.errors import MissingDependencyError
from kvprefix.keys import *
from kvprefix.keys.recipes import codec
out, missing = {}, []
extras = {
    "plain": Extras(),
    "lora": Extras(lora=Lora("org/adapter", "org/adapter")),
    "media": Extras(media=(MediaItem("img", 1, 1), MediaItem("img", 3, 4))),
    "salt": Extras(salt="tenant \\u00e4"),
    "all": Extras(Lora("n", "/p"), (MediaItem("mm", 0, 9),), "lora", PromptEmbeds(bytes(range(80)), 2)),
}
for algorithm in Algorithm:
    try:
        codec(algorithm)
    except MissingDependencyError:
        missing.append(algorithm.value)
        continue
    for sharing in Sharing:
        for seed in (None, "0", "random"):
            if seed is None and not algorithm.cryptographic:
                continue
            scheme = HashScheme(algorithm, 4, seed, sharing=sharing)
            space = key_space(Compatibility("org/m", "bfloat16", "LBHNC", scheme), namespace="n@1")
            for name, extra in extras.items():
                hashes = hash_chain(scheme, [7919 * i % 128256 for i in range(40)], extra)
                keys = chain_keys(space, hashes, hash_unit=4, block_size=8)
                out["/".join([algorithm.value, sharing.value, str(seed), name])] = [format_key(key) for key in keys]
print(json.dumps({"keys": out, "missing": missing}))
"""


def run_child(python: str, paths: list[str], hash_seed: str | None) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYENV_VERSION"))}
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = hash_seed
    done = subprocess.run(
        [python, "-B", "-c", CHILD, *paths], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    """What this interpreter makes, in a process of its own with PYTHONHASHSEED unset."""
    return run_child(sys.executable, [str(REFERENCE)], None)


@pytest.mark.parametrize("hash_seed", ["0", "1", "4294967295", "random"])
def test_equal_under_every_pythonhashseed(here: dict[str, Any], hash_seed: str) -> None:
    assert not here["missing"]
    assert run_child(sys.executable, [str(REFERENCE)], hash_seed) == here


def interpreters(version: str) -> Iterator[str]:
    """Where a Python of this version may be: on PATH, or among pyenv's."""
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    for installed in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}*")):
        yield str(installed / "bin" / "python")


def working(version: str) -> str | None:
    probe = "import sys; print('%d.%d' % sys.version_info[:2])"
    for python in interpreters(version):
        try:
            done = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.strip() == version:
            return python
    return None


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_equal_in_every_supported_python(here: dict[str, Any], version: str, tmp_path: Path) -> None:
    python = working(version)
    if python is None:
        pytest.skip(f"no Python {version} found on PATH or among pyenv's")
    # attrs is pure Python: lent to the other interpreter. cbor2 and xxhash are compiled: used where it has its own.
    for package in (attr, attrs):
        assert package.__file__ is not None
        folder = Path(package.__file__).parent
        (tmp_path / folder.name).symlink_to(folder)
    there = run_child(python, [str(REFERENCE), str(tmp_path)], "random")
    assert "sha256" not in there["missing"]
    assert there["keys"] == {name: keys for name, keys in here["keys"].items() if name.split("/")[0] not in there["missing"]}
