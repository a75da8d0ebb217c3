"""The driver: each request of a trace looks up its chain, reads what hits, and stores what is missing, as an engine would.

Every answer passes the audit (:mod:`kvprefix.replay.audit`), which names the requirements; the first breach ends the replay, and
what ran is kept.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar, cast

import attrs

from kvprefix.api import ROOT, UNKNOWN, Answer, Backend, Capabilities, Clock, FullClient, HookedBackend, Parent, Transport, offers
from kvprefix.errors import ConfigurationError, KvprefixError, TraceError
from kvprefix.replay.audit import Audit, Breach
from kvprefix.replay.blocks import naming_for, value_of
from kvprefix.replay.outcome import Outcome, Step, Stop, StopKind
from kvprefix.replay.residents import leading
from kvprefix.replay.trace import Request

DEFAULT_BLOCK_BYTES: Final = 64
_TAKEN: Final = (Answer.STORED, Answer.EXISTS)
_Item = TypeVar("_Item")


class Order(enum.Enum):
    """Which end of a path comes first."""

    LEAF_FIRST = "leaf-first"
    ROOT_FIRST = "root-first"

    def of(self, path: Sequence[_Item]) -> Sequence[_Item]:
        """A path that is given root first, in this order."""
        return path if self is Order.ROOT_FIRST else path[::-1]


class Lookup(enum.Enum):
    """How the longest resident prefix is found."""

    #: The first of the others that the store offers.
    AUTO = "auto"
    #: match(chain).
    MATCH = "match"
    #: exists_many over the whole chain, also behind the first miss, as vLLM's connector does.
    BATCH = "batch"
    #: exists block by block from the root, up to the first miss.
    SINGLE = "single"


_LOOKUP_CALL: Final = {Lookup.MATCH: "match", Lookup.BATCH: "exists_many", Lookup.SINGLE: "exists"}


@attrs.frozen
class Options:
    """How a trace is replayed."""

    #: Capacity to ask for, in blocks; what the backend really obtained is in the outcome.
    capacity_blocks: int
    #: Size of every block's value.
    block_bytes: int = DEFAULT_BLOCK_BYTES
    #: Which end of a request's path is used first. ROOT_FIRST reads and then stores, as engines do. LEAF_FIRST reads, and after
    #: storing touches, the whole path from the leaf to the root: every ancestor is then more recent than its descendants, which is
    #: what a client can do for a store that knows no parents.
    order: Order = Order.ROOT_FIRST
    #: Which end of the missing suffix is stored first. A store that admits no child without its parent needs ROOT_FIRST.
    store_order: Order = Order.ROOT_FIRST
    lookup: Lookup = Lookup.AUTO
    #: Requests from one sample to the next.
    sample_every: int = 100
    #: Beginning of every key.
    namespace: str = "replay"

    def __attrs_post_init__(self) -> None:
        for name in ("capacity_blocks", "block_bytes", "sample_every"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}", "Give at least 1.")


def replay(
    requests: Iterable[Request],
    backend: Backend,
    options: Options,
    observe: Callable[[Step], None] | None = None,
) -> Outcome:
    """Send the requests, one after the other, through a backend that is not started yet; the caller closes it.

    What ran is always in the outcome: a breach, a backend that fails, a bad line and Ctrl-C end the replay early and stand in
    ``stop``. Only what prevents the start raises (ConfigurationError, AdapterError, MissingDependencyError).
    """
    run = Replay(backend, options)
    kind, message, requirement = None, "", ""
    try:
        for request in requests:
            step = run.step(request)
            if observe is not None:
                observe(step)
        run.finish()
    except Breach as breach:
        kind, message, requirement = StopKind.BREACH, breach.message, breach.requirement
    except TraceError as bad:
        kind, message = StopKind.TRACE, str(bad)
    except KvprefixError as failure:
        kind, message = StopKind.BACKEND, str(failure)
    except KeyboardInterrupt:
        kind = StopKind.INTERRUPTED
    outcome = run.outcome()
    return outcome if kind is None else attrs.evolve(outcome, stop=Stop(kind, outcome.counters.requests, message, requirement))


class Replay:
    """One replay in progress: :meth:`step` for each request, :meth:`finish` at the end, :meth:`outcome` at any time."""

    def __init__(self, backend: Backend, options: Options) -> None:
        capabilities = backend.capabilities
        geometry = backend.start(options.capacity_blocks * options.block_bytes)
        # optional calls and hooks are only made where offers() says that they are there
        self._client = cast("FullClient", backend.client())
        self._hooks = cast("HookedBackend", backend)
        self._options = options
        self._capabilities = capabilities
        self._geometry = geometry
        self._audit = Audit(backend, self._client, geometry, options.block_bytes)
        self._counters = self._audit.counters
        self._name = naming_for(capabilities, options.namespace)
        self._lookup = _lookup_of(self._client, options.lookup)
        self._touch_call = _touch_call_of(capabilities, options.order)
        self._driven = capabilities.clock is Clock.DRIVEN and offers(backend, "advance")
        self._time: int | None = None

    def step(self, request: Request) -> Step:
        """Replay one request."""
        counters = self._counters
        self._let_time_pass(request.timestamp)
        chain = self._name(request.hash_ids)
        counters.requests += 1
        counters.accesses += len(chain)
        matched, resident = self._look_up(chain)
        if resident is not None:
            counters.key_hits = (counters.key_hits or 0) + resident
        hits = self._read(chain[:matched])
        counters.hits += hits
        saved = self._save(chain, hits)
        self._touch([*chain[:hits], *saved], changed=bool(saved))
        self._audit.request_done()
        if counters.requests % self._options.sample_every == 0:
            self._audit.sample(request.timestamp)
        return Step(counters.requests, len(chain), hits, resident, self._audit.orphans)

    def finish(self) -> None:
        """The last looks at the store."""
        self._audit.finish(self._time or 0)

    def outcome(self) -> Outcome:
        """What was found so far."""
        options, capabilities = self._options, self._capabilities
        return Outcome(
            backend=capabilities.name,
            backend_version=capabilities.version,
            geometry=self._geometry,
            capacity_blocks=self._audit.capacity_blocks,
            block_bytes=options.block_bytes,
            settings={
                "lookup": self._lookup.value,
                "order": options.order.value,
                "store_order": options.store_order.value,
                "namespace": options.namespace,
            },
            evidence=self._audit.evidence,
            counters=self._counters,
            samples=tuple(self._audit.samples),
        )

    # -- the parts of a request -------------------------------------------------------------------------------------------------

    def _let_time_pass(self, timestamp: int) -> None:
        """A clock that we drive follows the trace; real time is not waited for."""
        if self._driven and self._time is not None and timestamp > self._time:
            self._hooks.advance(timestamp - self._time)
        self._time = timestamp

    def _look_up(self, chain: Sequence[str]) -> tuple[int, int | None]:
        """Length of the longest resident prefix; and the number of all resident blocks, where that is known."""
        known = self._audit.resident(chain)
        flags: Sequence[bool] | None = known
        if self._lookup is Lookup.MATCH:
            matched = self._client.match(chain)
        elif self._lookup is Lookup.BATCH:
            flags = self._client.exists_many(chain)
            if len(flags) != len(chain):
                raise Breach("STO-8", f"exists_many of {len(chain)} keys gives {len(flags)} answers")
            matched = leading(flags)
        else:
            matched = leading(self._client.exists(key) for key in chain)
        self._audit.matched(chain, matched, _LOOKUP_CALL[self._lookup], known)
        return matched, None if flags is None else sum(flags)

    def _read(self, prefix: Sequence[str]) -> int:
        """Read the matched blocks; how many were still there before the first that was not."""
        if not self._capabilities.values:
            return len(prefix)
        missed = {key for key in self._options.order.of(prefix) if not self._get(key)}
        self._counters.vanished += len(missed)
        return leading(key not in missed for key in prefix)

    def _get(self, key: str) -> bool:
        return self._audit.got(key, self._client.get(key))

    def _save(self, chain: Sequence[str], hits: int) -> list[str]:
        """Store what is behind the hits, up to the first put that is not taken; the blocks taken, root first."""
        missing = self._options.store_order.of(range(hits, len(chain)))
        for done, index in enumerate(missing):
            if self._put(chain[index], chain[index - 1] if index else None) not in _TAKEN:
                self._counters.not_tried += len(missing) - done - 1
                missing = missing[:done]
                break
        return [chain[index] for index in sorted(missing)]

    def _put(self, key: str, parent: str | None) -> Answer:
        """Put one block, its parent declared in the way in which this store is told (a flat one does not look at it)."""
        lineage = self._capabilities.lineage
        named: Parent = ROOT if parent is None else parent
        if lineage and Transport.ARGUMENT not in lineage:
            if Transport.EVENT in lineage and offers(self._client, "register"):
                self._client.register(key, named)
            named = UNKNOWN
        result = self._client.put(key, value_of(key, self._options.block_bytes), parent=named)
        self._audit.put(key, parent, result)
        return result.answer

    def _touch(self, path: Sequence[str], *, changed: bool) -> None:
        """Use the path once more from its leaf, where reading and storing did not leave it in that order."""
        if self._touch_call is None or not (changed or "get" not in self._capabilities.touch_calls):
            return
        for key in reversed(path):
            if self._touch_call == "get":
                self._get(key)
            else:
                self._client.exists(key)


# --------------------------------------------------------------------------------------------------------------------------------
# What this store offers


def _lookup_of(client: FullClient, wanted: Lookup) -> Lookup:
    if wanted is Lookup.AUTO:
        return next(lookup for lookup, call in _LOOKUP_CALL.items() if offers(client, call))
    if not offers(client, _LOOKUP_CALL[wanted]):
        raise ConfigurationError(f"lookup {wanted.value}: this store has no {_LOOKUP_CALL[wanted]}.", "Use auto or single.")
    return wanted


def _touch_call_of(capabilities: Capabilities, order: Order) -> str | None:
    """The cheapest call that makes a block recent; None where a path needs no touching after a save."""
    if order is Order.ROOT_FIRST or capabilities.lineage_recency:
        return None
    return next((call for call in ("exists", "get") if call in capabilities.touch_calls), None)
