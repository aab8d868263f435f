"""What every test may rely on, wherever the tests are started from."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A test proves something or not; how long an example takes is a matter of the machine.
settings.register_profile("patient", settings.get_profile("default"), deadline=None)
if settings.get_current_profile_name() == "default":  # and not that of continuous integration
    settings.load_profile("patient")

# A shell ignores Ctrl-C for its background jobs, and so would every process that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A folder that other users see.

    Each pytest that starts keeps other users from the folders of all of them.
    """
    with tempfile.TemporaryDirectory(prefix="walras-test-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
