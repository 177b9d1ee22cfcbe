"""What is installed from the wheel is the whole package."""

import subprocess
import sys
import zipfile
from pathlib import Path

import sidecar

ROOT = Path(__file__).resolve().parent.parent


def test_the_wheel_carries_every_file_of_the_package(tmp_path: Path) -> None:
    """The Lua scripts and the typing marker ship, and nothing beside the package does."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob(f"cursor_sidecar-{sidecar.__version__}-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "sidecar").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped == source
