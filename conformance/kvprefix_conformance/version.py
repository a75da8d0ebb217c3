"""The version of the suite, as installed. It stands in every report and scenario."""

from __future__ import annotations

import functools
from importlib import metadata


@functools.cache
def suite_version() -> str:
    """The version of the installed distribution; "unknown" where the package is used without being installed."""
    try:
        return metadata.version("kvprefix")
    except metadata.PackageNotFoundError:
        return "unknown"
