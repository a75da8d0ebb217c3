"""Extra keys: what beside the tokens decides the KV bytes of a block, in vLLM's order and tagging (KEY-1, KEY-3, KEY-4, KEY-5).

Order inside one block: LoRA, multimodal items by offset, cache salt (block 0 only, and only if not empty), prompt embeddings. Each
is a tagged tuple, so that no value of one kind passes for a value of another.

The pickle recipes hash whether two equal strings of one block are one object. That is settled here and nowhere else: a tag is
always one object; for all other strings :class:`Sharing` says which of the two it is, and fresh copies are made so that it is so.
(CPython keeps a single object for the empty and for each one-character Latin-1 string: these are shared in either arm, in vLLM as
well.)
"""

from __future__ import annotations

import bisect
import enum
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import attrs

from kvprefix.errors import KeyInputError
from kvprefix.keys._checks import octets, plain_text, token_ids, whole

#: One object per tag, whatever values stand beside it (KEY-1).
LORA_TAG: Final = "lora"
MEDIA_TAG: Final = "mm"
SALT_TAG: Final = "cache_salt"
EMBEDS_TAG: Final = "prompt_embeds"

#: The tagged extra keys of one block, or None where there are none.
ExtraKeys: TypeAlias = tuple[Any, ...] | None


class Sharing(enum.Enum):
    """Which equal strings within one block are one object; seen by the pickle recipes only (KEY-1)."""

    #: Every value its own object. What a serving engine hashes: requests reach the process that hashes them through msgpack, which
    #: decodes each string anew. The default.
    DISTINCT = "distinct"
    #: All equal strings are one object, the tags included. What an engine run in the caller's own process hashes where the caller
    #: used one object (one name for a LoRA and its path, one identifier for an image that occurs twice).
    EQUAL = "equal"


def sharing_of(value: str | Sharing) -> Sharing:
    """The sharing of this name; KeyInputError for any other."""
    try:
        return Sharing(value)
    except ValueError:
        known = ", ".join(sharing.value for sharing in Sharing)
        raise KeyInputError(f"unknown sharing {value!r}.", f"Known: {known}.") from None


@attrs.frozen
class Lora:
    """A LoRA adapter. Its name and its path are hashed; its numeric id is not."""

    name: str
    path: str

    def __attrs_post_init__(self) -> None:
        plain_text(self.name, "the LoRA name")
        if not plain_text(self.path, "the LoRA path"):
            raise KeyInputError(f"the LoRA {self.name!r} has no path.", "vLLM refuses an empty path, too.")


@attrs.frozen
class MediaItem:
    """One image, audio clip or video: its identity, and the tokens that stand for it."""

    identifier: str
    #: First token, counted from the start of the prompt.
    offset: int
    #: Number of tokens, at least 1.
    length: int

    def __attrs_post_init__(self) -> None:
        plain_text(self.identifier, "the identifier of a multimodal item")
        whole(self.offset, f"the offset of multimodal item {self.identifier!r}")
        whole(self.length, f"the length of multimodal item {self.identifier!r}", least=1)

    @property
    def end(self) -> int:
        """One past the last token."""
        return self.offset + self.length


def _rows(value: object) -> bytes:
    return octets(value, "the prompt embeddings")


@attrs.frozen
class PromptEmbeds:
    """Prompt embeddings as raw bytes, one row per token; rows past the end are empty (generated tokens)."""

    data: bytes = attrs.field(converter=_rows, repr=False)
    #: Bytes per token.
    row_bytes: int

    def __attrs_post_init__(self) -> None:
        whole(self.row_bytes, "the row size of the prompt embeddings", least=1)
        if len(self.data) % self.row_bytes:
            raise KeyInputError(f"{len(self.data)} bytes of prompt embeddings are not whole rows of {self.row_bytes} bytes.")

    def digest(self, start: int, stop: int) -> bytes:
        """SHA-256 of the rows [start, stop)."""
        return hashlib.sha256(self.data[start * self.row_bytes : stop * self.row_bytes]).digest()


def _by_offset(items: Iterable[MediaItem]) -> tuple[MediaItem, ...]:
    return tuple(sorted(items, key=lambda item: item.offset))


def _salt(value: str | None) -> str:
    return "" if value is None else plain_text(value, "the cache salt")


