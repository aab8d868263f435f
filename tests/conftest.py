"""What every test may rely on, wherever the tests are started from."""

import signal

from hypothesis import settings

# A test proves something or not; how long an example takes is a matter of the machine.
settings.register_profile("patient", settings.get_profile("default"), deadline=None)
if settings.get_current_profile_name() == "default":  # and not that of continuous integration
    settings.load_profile("patient")

# A shell ignores Ctrl-C for its background jobs, and so would every process that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
