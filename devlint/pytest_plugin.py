"""The pytest plugin: a test marked `@pytest.mark.devices` runs on every device that there is, and on simulated ones.

The test takes `device`, a torch.device: the CPU, each accelerator that torch finds, and the first of two simulated CUDA
devices, inside `devlint.runtime.simulate`. Nothing is imported until a marked test is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

_SIMULATED = "simulated"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "devices: run the test on the CPU, on each accelerator, and on simulated ones; the test takes `device`.",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per device."""
    if metafunc.definition.get_closest_marker("devices") is None:
        return
    from devlint.runtime.devices import real_devices

    if "device" not in metafunc.fixturenames:
        metafunc.fixturenames.append("device")
    names = ["cpu", *(device.torch_name for device in real_devices()), _SIMULATED]
    metafunc.parametrize("device", names, indirect=True)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The device of this run of a test that is marked `devices`; outside of such tests the CPU."""
    from devlint.runtime import simulate
    from devlint.runtime.torch_import import require_torch

    torch = require_torch()
    name = getattr(request, "param", "cpu")
    if name != _SIMULATED:
        yield torch.device(name)
        return
    with simulate(devices=2):
        yield torch.device("cuda", 0)
