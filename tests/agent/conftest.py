import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "guest: runs inside an emulated machine, minutes long; needs WALRAS_GUEST"
    )
