"""Synthetic request traces: conversations that share system prompts, grow turn by turn, and fork.

The same workload gives the same bytes on every machine and every Python: only ``random.Random.random()`` is drawn from, which
Python keeps stable for a seed, and only additions, multiplications and comparisons follow it. Only open sessions are in memory.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator
from typing import Any, Final

import attrs

from kvprefix.errors import ConfigurationError
from kvprefix.replay.trace import BLOCK_TOKENS, Request


@attrs.frozen
class Spread:
    """A distribution with a long tail, told by four of its quantiles; uniform between any two of them."""

    least: int
    median: int
    #: Nine of ten draws are at most this.
    p90: int
    most: int

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.least <= self.median <= self.p90 <= self.most:
            raise ConfigurationError(f"a spread of {self}", "Give least, median, p90 and most, rising, none negative.")

    def __str__(self) -> str:
        return f"{self.least},{self.median},{self.p90},{self.most}"

    @staticmethod
    def parse(text: str) -> Spread:
        """From ``least,median,p90,most``, or one number for a constant."""
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) not in (1, 4):
            raise ConfigurationError(f"{text!r} is no spread.", "Give least,median,p90,most as whole numbers, or one number.")
        return Spread(*(numbers * 4 if len(numbers) == 1 else numbers))

    def draw(self, rng: random.Random) -> int:
        """One number."""
        at = rng.random()
        if at < 0.5:
            low, high, share = self.least, self.median, at * 2.0
        elif at < 0.9:
            low, high, share = self.median, self.p90, (at - 0.5) * 2.5
        else:
            low, high, share = self.p90, self.most, (at - 0.9) * 10.0
        return low + int((high - low) * share)


def _knob(default: Any, doc: str) -> Any:
    """One field of Workload with its meaning, which the command line shows too."""
    return attrs.field(default=default, metadata={"doc": doc}, kw_only=True)


@attrs.frozen
class Workload:
    """What a synthetic trace looks like."""

    seed: int = _knob(1, "Draws another trace of the same kind.")
    sessions: int = _knob(64, "Conversations; each begins with a system prompt.")
    turns: Spread = _knob(Spread(1, 3, 9, 16), "Requests of a conversation.")
    branching: float = _knob(0.1, "Share of turns that go back to an earlier point of their conversation and fork there.")
    system_prompts: int = _knob(5, "Different system prompts; the first are the most frequent.")
    system_tokens: Spread = _knob(Spread(300, 1500, 4000, 6000), "Tokens of a system prompt.")
    prompt_tokens: Spread = _knob(Spread(20, 700, 4000, 16000), "Tokens that a turn adds to the prompt.")
    output_tokens: Spread = _knob(
        Spread(1, 300, 900, 2000), "Tokens that are generated; they become part of the next turn's prompt."
    )
    arrival_ms: Spread = _knob(Spread(0, 3000, 9000, 30000), "Milliseconds from the start of one conversation to that of the next.")
    think_ms: Spread = _knob(Spread(500, 15000, 60000, 300000), "Milliseconds between the turns of a conversation.")
    max_tokens: int = _knob(131072, "A conversation ends before its prompt would be longer than this.")

    def __attrs_post_init__(self) -> None:
        for name in ("sessions", "system_prompts", "max_tokens"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}", "Give at least 1.")
        if not 0.0 <= self.branching <= 1.0:
            raise ConfigurationError(f"branching is {self.branching}", "It is a share, from 0 to 1.")
        if self.turns.least < 1:
            raise ConfigurationError("a conversation of 0 turns", "Let turns begin at 1 or more.")
        if self.prompt_tokens.least < 1:
            raise ConfigurationError("a turn that adds 0 tokens", "Let prompt_tokens begin at 1 or more.")


#: The workload of the trace that ships as ``small``.
SMALL: Final = Workload()


@attrs.define
class _Context:
    """Tokens that are settled, and the ids of the blocks that they fill: made when first asked for, so that forks share them."""

    tokens: int
    blocks: list[int]

    def full_blocks(self, ids: Iterator[int]) -> list[int]:
        self.blocks.extend(itertools.islice(ids, self.tokens // BLOCK_TOKENS - len(self.blocks)))
        return self.blocks


@attrs.define
class _Session:
    turns_left: int
    #: Where a turn may continue: the system prompt alone, then after each turn.
    contexts: list[_Context]


def generate(workload: Workload = SMALL) -> Iterator[Request]:
    """The requests of this workload, in the order of their timestamps."""
    rng = random.Random(workload.seed)
    ids = itertools.count()
    prompts = [_Context(workload.system_tokens.draw(rng), []) for _ in range(workload.system_prompts)]
    order = itertools.count()
    due: list[tuple[int, int, _Session]] = []
    arrival = 0
    for _ in range(workload.sessions):
        while due and due[0][0] <= arrival:
            yield from _turn(workload, rng, ids, due, order)
        # a product of two uniform numbers: of five prompts the first gets half of the sessions
        system = prompts[int(rng.random() * rng.random() * len(prompts))]
        heapq.heappush(due, (arrival, next(order), _Session(workload.turns.draw(rng), [system])))
        arrival += workload.arrival_ms.draw(rng)
    while due:
        yield from _turn(workload, rng, ids, due, order)


def _turn(
    workload: Workload, rng: random.Random, ids: Iterator[int], due: list[tuple[int, int, _Session]], order: Iterator[int]
) -> Iterator[Request]:
    """The turn that is due first, and the next one of its session into the queue."""
    now, _order, session = heapq.heappop(due)
    start = session.contexts[-1]
    if len(session.contexts) > 1 and rng.random() < workload.branching:
        start = session.contexts[int(rng.random() * (len(session.contexts) - 1))]
    tokens = start.tokens + workload.prompt_tokens.draw(rng)
    if tokens > workload.max_tokens:
        return
    context = _Context(tokens, list(start.full_blocks(ids)))
    blocks = list(context.full_blocks(ids))
    if tokens % BLOCK_TOKENS:
        blocks.append(next(ids))  # the partial tail: its block will hold other tokens once it is full
    output = workload.output_tokens.draw(rng)
    context.tokens += output
    session.contexts.append(context)
    session.turns_left -= 1
    if session.turns_left:
        heapq.heappush(due, (now + workload.think_ms.draw(rng), next(order), session))
    yield Request(now, tokens, output, tuple(blocks))
