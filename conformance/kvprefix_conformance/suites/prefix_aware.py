"""Directed scenarios of the profiles prefix-aware and prefix-index: PFX-2, PFX-3, EVT-1, EVT-2. They only issue steps."""

from __future__ import annotations

import attrs

from kvprefix.api import PutOptions
from kvprefix_conformance.suites.world import Run


def out_of_order(run: Run) -> None:
    """Children before their parents, then the parents: refused, deferred or visible at once, as declared."""
    a, b, c = run.chain("abc")
    d = run.block("d", b)
    run.put(c)
    run.put(b)
    run.look([a, b, c])
    run.stats()
    run.put(a)
    run.look([a, b, c])
    run.put(b)
    run.put(c)
    run.put(d)
    run.look([a, b, c, d])
    run.match([a, b, c])
    run.stats()


def deferred(run: Run) -> None:
    """A deferred object: invisible, not leasable, counted, put again, dropped at its deadline."""
    a, b = run.chain("ab")
    run.put(b)
    run.put(b, 2)
    run.read([b])
    for call in ("lease", "pin"):
        if run.offers(call):
            args = {"ttl_ms": 50} if call == "lease" else {"as": run.label("p")}
            run.do(call, b, **args)
    run.stats()
    if not run.real_clock:
        run.wait(run.caps.defer_deadline_ms - 1)
        run.stats()
        run.wait(1)
    run.stats()
    run.put(a)
    run.look([a, b])
    run.put(b)
    run.look([a, b])
    run.drop(b, force=True)
    run.stats()


def deferred_goes_first(run: Run) -> None:
    """Under pressure a deferred object goes before any resident one."""
    a, b = run.chain("ab")
    run.put(b)
    run.press(run.sizes.units + 1)
    run.put_patiently(a)
    run.look([a, b])
    run.stats()


def deferred_removed(run: Run) -> None:
    """A deferred object that is removed does not come back with its parent."""
    a, b = run.chain("ab")
    run.put(b)
    run.drop(b)
    run.put(a)
    run.look([a, b])


def parent_taken_meanwhile(run: Run) -> None:
    """Begun while its parent was there, committed when it is not."""
    a, b = run.chain("ab")
    run.put(a)
    label = run.begin(b)
    run.drop(a, force=True)
    run.clear(force=True)
    run.commit(b, label)
    run.look([a, b])
    run.put(a)
    label = run.begin(b)
    run.look([b])
    run.commit(b, label)
    run.look([a, b])


def open_parent(run: Run) -> None:
    """A parent that is only begun is no parent yet."""
    a, b = run.chain("ab")
    label = run.begin(a)
    run.put(b)
    run.look([a, b])
    run.commit(a, label)
    run.look([a, b])
    run.put(b)
    run.look([a, b])


def cycles(run: Run) -> None:
    """A lineage that closes a cycle, itself included."""
    a, b = run.chain("ab")
    run.put(attrs.evolve(a, parent=a.key))
    run.put(attrs.evolve(a, parent=b.key))
    run.put(attrs.evolve(b, parent=a.key))
    run.look([a, b])
    run.put(a)
    run.put(b)
    run.look([a, b])


def other_namespace(run: Run) -> None:
    """A parent in another namespace is as if absent."""
    a, b = run.chain("ab")
    run.put(a, options=PutOptions(namespace="n1"))
    run.put(b, options=PutOptions(namespace="n2"))
    run.look([a, b])
    run.put(b, options=PutOptions(namespace="n1"))
    run.look([a, b])


def removal_leaves_no_orphan(run: Run) -> None:
    """Removals in the middle of a chain, then the chain is stored again."""
    chain = run.chain("abc")
    run.put_all(chain)
    run.drop(chain[1])
    run.look(chain)
    run.match(chain)
    run.drop(chain[1], force=True)
    run.look(chain)
    run.match(chain)
    run.put_all(chain)
    run.look(chain)
    run.match(chain)


def batch_of_a_chain(run: Run) -> None:
    """A batch with a chain in order, with a member that fails, and in reverse."""
    a, b, c, d = run.chain("abcd")
    for block in (a, b, c, d):
        run.tell(block)
    run.do("put_many", items=[run.item(a), run.item(b, size=run.sizes.too_large), run.item(c), run.item(d)])
    run.look([a, b, c, d])
    run.do("put_many", items=[run.item(block) for block in (d, c, b)])
    run.look([a, b, c, d])
    run.do("put_many", items=[run.item(block) for block in (b, c, d)])
    run.look([a, b, c, d])


def mirror(run: Run) -> None:
    """A consumer follows the events through stores, evictions, removals, a clear; and asks for snapshots."""
    a, b, c = run.chain("abc")
    d = run.block("d", a)
    run.put_all([a, b, c, d])
    for call in ("snapshot", "events"):
        if run.offers(call):
            run.do(call)
    run.press(run.sizes.units)
    if run.offers("snapshot"):
        run.do("snapshot")
    run.put_all([a, b])
    run.drop(b, force=True)
    run.clear(force=True)
    run.put(a)
    run.look([a, b, c, d])
    if run.offers("snapshot"):
        run.do("snapshot")
    run.do("events", after=3)


def index(run: Run) -> None:
    """Store, look up, remove, look up: residency and nothing else."""
    chain = run.chain("abcd")
    for block in chain:
        run.put_patiently(block)
        run.match(chain)
    run.drop(chain[-1])
    run.match(chain)
    if run.offers("probe"):
        run.look(chain)
    run.clear(force=True)
    run.match(chain)
    run.put_all(chain[:2])
    run.match(chain)
    run.match(chain[1:])
