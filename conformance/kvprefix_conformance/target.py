"""What is tested: a name, and a way to open a fresh instance of it."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kvprefix.api import Backend


@attrs.frozen
class Target:
    """A backend that can be opened as often as the run needs it."""

    name: str
    open: Callable[[], Backend]
    #: How the user named it on the command line, so that printed commands can be pasted.
    spec: str = ""
