"""Have TuneD's own code load a profile, apply it, check it and take it back, as its daemon does.

Run by tests/tuning/test_exporting.py with /sys and /proc/sys replaced. Arguments: where TuneD is
unpacked, the directory of profiles, and the files to read.
"""

import json
import sys
from pathlib import Path
from typing import Any


def used(unpacked: str, directory: str, names: list[str]) -> dict[str, Any]:
    """Return what TuneD reads, what its check says, and what the files hold with it and after."""
    sys.path.insert(0, f"{unpacked}/usr/lib/python3/dist-packages")
    from tuned import (  # type: ignore[import-not-found] # noqa: PLC0415
        hardware,
        monitors,
        plugins,
        profiles,
        storage,
        units,
    )
    from tuned.profiles.variables import Variables  # type: ignore[import-not-found] # noqa: PLC0415
    from tuned.utils.global_config import (  # type: ignore[import-not-found] # noqa: PLC0415
        GlobalConfig,
    )

    def contents() -> list[str]:
        return [Path("/", name).read_text(encoding="ascii").strip() for name in names]

    # As in tuned/daemon/application.py, without its bus and its socket.
    config, variables = GlobalConfig(f"{unpacked}/etc/tuned/tuned-main.conf"), Variables()
    watched, inventory = monitors.Repository(), hardware.Inventory(set_receive_buffer_size=False)
    known = plugins.Repository(
        watched,
        storage.Factory(storage.PickleProvider()),
        inventory,
        hardware.DeviceMatcher(),
        hardware.DeviceMatcherUdev(),
        plugins.instance.factory.Factory(),
        config,
        variables,
    )
    manager = units.Manager(known, watched, 0, inventory, config)
    loader = profiles.Loader(
        profiles.Locator([directory]), profiles.Factory(), profiles.Merger(), config, variables
    )
    profile = loader.load(["schedlab"])
    read = {name: dict(unit.options) for name, unit in profile.units.items()}
    manager.create(profile.units)
    manager.start_tuning()
    verified, applied = manager.verify_tuning(False), contents()
    manager.stop_tuning(False)
    return {"read": read, "verified": verified, "applied": applied, "taken_back": contents()}


if __name__ == "__main__":
    print(json.dumps(used(sys.argv[1], sys.argv[2], sys.argv[3:])))  # noqa: T201
