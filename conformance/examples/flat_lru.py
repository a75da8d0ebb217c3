"""An adapter for a store of one's own: here a flat LRU cache, in 40 lines. ``kvprefix check flat_lru:make`` tests it."""

from __future__ import annotations

from collections import OrderedDict

from kvprefix_conformance.adapter import UNKNOWN, Answer, Capabilities, Geometry, Parent, PutOptions, PutResult, VictimPolicy


class FlatLru:
    """Evicts the least recently used object, whatever hangs below it."""

    capabilities = Capabilities(name="flat-lru", version="1.0", policy=VictimPolicy.LRU, touch_calls=frozenset({"get"}))

    def start(self, capacity: int) -> Geometry:
        self.capacity = capacity
        self.objects: OrderedDict[str, bytes] = OrderedDict()
        return Geometry(capacity_bytes=capacity)

    def client(self, index: int = 0, tenant: str = "") -> FlatLru:
        return self

    def reset(self) -> None:
        self.objects.clear()

    def close(self) -> None:
        pass

    def put(self, key: str, value: bytes, *, parent: Parent = UNKNOWN, options: PutOptions = PutOptions()) -> PutResult:
        if options != PutOptions():  # pins, leases, ...: what is not declared is refused
            return PutResult(Answer.UNSUPPORTED, evicted=())
        if not key or not value:
            return PutResult(Answer.INVALID, evicted=())
        if key in self.objects:
            return PutResult(Answer.EXISTS, evicted=())
        if len(value) > self.capacity:
            return PutResult(Answer.TOO_LARGE, evicted=())
        evicted = []
        while sum(map(len, self.objects.values())) + len(value) > self.capacity:
            evicted.append(self.objects.popitem(last=False)[0])
        self.objects[key] = value
        return PutResult(Answer.STORED, evicted=tuple(evicted))

    def get(self, key: str) -> bytes | None:
        if key in self.objects:
            self.objects.move_to_end(key)
        return self.objects.get(key)

    def exists(self, key: str) -> bool:
        return key in self.objects


make = FlatLru
