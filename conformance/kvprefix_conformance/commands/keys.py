"""``kvprefix keys``: hash prompts, format, parse and explain object keys, from the shell (KEY-1 to KEY-10).

Human text by default, one JSON document with --json. Bad input: one message on stderr, exit code 2, nothing on stdout.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from kvprefix.api import ROOT, CacheGroup, Root
from kvprefix.errors import KeyInputError, KvprefixError
from kvprefix.keys import (
    RANDOM_ROOT,
    Algorithm,
    BlockKey,
    Chunk,
    Compatibility,
    Extras,
    HashScheme,
    KeySpace,
    LineageKey,
    Lora,
    MediaItem,
    Rank,
    Sharing,
    Span,
    Split,
    chunks,
    coarse_hashes,
    collision_json,
    collision_vectors,
    compat_key,
    event_hash,
    explain_key,
    fingerprint,
    format_compat,
    format_key,
    format_strict,
    hash_chain,
    parse_key,
)

Command = TypeVar("Command", bound=Callable[..., Any])

OBJECT_FORMS = ("compat", "strict", "lineage")


@click.group("keys", help="Hash prompts; format, parse and explain object keys.")
def command() -> None:
    """The group; its subcommands are below."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Bad input is bad usage: the error's own sentence, exit code 2."""
    try:
        yield
    except KvprefixError as error:
        raise click.UsageError(str(error)) from None


# --------------------------------------------------------------------------------------------------------------------------------
# Options that several commands share

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")

_DEPLOYMENT = (
    click.option("--model", help="Full name or path of the model."),
    click.option("--namespace", default="", help="Keeps deployments apart that share a store (vLLM: cache_prefix)."),
    click.option("--store-namespace", default="", help="compat: namespace of a shared layout, beginning with '@'."),
    click.option("--kv-dtype", help="strict, lineage: dtype of the stored KV."),
    click.option("--layout", help="strict, lineage: layout of an object, such as LBHNC."),
    click.option("--revision", default="", help="strict, lineage: commit or tag of the weights."),
    click.option("--quantization", default="", help="strict, lineage: of the weights."),
    click.option("--tp-size", type=int, default=1, show_default=True),
    click.option("--pcp-size", type=int, default=1, show_default=True),
    click.option("--dcp-size", type=int, default=1, show_default=True),
    click.option("--pp-size", type=int, default=1, show_default=True),
    click.option("--tp-rank", type=int, default=0, show_default=True, help="As keys name it: shared by ranks with the same bytes."),
    click.option("--pcp-rank", type=int, default=0, show_default=True),
    click.option("--dcp-rank", type=int, default=0, show_default=True),
    click.option("--pp-rank", type=int, default=0, show_default=True),
    click.option("--group", "group_id", type=int, default=0, show_default=True, help="Number of the cache group."),
    click.option(
        "--group-kind",
        type=click.Choice([group.value for group in CacheGroup]),
        default="full",
        show_default=True,
        help="Attention kind of the cache group.",
    ),
)

_SCHEME = (
    click.option("--block-size", type=int, default=16, show_default=True, help="Tokens per hash."),
    click.option(
        "--algorithm", type=click.Choice([a.value for a in Algorithm]), default="sha256", show_default=True, help="Hash recipe."
    ),
    click.option("--hash-seed", help="Value of PYTHONHASHSEED in the engine, taken literally; not given: unset."),
    click.option("--lookahead", type=int, default=0, show_default=True, help="Tokens after a block that its hash covers."),
    click.option(
        "--sharing",
        type=click.Choice([sharing.value for sharing in Sharing]),
        default="distinct",
        show_default=True,
        help="Whether equal strings are one object (pickle recipes).",
    ),
)


#: Only where the seed drawn is shown: a fingerprint made from it could never be made again.
_RANDOM_ROOT = (click.option("--random-root", is_flag=True, help="Draw a root seed that nobody else has."),)


