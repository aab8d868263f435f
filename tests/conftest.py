"""What every test may rely on, wherever the tests are started from."""

import signal

# A shell ignores Ctrl-C for its background jobs, and so would every process that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
