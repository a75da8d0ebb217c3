"""What the suite gives to writers of adapters: the whole contract in one import, and a clock."""

from __future__ import annotations

import pytest

from kvprefix import api
from kvprefix_conformance import adapter


def test_the_whole_contract_is_in_one_import() -> None:
    contract = {
        name for name, value in vars(api).items() if not name.startswith("_") and getattr(value, "__module__", "") == api.__name__
    }
    assert contract - set(adapter.__all__) == set()


def test_a_driven_clock_stands_still_until_it_is_moved() -> None:
    clock = adapter.DrivenClock()
    assert (clock.now(), clock.now()) == (0, 0)
    clock.advance(250)
    assert clock.now() == 250


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        adapter.DrivenClock().advance(-1)


def test_a_driven_clock_gives_a_backend_both_hooks() -> None:
    assert api.offers(adapter.DrivenClock(), "now")
    assert api.offers(adapter.DrivenClock(), "advance")