def with_options(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """All these options on one command, in the order listed."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def scheme_from(options: dict[str, Any]) -> HashScheme:
    """The hash scheme that the options describe."""
    random_root = options.get("random_root", False)
    if random_root and options["hash_seed"] is not None:
        raise KeyInputError("--hash-seed and --random-root exclude each other.")
    seed = RANDOM_ROOT if random_root else options["hash_seed"]
    return HashScheme(options["algorithm"], options["block_size"], seed, options["lookahead"], Sharing(options["sharing"]))


def _needed(options: dict[str, Any], form: str, *names: str) -> None:
    missing = [f"--{name.replace('_', '-')}" for name in names if not options[name]]
    if missing:
        raise KeyInputError(f"the {form} form needs {', '.join(missing)}.")


def _only_in(options: dict[str, Any], form: str, name: str) -> None:
    """An option that would silently be left out of the key is refused."""
    if options[name] and options["form"] != form:
        raise KeyInputError(f"--{name.replace('_', '-')} has a place in the {form} form only, not in {options['form']}.")


def space_from(options: dict[str, Any], scheme: HashScheme | None = None) -> KeySpace:
    """The key space that the options describe; for compat, which says nothing of it, with a fingerprint of nothing.

    ``scheme``: the one in use, where there is one already. It is asked for only where a fingerprint is made from it.
    """
    form = options["form"]
    _needed(options, form, "model")
    stamp = options.get("fingerprint")
    if form == "compat":
        stamp = "0" * 32
    elif stamp is None:
        _needed(options, form, "kv_dtype", "layout")
        stamp = fingerprint(
            Compatibility(
                options["model"],
                options["kv_dtype"],
                options["layout"],
                scheme or scheme_from(options),
                Split(*(options[f"{name}_size"] for name in ("tp", "pcp", "dcp", "pp"))),
                options["revision"],
                options["quantization"],
            )
        )
    rank = Rank(*(options[f"{name}_rank"] for name in ("tp", "pcp", "dcp", "pp")))
    return KeySpace(options["model"], stamp, options["namespace"], rank, CacheGroup(options["group_kind"]), options["group_id"])


# --------------------------------------------------------------------------------------------------------------------------------
# keys hash


def read_tokens(text: str) -> list[int]:
    """Token ids from "1,2,3", "@file" or "-" (stdin): separated by commas or white space, or a JSON list."""
    if text == "-":
        # None where the shell closed it.
        if sys.stdin is None:
            raise KeyInputError("cannot read tokens from standard input: it is closed.")
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise KeyInputError(f"cannot read tokens from {text[1:]!r}: {getattr(error, 'strerror', None) or error}.") from None
    body = text.strip()
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1].strip()
    parts = re.split(r"\s*,\s*|\s+", body) if body else []
    for position, part in enumerate(parts):
        if not re.fullmatch(r"[0-9]{1,19}", part, re.ASCII):
            raise KeyInputError(f"token {position} is {part[:40]!r}; token ids are non-negative decimal integers.")
    return [int(part) for part in parts]


def lora_from(text: str | None) -> Lora | None:
    """NAME:PATH, cut at the first colon."""
    if text is None:
        return None
    name, colon, path = text.partition(":")
    if not colon:
        raise KeyInputError(f"--lora {text!r} is not NAME:PATH.")
    return Lora(name, path)


def media_from(text: str) -> MediaItem:
    """ID:OFFSET:LENGTH, cut from the right, so that the identifier may hold colons."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not all(re.fullmatch(r"[0-9]{1,18}", number, re.ASCII) for number in parts[1:]):
        raise KeyInputError(f"--mm {text!r} is not ID:OFFSET:LENGTH.")
    return MediaItem(parts[0], int(parts[1]), int(parts[2]))


@attrs.frozen
class HashedBlock:
    """One stored block of the prompt, and its name in the form asked for."""

    chunk: Chunk
    span: Span
    parent: bytes | None
    name: str | int

    def to_json(self, number: int) -> dict[str, Any]:
        """As printed with --json."""
        return {
            "block": number,
            "tokens": [self.chunk.start, self.chunk.end],
            "span": self.span.text,
            "hash": self.chunk.hash.hex(),
            "parent": None if self.parent is None else self.parent.hex(),
            "name": self.name,
        }


def name_of(options: dict[str, Any], space: KeySpace | None, span: Span, digest: bytes, parent: bytes | Root) -> str | int:
    """A block's name in the form asked for."""
    form = options["form"]
    if space is None:
        return digest.hex() if form == "hash" else event_hash(digest)  # type: ignore[return-value]
    key = BlockKey(space, span, digest)
    if form == "compat":
        return format_compat(compat_key(key, options["store_namespace"]))
    return format_strict(key) if form == "strict" else format_key(LineageKey(key, parent))


def hashed_blocks(options: dict[str, Any], scheme: HashScheme, tokens: list[int]) -> list[HashedBlock]:
    """The stored blocks of the prompt, named."""
    extras = Extras(lora_from(options["lora"]), tuple(map(media_from, options["mm"])), options["salt"])
    _only_in(options, "compat", "store_namespace")
    unit, size = scheme.block_size, scheme.block_size if options["chunk_size"] is None else options["chunk_size"]
    space = space_from(options, scheme) if options["form"] in OBJECT_FORMS else None
    hashes = hash_chain(scheme, tokens, extras)
    covered = len(hashes) * unit if options["tail"] else len(coarse_hashes(hashes, unit, size)) * size
    made: list[HashedBlock] = []
    parent: bytes | Root = ROOT
    for chunk in chunks(covered, hashes, block_size=size, hash_unit=unit):
        span = Span.of(size, unit, chunk.end - chunk.start)
        name = name_of(options, space, span, chunk.hash, parent)
        made.append(HashedBlock(chunk, span, None if isinstance(parent, Root) else parent, name))
        parent = chunk.hash
    return made


@command.command("hash")
@click.option("--tokens", required=True, help="1,2,3 or @FILE or - for stdin; a JSON list is fine.")
@with_options(_SCHEME)
@with_options(_RANDOM_ROOT)
@click.option("--lora", metavar="NAME:PATH", help="LoRA adapter.")
@click.option("--mm", metavar="ID:OFFSET:LENGTH", multiple=True, help="Multimodal item; may be repeated.")
@click.option("--salt", help="Cache salt.")
@click.option("--chunk-size", type=int, help="Tokens per stored block, a multiple of --block-size; not given: equal to it.")
@click.option("--tail", is_flag=True, help="Name the last, partial chunk, too.")
@click.option("--form", type=click.Choice(["hash", "event", *OBJECT_FORMS]), default="hash", show_default=True)
@with_options(_DEPLOYMENT)
@json_option
def hash_command(as_json: bool, **options: Any) -> None:
    """Hash a prompt: one line for each full block, root first."""
    with usage_errors():
        scheme = scheme_from(options)
        tokens = read_tokens(options["tokens"])
        blocks = hashed_blocks(options, scheme, tokens)
    left = len(tokens) - (blocks[-1].chunk.end if blocks else 0)
    if as_json:
        document: dict[str, Any] = {
            "algorithm": scheme.algorithm.value,
            "block_size": scheme.block_size,
            "root": scheme.root.hex(),
            "blocks": [block.to_json(number) for number, block in enumerate(blocks)],
            "unnamed_tokens": left,
        }
        if options["random_root"]:
            document["hash_seed"] = scheme.hash_seed
        click.echo(json.dumps(document, indent=2))
        return
    for number, block in enumerate(blocks):
        click.echo(f"{number}\t{block.chunk.start}-{block.chunk.end - 1}\t{block.name}")
    if options["random_root"]:
        click.echo(f"root seed drawn: {scheme.hash_seed} (give it as --hash-seed to repeat this)", err=True)
    if left:
        click.echo(f"the last {left} of {len(tokens)} tokens fill no block and have no name", err=True)


# --------------------------------------------------------------------------------------------------------------------------------
# keys format, parse, explain, collisions


def _hex(text: str, what: str) -> bytes:
    if not re.fullmatch(r"(?:[0-9a-f]{2}){1,64}", text):
        raise KeyInputError(f"{what} {text!r} is not a hash in lower-case hexadecimal.")
    return bytes.fromhex(text)


def formatted(options: dict[str, Any]) -> str:
    """The object key that the options describe."""
    form, unit = options["form"], options["block_size"]
    _only_in(options, "compat", "store_namespace")
    _only_in(options, "lineage", "parent")
    space = space_from(options)
    span = Span.of(unit if options["chunk_size"] is None else options["chunk_size"], unit, options["tail_tokens"])
    digest, above = _hex(options["hash"], "--hash"), options["parent"]
    if form == "lineage" and above is None:
        raise KeyInputError("the lineage form needs --parent: a hash, or 'root'.")
    parent = ROOT if above in (None, "root") else _hex(above, "--parent")
    return str(name_of(options, space, span, digest, parent))


@command.command("format")
@click.option("--form", type=click.Choice(OBJECT_FORMS), default="strict", show_default=True)
@click.option("--hash", required=True, help="Block hash, lower-case hexadecimal.")
@click.option("--parent", help="lineage: the parent's hash, or 'root'.")
@click.option("--fingerprint", help="strict, lineage: instead of the options that it is made from.")
@click.option("--chunk-size", type=int, help="Tokens per stored block; not given: --block-size.")
@click.option("--tail-tokens", type=int, help="Tokens of a partial tail.")
@with_options(_SCHEME)
@with_options(_DEPLOYMENT)
@json_option
def format_command(as_json: bool, **options: Any) -> None:
    """Format one object key."""
    with usage_errors():
        text = formatted(options)
    click.echo(json.dumps({"form": options["form"], "key": text}) if as_json else text)


@command.command("parse")
@click.argument("string")
@json_option
def parse_command(string: str, as_json: bool) -> None:
    """Read the fields of an object key of any form."""
    with usage_errors():
        document = parse_key(string)
    click.echo(json.dumps(document, indent=2) if as_json else document_text(document))


@command.command("explain")
@click.argument("string")
@json_option
def explain_command(string: str, as_json: bool) -> None:
    """Say what an object key tells, what it does not, and what else it could be."""
    with usage_errors():
        document = explain_key(string)
    click.echo(json.dumps(document, indent=2) if as_json else document_text(document))


@command.command("collisions")
@json_option
def collisions_command(as_json: bool) -> None:
    """List the known collisions of the compat form: different objects, one string (KEY-4)."""
    known = collision_vectors()
    if as_json:
        click.echo(json.dumps([collision_json(collision) for collision in known], indent=2))
        return
    for collision in known:
        click.echo(f"{collision.id}: {collision.because}")


def document_text(document: Any, indent: str = "") -> str:
    """A JSON document as indented text; names are quoted, so that control characters in a key never reach the terminal."""
    lines = []
    for name, value in document.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", document_text(value, indent + "  ")]
        elif isinstance(value, list):
            lines.append(f"{indent}{name}:{'' if value else ' none'}")
            for item in value:
                body = document_text(item, indent + "    ").lstrip() if isinstance(item, dict) else str(item)
                lines.append(f"{indent}  - {body}")
        else:
            lines.append(f"{indent}{name}: {json.dumps(value)}")
    return "\n".join(lines)