@attrs.frozen
class Extras:
    """What of one request is hashed beside its tokens."""

    lora: Lora | None = None
    #: In any order; kept by offset. Two items that share a token are refused: vLLM's walk would leave the second one out of blocks.
    media: tuple[MediaItem, ...] = attrs.field(default=(), converter=_by_offset)
    #: Absent (None) and empty are the same (KEY-5).
    salt: str = attrs.field(default="", converter=_salt)
    prompt_embeds: PromptEmbeds | None = None

    def __attrs_post_init__(self) -> None:
        for before, after in zip(self.media, self.media[1:], strict=False):
            if after.offset < before.end:
                raise KeyInputError(
                    f"multimodal items {before.identifier!r} [{before.offset}, {before.end}) and {after.identifier!r} "
                    f"[{after.offset}, {after.end}) overlap.",
                    "Items stand for disjoint runs of tokens.",
                )

    @property
    def empty(self) -> bool:
        """Whether every block is a plain one."""
        return self == NO_EXTRAS


NO_EXTRAS: Final = Extras()


def _fresh(text: str) -> str:
    """An equal string that is another object (but for the strings of which CPython keeps a single one)."""
    return text.encode().decode()


class BlockExtras:
    """The extra keys of one request, block by block; makes the string objects once, in the sharing asked for (KEY-1).

    Objects may be the same from block to block: each block is serialised on its own.
    """

    def __init__(self, extras: Extras, sharing: Sharing = Sharing.DISTINCT) -> None:
        known = {tag: tag for tag in (LORA_TAG, MEDIA_TAG, SALT_TAG, EMBEDS_TAG)}
        sharing = sharing_of(sharing)

        def own(text: str) -> str:
            return _fresh(text) if sharing is Sharing.DISTINCT else known.setdefault(text, text)

        lora = extras.lora
        self._lora = None if lora is None else (LORA_TAG, own(lora.name), own(lora.path))
        self._media = [(own(item.identifier), item.offset) for item in extras.media]
        self._media_offsets = [item.offset for item in extras.media]
        self._media_ends = [item.end for item in extras.media]
        self._salt = (SALT_TAG, own(extras.salt)) if extras.salt else None
        self._embeds = extras.prompt_embeds

    def of(self, start: int, stop: int) -> ExtraKeys:
        """The tagged extra keys of the tokens [start, stop); offsets of multimodal items are relative to ``start``."""
        keys: list[tuple[Any, ...]] = []
        if self._lora is not None:
            keys.append(self._lora)
        if self._media and self._media_ends[-1] > start:
            first = bisect.bisect_right(self._media_ends, start)
            past = bisect.bisect_left(self._media_offsets, stop)
            keys.extend((MEDIA_TAG, identifier, offset - start) for identifier, offset in self._media[first:past])
        if start == 0 and self._salt is not None:
            keys.append(self._salt)
        if self._embeds is not None:
            keys.append((EMBEDS_TAG, self._embeds.digest(start, stop)))
        return tuple(keys) or None


def extra_keys(extras: Extras, start: int, stop: int, sharing: Sharing = Sharing.DISTINCT) -> ExtraKeys:
    """The tagged extra keys of one block, tokens [start, stop) (KEY-3)."""
    whole(start, "the first token of a block")
    whole(stop, "the end of a block", least=start + 1)
    return BlockExtras(extras, sharing).of(start, stop)


def event_extra_keys(keys: ExtraKeys) -> ExtraKeys:
    """The untagged form in which KV events publish a block's extra keys: LoRA name, (identifier, offset), salt, digest.

    It is ambiguous: a LoRA called X and a salt X differ by position only.
    """
    if keys is None:
        return None
    return tuple(key[1:] if key[0] == MEDIA_TAG else key[1] for key in keys)


def placeholder_tokens(token_ids_or_none: Sequence[int], is_token: Sequence[bool]) -> tuple[int, ...]:
    """Token ids of a prompt that mixes tokens and embeddings: 0 wherever an embedding stands, as vLLM hashes it (KEY-3)."""
    ids = token_ids(token_ids_or_none)
    if len(ids) != len(is_token):
        raise KeyInputError(f"{len(ids)} token ids, but {len(is_token)} marks of which are tokens.")
    return tuple(token if real else 0 for token, real in zip(ids, is_token, strict=True))
