"""``kvprefix keys``: what it prints, and how it refuses (KEY-1 to KEY-10 from the shell)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvprefix.api import ROOT
from kvprefix.errors import KeyInputError
from kvprefix.keys import (
    Algorithm,
    BlockKey,
    Compatibility,
    Extras,
    HashScheme,
    Lora,
    MediaItem,
    Rank,
    Sharing,
    Span,
    Split,
    chain_keys,
    collision_vectors,
    compat_key,
    event_hash,
    format_compat,
    format_key,
    format_lineage,
    format_strict,
    hash_chain,
    key_space,
)
from kvprefix_conformance.commands.keys import command, read_tokens

TOKENS = ",".join(map(str, range(40)))
DEPLOYMENT = ["--model", "org/m", "--kv-dtype", "bfloat16", "--layout", "LBHNC"]
SPACE = key_space(Compatibility("org/m", "bfloat16", "LBHNC"))
HASHES = hash_chain(HashScheme(), range(40))


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, list(arguments), input=stdin, prog_name="kvprefix keys")


def lines(*arguments: str, stdin: str | None = None) -> list[str]:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def document(*arguments: str) -> Any:
    return json.loads("\n".join(lines(*arguments, "--json")))


def refused(*arguments: str, stdin: str | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr
    return result.stderr


# --------------------------------------------------------------------------------------------------------------------------------
# hash


def test_hash_prints_a_line_for_each_full_block_and_tells_of_the_rest() -> None:
    result = run("hash", "--tokens", TOKENS)
    assert result.stdout.splitlines() == [f"0\t0-15\t{HASHES[0].hex()}", f"1\t16-31\t{HASHES[1].hex()}"]
    assert "last 8 of 40 tokens" in result.stderr


def test_hash_json_names_recipe_root_and_parents() -> None:
    made = document("hash", "--tokens", TOKENS)
    assert (made["algorithm"], made["block_size"], made["root"]) == ("sha256", 16, HashScheme().root.hex())
    assert [block["hash"] for block in made["blocks"]] == [digest.hex() for digest in HASHES]
    assert [block["parent"] for block in made["blocks"]] == [None, HASHES[0].hex()]
    assert made["unnamed_tokens"] == 8


@pytest.mark.parametrize("text", [TOKENS, TOKENS.replace(",", " "), TOKENS.replace(",", ",\n"), f"[{TOKENS}]\n", f" {TOKENS} "])
def test_tokens_come_from_the_command_line_a_file_or_stdin(text: str, tmp_path: Path) -> None:
    want = lines("hash", "--tokens", TOKENS)
    file = tmp_path / "tokens.txt"
    file.write_text(text)
    assert lines("hash", "--tokens", text) == want
    assert lines("hash", "--tokens", f"@{file}") == want
    assert lines("hash", "--tokens", "-", stdin=text) == want


def test_every_option_of_the_scheme_and_the_request_reaches_the_hash() -> None:
    scheme = HashScheme(Algorithm.XXHASH, 4, "7", 1, Sharing.EQUAL)
    extras = Extras(Lora("n", "a:b"), (MediaItem("x:y", 1, 2), MediaItem("z", 6, 3)), "s")
    made = lines(
        "hash", "--tokens", TOKENS, "--algorithm", "xxhash", "--block-size", "4", "--hash-seed", "7", "--lookahead", "1",
        "--sharing", "equal", "--lora", "n:a:b", "--mm", "x:y:1:2", "--mm", "z:6:3", "--salt", "s",
    )  # fmt: skip
    assert [line.split("\t")[2] for line in made] == [digest.hex() for digest in hash_chain(scheme, range(40), extras)]


@pytest.mark.parametrize("form", ["event", "compat", "strict", "lineage"])
def test_hash_names_blocks_in_every_form(form: str) -> None:
    keys = chain_keys(SPACE, HASHES, hash_unit=16)
    want = {
        "event": [event_hash(digest) for digest in HASHES],
        "compat": [format_compat(compat_key(key.block)) for key in keys],
        "strict": [format_strict(key.block) for key in keys],
        "lineage": [format_key(key) for key in keys],
    }
    made = document("hash", "--tokens", TOKENS, "--form", form, *DEPLOYMENT)
    assert [block["name"] for block in made["blocks"]] == want[form]


def test_hash_names_coarse_chunks_and_a_partial_tail() -> None:
    hashes = hash_chain(HashScheme(block_size=4), range(40))
    space = key_space(Compatibility("org/m", "bfloat16", "LBHNC", HashScheme(block_size=4)))
    want = [format_key(key) for key in chain_keys(space, hashes, hash_unit=4, block_size=16, num_tokens=40)]
    arguments = ["hash", "--tokens", TOKENS, "--block-size", "4", "--chunk-size", "16", "--form", "lineage", *DEPLOYMENT]
    assert [line.split("\t")[2] for line in lines(*arguments, "--tail")] == want
    assert [line.split("\t")[2] for line in lines(*arguments)] == want[:2]


def test_a_random_root_is_told_so_that_it_can_be_repeated() -> None:
    first = document("hash", "--tokens", TOKENS, "--algorithm", "xxhash", "--random-root")
    again = document("hash", "--tokens", TOKENS, "--algorithm", "xxhash", "--hash-seed", first["hash_seed"])
    assert again["blocks"] == first["blocks"]
    assert document("hash", "--tokens", TOKENS, "--algorithm", "xxhash", "--random-root")["blocks"] != first["blocks"]
    assert first["hash_seed"] not in run("hash", "--tokens", TOKENS, "--random-root").stdout
    assert "--hash-seed" in run("hash", "--tokens", TOKENS, "--random-root").stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tokens", "1,x,3"], "token 1 is 'x'"),
        (["--tokens", "1,,3"], "token 1 is ''"),
        (["--tokens", "1,-2"], "token 1 is '-2'"),
        (["--tokens", "1,2.0"], "token 1 is '2.0'"),
        (["--tokens", "٣"], "token 0"),
        (["--tokens", "9" * 5000], "token 0"),
        (["--tokens", "@"], "cannot read tokens"),
        (["--tokens", "@/nowhere/at/all"], "cannot read tokens"),
        (["--tokens", "1", "--block-size", "0"], "block size"),
        (["--tokens", "1", "--block-size", "4", "--chunk-size", "6"], "not a multiple"),
        (["--tokens", "1", "--block-size", "1", "--chunk-size", "0"], "block size is 0"),
        (["--tokens", "1", "--block-size", "1", "--chunk-size", "0", "--tail"], "block size is 0"),
        (["--tokens", "1", "--form", "strict", *DEPLOYMENT, "--store-namespace", "@x"], "compat form only, not in strict"),
        (["--tokens", "1", "--algorithm", "md5"], "md5"),
        (["--tokens", "1", "--algorithm", "xxhash"], "RANDOM_ROOT"),
        (["--tokens", "1", "--hash-seed", "1", "--random-root"], "exclude each other"),
        (["--tokens", "1", "--lora", "name"], "NAME:PATH"),
        (["--tokens", "1", "--lora", "name:"], "no path"),
        (["--tokens", "1", "--mm", "a:1"], "ID:OFFSET:LENGTH"),
        (["--tokens", "1", "--mm", "a:-1:2"], "ID:OFFSET:LENGTH"),
        (["--tokens", "1", "--mm", "a:0:0"], "length"),
        (["--tokens", "1", "--mm", "a:0:3", "--mm", "b:1:3"], "overlap"),
        (["--tokens", "1", "--form", "compat"], "--model"),
        (["--tokens", "1", "--form", "strict", "--model", "m"], "--kv-dtype, --layout"),
        (["--tokens", "1", "--form", "strict", *DEPLOYMENT, "--tp-rank", "-1"], "TP rank"),
        (["--tokens", "1,2", "--block-size", "1", "--form", "lineage", *DEPLOYMENT, "--group-kind", "window"], "no parent"),
        (["--tokens", "1,2", "--block-size", "1", "--form", "compat", "--model", "m", "--store-namespace", "x"], "begin with '@'"),
        ([], "--tokens"),
    ],
)
def test_bad_input_to_hash_is_refused_with_a_sentence(arguments: list[str], sentence: str) -> None:
    assert sentence in refused("hash", *arguments)


def test_a_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # What Python leaves there when the shell says <&-; below the runner, which always gives one.
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(KeyInputError, match="it is closed"):
        read_tokens("-")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.bin"
    file.write_bytes(b"\xff\xfe1,2")
    assert "cannot read tokens" in refused("hash", "--tokens", f"@{file}")


# --------------------------------------------------------------------------------------------------------------------------------
# format, parse

DIGEST = HASHES[1]


def test_format_makes_every_form() -> None:
    block = BlockKey(SPACE, Span.of(16, 16), DIGEST)
    base = ["format", "--hash", DIGEST.hex(), *DEPLOYMENT]
    assert lines(*base) == [format_strict(block)]
    assert lines(*base, "--form", "compat") == [format_compat(compat_key(block))]
    assert lines(*base, "--form", "lineage", "--parent", "root") == [format_lineage(block, ROOT)]
    assert lines(*base, "--form", "lineage", "--parent", HASHES[0].hex()) == [format_lineage(block, HASHES[0])]
    assert document(*base) == {"form": "strict", "key": format_strict(block)}


def test_format_takes_every_field() -> None:
    compatibility = Compatibility("org/m", "fp8", "LBNHC", HashScheme(block_size=4), Split(4, 2, 2, 3), "v1", "awq")
    space = key_space(compatibility, namespace="n@1", rank=Rank(1, 0, 1, 2), group_id=5)
    made = lines(
        "format", "--hash", "ab" * 32, "--model", "org/m", "--kv-dtype", "fp8", "--layout", "LBNHC", "--revision", "v1",
        "--quantization", "awq", "--block-size", "4", "--chunk-size", "16", "--tail-tokens", "8", "--namespace", "n@1",
        "--tp-size", "4", "--pcp-size", "2", "--dcp-size", "2", "--pp-size", "3", "--tp-rank", "1", "--dcp-rank", "1",
        "--pp-rank", "2", "--group", "5",
    )  # fmt: skip
    assert made == [format_strict(BlockKey(space, Span.of(16, 4, 8), b"\xab" * 32))]


def test_format_asks_for_a_root_seed_only_where_it_enters_the_key() -> None:
    xxhash = ["format", "--hash", "ab", "--model", "m", "--algorithm", "xxhash"]
    assert lines(*xxhash, "--form", "compat") == ["m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab"]
    assert "@b16@ab" in lines(*xxhash, "--fingerprint", "0" * 32)[0]


def test_format_takes_a_fingerprint_for_what_it_is_made_from() -> None:
    stamp = SPACE.fingerprint
    assert lines("format", "--hash", DIGEST.hex(), "--model", "org/m", "--fingerprint", stamp) == lines(
        "format", "--hash", DIGEST.hex(), *DEPLOYMENT
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--hash", "xyz", *DEPLOYMENT], "not a hash"),
        (["--hash", "AB", *DEPLOYMENT], "not a hash"),
        (["--hash", "ab", "--form", "lineage", *DEPLOYMENT], "--parent"),
        (["--hash", "ab", "--form", "lineage", "--parent", "up", *DEPLOYMENT], "--parent 'up'"),
        (["--hash", "ab", "--form", "lineage", "--parent", "abcd", *DEPLOYMENT], "parent hash"),
        (["--hash", "ab", "--tail-tokens", "20", *DEPLOYMENT], "multiple of the hash unit"),
        (["--hash", "ab", "--tail-tokens", "32", *DEPLOYMENT], "tail of 32"),
        (["--hash", "ab", "--chunk-size", "0", *DEPLOYMENT], "block size is 0"),
        (["--hash", "ab", "--chunk-size", "24", *DEPLOYMENT], "multiple of the hash unit"),
        (["--hash", "ab", "--chunk-size", "64", "--tail-tokens", "5", *DEPLOYMENT], "multiple of the hash unit"),
        (["--hash", "ab", "--parent", "root", *DEPLOYMENT], "lineage form only, not in strict"),
        (["--hash", "ab", "--form", "lineage", "--parent", "root", "--store-namespace", "@x", *DEPLOYMENT], "compat form only"),
        (["--hash", "ab", "--random-root", *DEPLOYMENT], "--random-root"),
        (["--hash", "ab", "--algorithm", "xxhash", *DEPLOYMENT], "RANDOM_ROOT"),
        (["--hash", "ab", "--model", "m", "--fingerprint", "12"], "fingerprint"),
        (["--hash", "ab"], "--model"),
        ([], "--hash"),
    ],
)
def test_bad_input_to_format_is_refused_with_a_sentence(arguments: list[str], sentence: str) -> None:
    assert sentence in refused("format", *arguments)


def test_parse_reads_the_fields_of_strict_and_lineage_keys() -> None:
    block = BlockKey(SPACE, Span.of(16, 16), DIGEST)
    strict = document("parse", format_strict(block))
    assert (strict["form"], strict["model"], strict["hash"]) == ("strict", "org/m", DIGEST.hex())
    assert strict["span"] == {"kind": "block", "block_size": 16, "tokens": 16}
    lineage = document("parse", format_lineage(block, HASHES[0]))
    assert lineage == {**strict, "form": "lineage", "parent": HASHES[0].hex()}
    assert document("parse", format_lineage(block, ROOT))["parent"] == "root"


def test_parse_gives_every_reading_of_a_compat_key() -> None:
    text = "p@m@tp_rank:1@pcp0@dcp0@pp_rank:2@group:3@ab"
    readings = document("parse", text)["readings"]
    assert [(r["cache_prefix"], r["model_name"]) for r in readings] == [("p", "m"), ("", "p@m")]
    assert {(r["tp_rank"], r["pp_rank"], r["group_id"], r["chunk_hash"]) for r in readings} == {(1, 2, 3, "ab")}


@pytest.mark.parametrize("name", ["parse", "explain"])
@pytest.mark.parametrize(
    "text",
    ["", "foo", "kvp1@x", "m@tp_rank:0", "\x1b[31m", "a\ud800b", "a\ud800@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab"],
)
def test_what_is_no_key_is_refused(name: str, text: str) -> None:
    assert "not a valid object key" in refused(name, text)


# --------------------------------------------------------------------------------------------------------------------------------
# explain


def test_explain_says_what_a_compat_key_cannot_tell() -> None:
    told = document("explain", f"m@tp_rank:1@pcp0@dcp0@pp_rank:0@group:2@{DIGEST.hex()}")
    assert (told["form"], told["ambiguous"]) == ("compat", False)
    assert told["recoverable"]["model_name"] == "m"
    assert told["recoverable"]["tp_rank"] == 1
    assert told["recoverable"]["hash"]["hex"] == DIGEST.hex()
    assert told["recoverable"]["hash"]["event_hash"] == event_hash(DIGEST)
    lost = " ".join(told["not_recoverable"])
    for word in ("parent", "position", "token ids", "block size", "organisation", "KV dtype", "root seed", "TP"):
        assert word in lost


def test_explain_shows_other_readings_of_an_ambiguous_key() -> None:
    told = document("explain", "a@b@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab")
    assert told["ambiguous"]
    assert [(r["cache_prefix"], r["model_name"], r["a_name_holds_an_at"]) for r in told["readings"]] == [
        ("a", "b", False),
        ("", "a@b", True),
    ]
    assert "model_name" not in told["recoverable"]


def test_explain_finds_the_parent_in_a_lineage_key_and_not_in_a_strict_one() -> None:
    first, second = chain_keys(SPACE, HASHES, hash_unit=16)
    told = document("explain", format_key(second))
    assert told["recoverable"]["parent"] == format_strict(first.block)
    assert told["recoverable"]["identity"] == format_strict(second.block)
    assert not any("the parent" in line for line in told["not_recoverable"])
    assert document("explain", format_key(first))["recoverable"]["parent"] == "root"
    strict = document("explain", format_strict(second.block))
    assert "parent" not in strict["recoverable"]
    assert any("the parent" in line for line in strict["not_recoverable"])


def test_human_text_says_the_same_and_lets_no_control_character_through() -> None:
    text = "\n".join(lines("explain", "e\x1b[31m\x07@m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "ambiguous: true" in text
    assert "not_recoverable:" in text
    assert 'model_name: "m"' in text


def test_collisions_are_listed() -> None:
    assert len(lines("collisions")) == len(document("collisions")) == len(collision_vectors())
