"""The atomic batch put: all or nothing, decided before anything is evicted or seen (STO-8)."""

from __future__ import annotations

from collections.abc import Sequence

from kvprefix.api import UNKNOWN, Answer, Parent, PutItem
from kvprefix.store.admission import PRESENT
from kvprefix.store.core import Core
from kvprefix.store.node import Node


class Stage:
    """The members of one batch, placed as drafts that nobody sees, and what must not be evicted for them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.drafts: dict[str, Node] = {}
        self._kept: list[Node] = []
        self._registrations: dict[str, Parent] = {}

    def add(self, item: PutItem) -> Answer | None:
        """Place one more member; an answer if it is refused."""
        core = self._core
        draft = core.judge(item.key, len(item.value), item.parent, item.options)
        if draft is Answer.EXISTS or draft is Answer.DEFERRED:
            self._keep(core.objects[item.key])
            return None
        if isinstance(draft, Answer):
            return draft
        if core.capabilities.values:
            draft.value = bytes(item.value)
        registered = core.forest.registered.get(draft.name, UNKNOWN)
        if registered is not UNKNOWN:
            self._registrations[draft.name] = registered
        if draft.up is not None:
            core.forest.link(draft, draft.up)
        core.objects[draft.key] = draft
        core.forest.enter(draft)
        self.drafts[draft.key] = draft
        self._keep(draft)
        return None

    def _keep(self, node: Node) -> None:
        """Protect it and what is above it until the batch is decided."""
        at: Node | None = node
        while at is not None:
            self._core.protection.guard(at)
            self._kept.append(at)
            at = None if self._core.victims.leaves_only else at.up

    def let_go(self) -> None:
        """The batch is decided: what was kept for it is not protected any more."""
        for node in self._kept:
            self._core.protection.unguard(node)

    def take_back(self) -> None:
        """Leave no trace."""
        self.let_go()
        for draft in reversed(self.drafts.values()):
            self._core.forest.leave(draft)
            del self._core.objects[draft.key]
        self._core.forest.registered.update(self._registrations)


def put_all(core: Core, items: Sequence[PutItem]) -> tuple[list[Answer], tuple[str, ...]]:
    """One answer per item, and the keys that were evicted. Refused: each answers what the first refused one did."""
    stage = Stage(core)
    for item in items:
        refusal = stage.add(item)
        if refusal is not None:
            stage.take_back()
            return [refusal] * len(items), ()
    need = sum(draft.charge for draft in stage.drafts.values())
    if not core.room.fits(core, need, kept=need):
        stage.take_back()
        return [Answer.NO_SPACE] * len(items), ()
    evicted = core.room.make(core, need)
    core.used += need
    stage.let_go()
    answers = []
    for item in items:
        draft = stage.drafts.pop(item.key, None)
        answers.append(PRESENT[core.objects[item.key].state] if draft is None else core.finish(draft))
    return answers, evicted
