"""Where the page's module cannot be built, the build says what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

TOOLS = ("bash", "awk", "paste", "dirname", "mkdir", "realpath", "rm", "tr")


def test_without_target_and_packages_the_build_says_what_is_missing(tmp_path: Path) -> None:
    # A machine with neither the toolchain's target nor apt-get: a compiler that knows no target.
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    compiler = tools / "rustc"
    compiler.write_text("#!/bin/bash\nexit 1\n")
    compiler.chmod(0o755)
    module = tmp_path / "web.wasm"
    module.write_bytes(b"of an older build")
    environment = {"PATH": str(tools), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    done = subprocess.run(
        [ROOT / "scripts" / "build-web", module],
        env=environment | {"HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    (said,) = done.stderr.splitlines()
    assert "the live page is not built" in said
    assert "rustup target add wasm32-unknown-unknown" in said
    assert "rustc-web" in said
    # No page is made of what was built before.
    assert not module.exists()
